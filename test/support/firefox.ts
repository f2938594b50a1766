/** The Firefox of this machine, driven by WebDriver BiDi: commands and events as JSON over a WebSocket. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { WebSocket } from 'undici';
import { findFirefox } from './browser.js';

/** The icon that browsers ask for by themselves; the page's policy refuses it before it is asked for. */
const ICON = '/favicon.ico';

/** How often a page is looked at. */
const LOOK_MS = 50;

/** Settings that a profile needs: no requests of the browser's own. */
const PREFERENCES = `
user_pref('app.update.enabled', false);
user_pref('browser.shell.checkDefaultBrowser', false);
user_pref('datareporting.policy.dataSubmissionEnabled', false);
user_pref('network.captive-portal-service.enabled', false);
user_pref('network.connectivity-service.enabled', false);
user_pref('toolkit.telemetry.reportingpolicy.firstRun', false);
`;

const ADDRESS = /WebDriver BiDi listening on (ws:\/\/\S+)/;

type Fields = Readonly<Record<string, unknown>>;

interface Answer {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Fields;
  readonly result?: Fields;
  readonly error?: string;
  readonly message?: string;
}

interface Waiting {
  resolve(result: Fields): void;
  reject(error: Error): void;
}

/** The address on which a browser that starts takes commands. */
async function addressOf(child: ChildProcess): Promise<string> {
  const lines = createInterface({ input: child.stderr as NodeJS.ReadableStream });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`Firefox ended with ${code}`);
  });
  const found = (async () => {
    for await (const line of lines) {
      const [, address] = ADDRESS.exec(line) ?? [];
      if (address !== undefined) return address;
    }
    throw new Error('Firefox takes no commands');
  })();
  const address = await Promise.race([found, ended]);
  ended.catch(() => {});
  child.stderr?.resume();
  return address;
}

/** A page of Firefox. */
export interface FirefoxPage {
  /** Errors of the console and of scripts. */
  readonly faults: string[];
  /** Addresses of all requests after that for the page, without queries. */
  readonly requests: string[];
  /** The value of an expression, as JSON has it. */
  evaluate(expression: string): Promise<unknown>;
  /** Waits until an expression is true, and fails with the page's text when it takes too long. */
  until(expression: string): Promise<void>;
  /** Gives files of this machine to an `<input type=file>`. */
  choose(selector: string, files: readonly string[]): Promise<void>;
}

/** A running Firefox. */
export class Firefox {
  readonly #child: ChildProcess;
  readonly #profile: string;
  readonly #waiting = new Map<number, Waiting>();
  readonly #listeners: ((answer: Answer) => void)[] = [];
  #socket: WebSocket | undefined;
  #lastId = 0;

  private constructor(program: string) {
    this.#profile = mkdtempSync(join(tmpdir(), 'safetensors-mmap-firefox-'));
    writeFileSync(join(this.#profile, 'user.js'), PREFERENCES);
    const args = ['--headless', '--no-remote', '--remote-debugging-port', '0'];
    this.#child = spawn(program, [...args, '--profile', this.#profile], {
      // Its processes are a group, which ends together.
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  }

  /** Starts the Firefox that is installed. The caller closes it. */
  static async start(): Promise<Firefox> {
    const program = findFirefox();
    if (program === null) throw new Error('there is no Firefox: apt-get install firefox-esr');
    const started = new Firefox(program);
    try {
      const socket = new WebSocket(`${await addressOf(started.#child)}/session`);
      started.#socket = socket;
      socket.addEventListener('message', ({ data }) => started.#take(JSON.parse(String(data))));
      await once(socket, 'open');
      await started.#send('session.new', { capabilities: {} });
      await started.#send('session.subscribe', {
        events: ['log.entryAdded', 'network.beforeRequestSent'],
      });
      return started;
    } catch (error) {
      await started.close();
      throw error;
    }
  }

  #take(answer: Answer): void {
    const { id, result, error, message } = answer;
    if (id === undefined) {
      for (const listen of this.#listeners) listen(answer);
      return;
    }
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (result !== undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(`${error}: ${message}`));
  }

  #send(method: string, params: Fields): Promise<Fields> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#socket?.send(JSON.stringify({ id, method, params }));
    });
  }

  /** Opens an address in a tab of its own. */
  async show(url: string): Promise<FirefoxPage> {
    const { context } = await this.#send('browsingContext.create', { type: 'tab' });
    const faults: string[] = [];
    const requests: string[] = [];
    this.#listeners.push(({ method, params = {} }) => {
      if (method === 'log.entryAdded') {
        const { level, text, source } = params as { level: string; text: string; source: Fields };
        if (source['context'] === context && level === 'error' && !text.includes(ICON)) {
          faults.push(text);
        }
      } else if (params['context'] === context) {
        const { request } = params as { request: { url: string } };
        requests.push(request.url.replace(/\?.*$/s, ''));
      }
    });
    const target = { context };
    const evaluate = async (expression: string): Promise<unknown> => {
      const { result, exceptionDetails } = await this.#send('script.evaluate', {
        expression: `(async () => JSON.stringify(await (${expression})))()`,
        awaitPromise: true,
        target,
      });
      if (exceptionDetails !== undefined) {
        throw new Error(String((exceptionDetails as { text: string }).text));
      }
      const { value } = result as { value?: string };
      return value === undefined ? undefined : JSON.parse(value);
    };
    await this.#send('browsingContext.navigate', { context, url, wait: 'complete' });
    return {
      ...{ faults, requests, evaluate },
      until: async (expression) => {
        const wait = `new Promise((resolve, reject) => {
          const end = setTimeout(() => reject(new Error(document.body.innerText)), 60000);
          const look = () => (${expression}) ? resolve(clearTimeout(end)) : setTimeout(look, ${LOOK_MS});
          look();
        })`;
        await evaluate(wait);
      },
      choose: async (selector, files) => {
        const { result } = await this.#send('script.evaluate', {
          expression: `document.querySelector(${JSON.stringify(selector)})`,
          awaitPromise: false,
          target,
        });
        const { sharedId } = result as { sharedId: string };
        await this.#send('input.setFiles', { context, element: { sharedId }, files });
      },
    };
  }

  /** Ends it, and removes its profile. */
  async close(): Promise<void> {
    this.#socket?.close();
    const { pid, exitCode } = this.#child;
    if (pid !== undefined && exitCode === null) {
      const ended = once(this.#child, 'exit');
      process.kill(-pid, 'SIGKILL');
      await ended;
    }
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10 });
  }
}
