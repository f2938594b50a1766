/** The page of `viewer/` in a real browser: opened from a server, watched for what it must not do. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { source as axeSource } from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, expect } from 'vitest';
import { servedPage } from '../../src/cli/serve/page.js';
import { PageServer } from '../../src/cli/serve/server.js';
import { servedSources } from '../../src/cli/serve/sources.js';
import { findChromium } from './browser.js';
import type { HubServer } from './hub-server.js';

/** The built page. */
export const PAGE_FILE: string = fileURLToPath(
  new URL('../../lib/viewer/index.html', import.meta.url),
);

/** Widths that people look at, with a usual height. */
export const WIDTHS = [1440, 1024, 390] as const;

let started: Promise<Browser> | undefined;
const ended: (() => Promise<void> | void)[] = [];

afterAll(async () => {
  for (const end of ended.splice(0).reverse()) await end();
  await (await started)?.close();
  started = undefined;
});

/** Runs at the end of the test file. */
export function atEnd(end: () => Promise<void> | void): void {
  ended.push(end);
}

/** A folder until the end of the test file. */
export function folderUntilEnd(): string {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  atEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The browser of this test file. */
export function browser(): Promise<Browser> {
  const name = findChromium();
  if (name === null) throw new Error('there is no Chromium; apt-get install chromium');
  started ??= chromium.launch({
    executablePath: execFileSync('which', [name], { encoding: 'utf8' }).trim(),
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--js-flags=--expose-gc'],
  });
  return started;
}

/** For pages: writes what the policy refuses into the console. */
const REPORT_VIOLATIONS = `addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
  console.error(\`violation of \${violatedDirective}: \${blockedURI}\`))`;

/** A page that is watched. */
export interface Viewer {
  readonly page: Page;
  /** Errors of the console, of scripts, and violations of the policy. */
  readonly faults: string[];
  /** Addresses of all requests of the page and its worker but that for the page, without queries. */
  readonly requests: string[];
}

/** Opens an address in a separate page. */
export async function show(url: string, options: BrowserContextOptions = {}): Promise<Viewer> {
  const context = await (await browser()).newContext({
    viewport: { width: 1440, height: 900 },
    colorScheme: 'light',
    ...options,
  });
  atEnd(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') faults.push(message.text());
  });
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on('page', (popup) => faults.push(`another page: ${popup.url()}`));
  await page.addInitScript(REPORT_VIOLATIONS);
  const requests: string[] = [];
  context.on('request', (request) => {
    if (!request.isNavigationRequest()) requests.push(request.url().replace(/\?.*$/s, ''));
  });
  await page.goto(url);
  return { page, faults, requests };
}

/** Serves sources as the command does, until the end of the test file. */
export async function serve(...sources: readonly string[]): Promise<PageServer> {
  const { signal } = new AbortController();
  const served = await Promise.all(sources.map((source) => servedSources(source, {}, signal)));
  const server = await PageServer.start(
    { page: servedPage(), sources: served.flatMap(({ sources }) => sources) },
    0,
  );
  atEnd(() => server.close());
  return server;
}

/** The address of a view of a served page. */
export function viewOf(server: PageServer, address: string): string {
  return server.address.replace(/#.*$/s, `#${address}`);
}

/** Opens the menu that has a button, and presses that. */
export async function pressInMenu(page: Page, label: string | RegExp): Promise<void> {
  const button = page.getByRole('button', { name: label, includeHidden: true }).first();
  await page.locator('details.menu').filter({ has: button }).locator('summary').first().click();
  await button.click();
}

/** Presses a button that saves, and gives the text of the file. */
export async function savedText(page: Page, label: string | RegExp): Promise<string> {
  const saved = page.waitForEvent('download');
  await pressInMenu(page, label);
  return readFileSync(await (await saved).path(), 'utf8');
}

/** Fails with what axe finds, rule by rule. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: typeof import('axe-core') };
    const { violations } = await axe.run();
    return violations.map(({ id, help, nodes }) => ({
      id,
      help,
      nodes: nodes.map(({ html, failureSummary }) => [html.slice(0, 200), failureSummary]),
    }));
  });
  expect(found).toEqual([]);
}

/** The names of the tensors at the side, once there are some. */
export async function shownTensors(page: Page): Promise<string[]> {
  const rows = page.getByRole('treeitem');
  await rows.first().waitFor();
  return await rows.locator('.name').allTextContents();
}

/** Drops files and folders of this machine onto the page, as the system does. */
export async function drop(page: Page, paths: readonly string[], at = 'body'): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const box = await page.locator(at).first().boundingBox();
  if (box === null) throw new Error(`${at} is not on the page`);
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const data = { items: [], files: [...paths], dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await session.send('Input.dispatchDragEvent', { type, x, y, data });
  }
}

/** The local Hub answers requests of the page to huggingface.co. */
export async function answerForHub(page: Page, hub: HubServer): Promise<void> {
  await page.context().route('https://huggingface.co/**', async (route) => {
    const asked = route.request();
    const { pathname, search } = new URL(asked.url());
    const [method, headers] = [asked.method(), await asked.allHeaders()];
    // As it is sent: `fetch` would decode the body.
    const send = async (path: string): Promise<IncomingMessage> => {
      const sent = request(`${hub.url}${path}`, { method, headers, agent: false });
      const answered = once(sent, 'response');
      sent.end();
      const [answer] = (await answered) as [IncomingMessage];
      const { location = '' } = answer.headers;
      // The browser would follow to the real host: no route sees requests after a redirect.
      return location.startsWith('/') ? await send(location) : answer;
    };
    const answer = await send(`${pathname}${search}`);
    await route.fulfill({
      status: answer.statusCode as number,
      headers: answer.headers as Record<string, string>,
      body: await buffer(answer),
    });
  });
}
