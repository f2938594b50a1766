/** The page that shows checkpoints: the file that the package ships, and the policy under which it runs. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';

/** The built page of `viewer/`, compressed. `scripts/bundle.mjs` adapts the path to the place of the bundle. */
const FILE = '../../../lib/viewer/index.html.br';

/** A script or style in the page, with its text. What looks like one inside of another belongs to that one's text. */
const INLINED = /<(script|style)\b[^>]*>(.*?)<\/\1\s*>/gis;

/** The page and what goes out with it. */
export interface Page {
  readonly bytes: Uint8Array;
  /** Its Content-Security-Policy. */
  readonly policy: string;
}

/**
 * The policy of a page: nothing but its own scripts and styles, workers and images that these make, and requests to
 * this server and to addresses that people type. No page may frame it.
 */
export function policyOf(html: string): string {
  const hashes: Record<string, string[]> = { script: [], style: [] };
  for (const [, tag = '', text = ''] of html.matchAll(INLINED)) {
    const hash = createHash('sha256').update(text).digest('base64');
    hashes[tag.toLowerCase()]?.push(`'sha256-${hash}'`);
  }
  const allowed = (tag: string): string => hashes[tag]?.join(' ') || "'none'";
  return [
    "default-src 'none'",
    `script-src ${allowed('script')}`,
    `style-src ${allowed('style')}`,
    'worker-src blob:',
    'img-src blob:',
    "connect-src 'self' https: http:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

/**
 * The page, as HTML.
 *
 * @throws Error without its file
 */
export function readPage(path: string = fileURLToPath(new URL(FILE, import.meta.url))): Buffer {
  try {
    return brotliDecompressSync(readFileSync(path));
  } catch (cause) {
    const message =
      `expected the page at ${path}, found ${(cause as NodeJS.ErrnoException).code}: the package is incomplete; ` +
      'install it again, or build it in a clone by `npm run build`';
    throw new Error(message, { cause });
  }
}

/** The page, as it is served. Throws an Error without its file. */
export function servedPage(path?: string): Page {
  const bytes = readPage(path);
  return { bytes, policy: policyOf(bytes.toString()) };
}
