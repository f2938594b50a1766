/** The site builds without a warning, all links work, tables fit on a phone, and searches find the right page. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, dirname, extname, join, posix } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findChromium } from '../support/browser.js';
import { publicNames } from '../support/examples.js';
import { HubServer } from '../support/hub-server.js';
import { fileBytes } from '../support/make-file.js';
import { filesBelow, root, textOf } from '../support/source-tree.js';
import {
  answerForHub,
  atEnd,
  drop,
  folderUntilEnd,
  browser as launchBrowser,
  show,
  shownTensors,
} from '../support/viewer-page.js';

const html = join(root, 'site/build/html');
const ENTRIES = ['index', 'inspect', 'hub'];

let output = '';
let files = new Set<string>();

/** Texts of the pages by their path, without the viewer. */
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

  it('has all pages of docs and examples, and the viewer', () => {
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

  it('lists all options of a function on its page, with descriptions', () => {
    const functions = [...pages].filter(([path]) => /^reference\/\w+\/functions\//.test(path));
    const options = new Map(
      functions
        .filter(
          ([, text]) =>
            text.includes('<code>options</code>') || text.includes('<code>options?</code>'),
        )
        .map(([path, text]) => {
          const [, table = ''] =
            /<h2 id="options"[\s\S]*?<tbody>([\s\S]*?)<\/tbody>/.exec(text) ?? [];
          return [basename(path, '.html'), table.match(/<tr>[\s\S]*?<\/tr>/g) ?? []];
        }),
    );
    expect([...options].filter(([, rows]) => rows.length === 0)).toEqual([]);
    expect(options.get('safeOpenAsync')?.join()).toMatch(/>expectedHash<[\s\S]+>signal</);
    const bare = [...options].filter(([, rows]) => rows.some((row) => /<td[^>]*><\/td>/.test(row)));
    expect(bare.map(([name]) => name)).toEqual([]);
  });

  it('has a card for social media and a mark, and every page names both', () => {
    const card = readFileSync(join(html, 'card.png'));
    expect([card.readUInt32BE(16), card.readUInt32BE(20)]).toEqual([1200, 630]);
    expect(files.has('mark.svg')).toBe(true);
    const head =
      /<link rel="icon" type="image\/svg\+xml" href="\/mark\.svg">[\s\S]*property="og:image" content="https:/;
    expect([...pages].filter(([, text]) => !head.test(text)).map(([path]) => path)).toEqual([]);
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
    'index',
    ...filesBelow('docs')
      .filter((path) => /^docs\/[\w-]+\.md$/.test(path))
      .map((path) => path.replace('.md', '')),
    ...['reference/index/interfaces/ConversionOptions', 'reference/index/functions/convert'],
  ];
  const TYPES: Readonly<Record<string, string>> = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.svg': 'image/svg+xml',
    '.png': 'image/png',
  };
  let server: Server;
  let browser: Browser;
  let site: string;

  beforeAll(async () => {
    server = createServer(({ url = '/' }, response) => {
      const path = new URL(url, 'http://page').pathname.replace(/\/$/, '/index.html');
      const file = join(html, path);
      const type = TYPES[extname(file)] ?? 'application/octet-stream';
      if (!existsSync(file)) response.writeHead(404).end();
      else response.writeHead(200, { 'Content-Type': type }).end(readFileSync(file));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    site = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    browser = await launchBrowser();
  });

  afterAll(() => {
    server?.close();
  });

  it.each([
    [1280, 'light', 900],
    [1280, 'dark', 900],
    [390, 'light', 844],
    [390, 'dark', 844],
  ] as const)('%i pixels wide, %s: pages and tables fit', async (width, colorScheme, height) => {
    const folder = join(root, 'site/build/screenshots');
    mkdirSync(folder, { recursive: true });
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    for (const path of SHOWN) {
      await page.goto(`${site}/${path}.html`, { waitUntil: 'networkidle' });
      const shown = await page.evaluate<number>('document.documentElement.scrollWidth');
      expect(shown, path).toBeLessThanOrEqual(width);
      const cut = await page.evaluate<string[]>(
        `[...document.querySelectorAll('.vp-doc table')]
          .filter((table) => table.scrollWidth > table.clientWidth + 1)
          .map((table) => table.querySelector('tr').textContent)`,
      );
      expect(cut, path).toEqual([]);
      const name = `${path.replaceAll('/', '-')}-${width}-${colorScheme}.png`;
      await page.screenshot({ path: join(folder, name) });
    }
    expect(errors).toEqual([]);
    await context.close();
  });

  it('has a front page with the install command to copy, figures of the README, and the viewer', async () => {
    const context = await browser.newContext({
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    const page = await context.newPage();
    await page.goto(`${site}/index.html`, { waitUntil: 'networkidle' });
    await page.getByTitle('Copy command').click();
    await page.locator('button.copied').waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
      'npm install safetensors-mmap',
    );
    const figures = await page.locator('.figures strong').allTextContents();
    expect(figures).toHaveLength(3);
    const [row = ''] = /^\| \*\*safetensors-mmap.*$/m.exec(textOf('README.md')) ?? [];
    expect(figures.filter((figure) => !row.includes(figure))).toEqual([]);
    const width = 'document.querySelector(".front .viewer img").naturalWidth';
    expect(await page.evaluate<number>(width)).toBeGreaterThan(1000);
    await page.getByRole('link', { name: 'Get started' }).click();
    await page.waitForURL('**/docs/getting-started.html');
    await context.close();
  });

  it.each([
    ['leak', 'docs/servers.html#rss-and-memory-leaks'],
    ['install', 'docs/getting-started.html#install'],
    ['cancel', 'docs/writing.html#cancel-a-save'],
    ['docker', 'docs/servers.html#docker'],
    ['gguf', 'docs/other-formats.html#gguf'],
    ['proxy', 'docs/remote.html#proxy-and-certificates'],
  ])('a search for %s leads to %s first', async (word, first) => {
    const page = await browser.newPage();
    await page.goto(`${site}/index.html`, { waitUntil: 'networkidle' });
    await page.keyboard.press('Control+k');
    await page.locator('#localsearch-input').fill(word);
    const result = page.locator(`.result[href="/${first}"]`);
    await result.waitFor();
    const results = await page
      .locator('.result')
      .evaluateAll((links) => links.map((link) => link.getAttribute('href')));
    expect(results[0]).toBe(`/${first}`);
    await page.close();
  });

  it('has a viewer that opens dropped files and repositories of the Hub', async () => {
    const bytes = fileBytes([{ name: 'a.weight', dtype: 'F32', shape: [2, 3] }]);
    const file = join(folderUntilEnd(), 'dropped.safetensors');
    writeFileSync(file, bytes);
    const dropped = await show(`${site}/view/index.html`);
    await drop(dropped.page, [file], '.drop');
    expect(await shownTensors(dropped.page)).toEqual(['a.weight']);

    const hub = await HubServer.start({ 'org/model': { files: { 'model.safetensors': bytes } } });
    atEnd(() => hub.close());
    const opened = await show(`${site}/view/index.html`);
    await answerForHub(opened.page, hub);
    const address = opened.page.getByLabel('Address of a checkpoint');
    await address.fill('hf://org/model');
    await address.press('Enter');
    expect(await shownTensors(opened.page)).toEqual(['a.weight']);
    expect([...dropped.faults, ...opened.faults]).toEqual([]);
  });
});
