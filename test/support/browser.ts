/** A headless Chromium on this machine, and the server of the pages that it shows. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];
const FIREFOX_NAMES = ['firefox', 'firefox-esr'];

/** A page has this long for its result. */
const RESULT_MS = 60_000;

const FLAGS = [
  '--headless=new',
  // As root it has no sandbox. It shows nothing but the pages of the tests.
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--no-first-run',
  '--no-default-browser-check',
];

/** The Chromium that is installed; null, and a warning, without one. */
export function findChromium(): string | null {
  const found = NAMES.find((name) => spawnSync(name, ['--version']).status === 0) ?? null;
  if (found === null) console.warn(`skipped: none of ${NAMES.join(', ')} is installed`);
  return found;
}

/** The Firefox that is installed; null without one. */
export function findFirefox(): string | null {
  return FIREFOX_NAMES.find((name) => spawnSync(name, ['--version']).status === 0) ?? null;
}

/** Serves one script as a page, files next to it, and takes the results that its pages post. */
export class PageServer {
  readonly #files: ReadonlyMap<string, string | Uint8Array>;
  readonly #server: Server;
  #deliver: (result: unknown) => void = () => {};

  private constructor(script: string, files: Readonly<Record<string, Uint8Array>>) {
    const page = '<!doctype html><script type="module" src="/page.js"></script>';
    this.#files = new Map<string, string | Uint8Array>([
      ['/', page],
      ['/page.js', script],
      ...Object.entries(files),
    ]);
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** Starts it on a separate port. Files are by path, with a slash before. */
  static async start(
    script: string,
    files: Readonly<Record<string, Uint8Array>>,
  ): Promise<PageServer> {
    const started = new PageServer(script, files);
    started.#server.listen(0, '127.0.0.1');
    await once(started.#server, 'listening');
    return started;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://page');
    if (pathname === '/result') {
      this.#deliver(JSON.parse(await text(request)));
      response.end();
      return;
    }
    const file = this.#files.get(pathname);
    const type = pathname.endsWith('.js') ? 'text/javascript' : 'text/html';
    response.writeHead(file === undefined ? 404 : 200, { 'Content-Type': type }).end(file);
  }

  /** Shows the page, and gives the first result that it posts. */
  async show(browser: string, query: Readonly<Record<string, string>>): Promise<unknown> {
    const profile = mkdtempSync(join(tmpdir(), 'safetensors-mmap-chromium-'));
    const { port } = this.#server.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/?${new URLSearchParams(query)}`;
    const posted = new Promise((resolve) => {
      this.#deliver = resolve;
    });
    // Its processes are a group, which ends together.
    const child = spawn(browser, [...FLAGS, `--user-data-dir=${profile}`, url], {
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    try {
      return await Promise.race([posted, failureOf(child)]);
    } finally {
      await end(child);
      rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
    }
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}

/** Rejects when the browser ends by itself, and when it takes too long. */
async function failureOf(child: ChildProcess): Promise<never> {
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (piece: string) => {
    stderr += piece;
  });
  const why = await new Promise<string>((resolve) => {
    const timer = setTimeout(resolve, RESULT_MS, `no result within ${RESULT_MS} ms`);
    timer.unref();
    child.once('error', (error) => resolve(String(error)));
    child.once('exit', (code, signal) => resolve(`it ended with ${code ?? signal}`));
  });
  throw new Error(`Chromium: ${why}\n${stderr.slice(-2000)}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null) return;
  const ended = once(child, 'exit');
  process.kill(-child.pid, 'SIGKILL');
  await ended;
}
