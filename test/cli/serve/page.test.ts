import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { brotliCompressSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { policyOf, servedPage } from '../../../src/cli/serve/page.js';
import { temporaryPath } from '../../support/make-file.js';

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** The sources that a policy allows, by directive. */
function directives(policy: string): Record<string, string> {
  return Object.fromEntries(
    policy.split('; ').map((one) => [one.split(' ', 1)[0], one.slice(one.indexOf(' ') + 1)]),
  );
}

it('a page may run its own scripts and styles, by their hashes, and nothing else', () => {
  const script = 'const text = "<style>p{}</style>";\n// é\n';
  const html = `<!doctype html><style>a{}</style><SCRIPT type="module">${script}</script ><style media="print">b{}</style>`;
  expect(directives(policyOf(html))).toEqual({
    'default-src': "'none'",
    'script-src': hashOf(script),
    'style-src': `${hashOf('a{}')} ${hashOf('b{}')}`,
    'worker-src': 'blob:',
    'img-src': 'blob:',
    'connect-src': "'self' https: http:",
    'frame-ancestors': "'none'",
    'base-uri': "'none'",
    'form-action': "'none'",
  });
});

it('a page without scripts may run none', () => {
  const { 'script-src': script, 'style-src': style } = directives(policyOf('<p>text</p>'));
  expect([script, style]).toEqual(["'none'", "'none'"]);
});

it('the page is the decompressed text of its file', () => {
  const path = temporaryPath('page.html.br');
  writeFileSync(path, brotliCompressSync('<p>é</p>'));
  expect(Buffer.from(servedPage(path).bytes).toString()).toBe('<p>é</p>');
});

it('a page that is cut short is an incomplete package', () => {
  const path = temporaryPath('page.html.br');
  writeFileSync(path, brotliCompressSync('<p>é</p>').subarray(0, -9));
  expect(() => servedPage(path)).toThrow(`found Z_BUF_ERROR: the package is incomplete`);
});

it('a package without the page says so', () => {
  const path = temporaryPath('page.html.br');
  expect(() => servedPage(path)).toThrow(
    `expected the page at ${path}, found ENOENT: the package is incomplete; install it again`,
  );
});
