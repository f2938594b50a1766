/** The site: its one command builds it without a warning, nothing in it leads nowhere, and a phone can show it. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, dirname, extname, join, posix } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium } from '../support/browser.js';
import { publicNames } from '../support/examples.js';
import { filesBelow, root } from '../support/source-tree.js';

const html = join(root, 'site/build/html');
const ENTRIES = ['index', 'inspect', 'hub'];

let output = '';
let files = new Set<string>();

/** Texts of the pages by their path. The page that shows checkpoints is not one of the site's making. */
const pages = new Map<string, string>();

beforeAll(() => {
  const options = { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['site/build.mjs'], options);
  output = stdout + stderr;
  expect(status, output).toBe(0);
  const entries = readdirSync(html, { recursive: true, encoding: 'utf8' });
  files = new Set(entries.map((path) => path.replaceAll('\\', '/')));
  for (const path of files) {
    if (!path.endsWith('.html') || path.startsWith('view/')) continue;
    pages.set(path, readFileSync(join(html, path), 'utf8'));
  }
});

describe('the site', () => {
  it('is built without a warning', () => {
    expect(output).not.toMatch(/warn|dead link|\(!\)|deprecat/i);
  });

  it('has all pages of docs, of the examples, and the page that shows checkpoints', () => {
    const docs = filesBelow('docs').filter((path) => !path.startsWith('docs/internals/'));
    const sources = [...docs, ...filesBelow('examples')];
    const expected = sources.filter((path) => path.endsWith('.md'));
    expect(expected.length).toBeGreaterThan(20);
    const missing = expected.filter((path) => !files.has(path.replace(/\.md$/, '.html')));
    expect(missing).toEqual([]);
    expect(files.has('view/index.html')).toBe(true);
  });

  it('has a page for every exported name', () => {
    const names = new Set(ENTRIES.flatMap((entry) => [...publicNames(entry).keys()]));
    // An alias has a line on the page of its module, which leads to what it names.
    names.delete('SafetensorParseError');
    const referred = [...pages.keys()].filter((path) => path.startsWith('reference/'));
    const shown = new Set(referred.map((path) => basename(path, '.html')));
    expect(names.size).toBeGreaterThan(150);
    expect([...names].filter((name) => !shown.has(name))).toEqual([]);
  });

  it('can be searched without network', () => {
    expect([...files].filter((path) => path.includes('localSearchIndex'))).not.toEqual([]);
    const external = /<(?:script|link|img)[^>]+(?:src|href)="https?:\/\/(?!example\.org)/;
    expect([...pages].filter(([, text]) => external.test(text)).map(([path]) => path)).toEqual([]);
  });

  it('has no link to a page or a heading that is not there', () => {
    const broken = [...pages].flatMap(([page, text]) =>
      Array.from(text.matchAll(/<a [^>]*?href="([^"]+)"/g), ([, link = '']) => link)
        .filter((link) => !isThere(page, link.replaceAll('&amp;', '&')))
        .map((link) => `${page}: ${link}`),
    );
    expect([...new Set(broken)]).toEqual([]);
  });
});

/** Whether a link of a page leads to a file of the site, and its anchor to an element there. */
function isThere(page: string, link: string): boolean {
  if (/^(?:https?|mailto):/.test(link)) return true;
  const [path = '', anchor = ''] = link.split('#');
  const target = path.startsWith('/') ? path.slice(1) : posix.join(dirname(page), path);
  const file = path === '' ? page : /(?:^|\/)$/.test(target) ? `${target}index.html` : target;
  if (!files.has(file)) return false;
  const text = pages.get(file);
  return anchor === '' || !text || text.includes(`id="${decodeURIComponent(anchor)}"`);
}

describe.skipIf(findChromium() === null)('in a browser', () => {
  const SHOWN = [
    ...['index', 'docs/getting-started', 'docs/which-call', 'docs/from-python', 'docs/reading'],
    ...['docs/servers', 'docs/cli', 'docs/errors', 'docs/guarantees'],
    'reference/index/interfaces/SaveOptions',
  ];
  const TYPES: Readonly<Record<string, string>> = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.svg': 'image/svg+xml',
  };
  let server: Server;
  let browser: Browser;

  beforeAll(async () => {
    server = createServer(({ url = '/' }, response) => {
      const path = new URL(url, 'http://page').pathname.replace(/\/$/, '/index.html');
      const file = join(html, path);
      const type = TYPES[extname(file)] ?? 'application/octet-stream';
      if (!existsSync(file)) response.writeHead(404).end();
      else response.writeHead(200, { 'Content-Type': type }).end(readFileSync(file));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    browser = await chromium.launch({
      executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'],
    });
  });

  afterAll(async () => {
    await browser?.close();
    server?.close();
  });

  it.each([
    [1280, 900, 'light'],
    [390, 844, 'dark'],
  ] as const)('is %i pixels wide, and no page is wider', async (width, height, colorScheme) => {
    const folder = join(root, 'site/build/screenshots');
    mkdirSync(folder, { recursive: true });
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    const { port } = server.address() as AddressInfo;
    for (const path of SHOWN) {
      await page.goto(`http://127.0.0.1:${port}/${path}.html`, { waitUntil: 'networkidle' });
      const shown = await page.evaluate<number>('document.documentElement.scrollWidth');
      expect(shown, path).toBeLessThanOrEqual(width);
      const name = `${path.replaceAll('/', '-')}-${width}-${colorScheme}.png`;
      await page.screenshot({ path: join(folder, name) });
    }
    expect(errors).toEqual([]);
    await context.close();
  });
});
