/** Receives ranges over its own connections, in Node. */

import { dispatchers } from '../node-fetch.js';
import type { PlacedAnswer, Receiver, RequestInto } from '../receiver.js';
import { Connection } from './connection.js';

/** Bytes that arrive in place sooner than `fetch` hands them out: below this length other costs outweigh the copy. */
const LEAST_BYTE_LENGTH = 2 ** 20;

/** Most connections that are kept for a host: as many as requests for tensors run at once by default. */
const MAX_IDLE_CONNECTIONS = 8;

/** Headers about the connection, which a caller may give to `fetch`. */
const OF_CONNECTIONS =
  /^(?:connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/;

/** The receiver of a session. */
export class SocketReceiver implements Receiver {
  readonly leastByteLength: number;
  /** Open connections without a request, by origin; the last used one is the last. */
  readonly #idle = new Map<string, Connection[]>();
  #isClosed = false;

  /** A shorter least length is for tests. */
  constructor(leastByteLength: number = LEAST_BYTE_LENGTH) {
    this.leastByteLength = leastByteLength;
  }

  mayRequest(): boolean {
    return isNodesFetch() && dispatchers().every(isPlainAgent);
  }

  async ask(request: RequestInto): Promise<PlacedAnswer | null> {
    const { url, headers, signal } = request;
    if ([...headers.keys()].some((name) => OF_CONNECTIONS.test(name))) return null;
    const kept = this.#take(url.origin);
    if (kept !== undefined) {
      try {
        return await kept.ask(request);
      } catch {
        // The server may have closed it meanwhile: then another one helps.
        signal.throwIfAborted();
      }
    }
    const connection = new Connection(url, (idle) => this.#keep(url.origin, idle));
    return await connection.ask(request);
  }

  close(): void {
    this.#isClosed = true;
    for (const connections of this.#idle.values()) for (const idle of connections) idle.close();
    this.#idle.clear();
  }

  #take(origin: string): Connection | undefined {
    const open = (this.#idle.get(origin) ?? []).filter(({ isOpen }) => isOpen);
    const last = open.pop();
    this.#idle.set(origin, open);
    return last;
  }

  #keep(origin: string, connection: Connection): void {
    const open = (this.#idle.get(origin) ?? []).filter(({ isOpen }) => isOpen);
    if (this.#isClosed || open.length >= MAX_IDLE_CONNECTIONS) connection.close();
    else this.#idle.set(origin, [...open, connection]);
  }
}

/** Whether `fetch` is Node's, not one that a program or a test has put in its place. Seen on Node 20 to 26. */
function isNodesFetch(): boolean {
  return Function.prototype.toString
    .call(globalThis.fetch)
    .includes("'internal/deps/undici/undici'");
}

/** Whether an agent was made without settings: a program may have set one with certificates or separate rules. */
function isPlainAgent(agent: object & { readonly dispatch?: unknown }): boolean {
  const key = Object.getOwnPropertySymbols(agent).find((one) => one.description === 'options');
  const settings: object = Object((agent as Readonly<Record<symbol, unknown>>)[key ?? Symbol()]);
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return (
    agent.constructor.name === 'Agent' &&
    // `compose` of undici replaces it.
    agent.dispatch === agent.constructor.prototype.dispatch &&
    key !== undefined &&
    given.every(([name]) => name === 'maxOrigins')
  );
}
