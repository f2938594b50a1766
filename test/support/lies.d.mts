import type { RemoteSettings } from '../../src/remote/receiver.js';
import type { resolveSource } from '../../src/remote/source.js';

/** A lie, and what must come of it. */
export interface Lie {
  readonly name: string;
}

/** Two servers, for redirects from one host to another. */
export declare class LyingServers {
  static start(): Promise<LyingServers>;
  close(): void;
}

/** Every lie once. */
export declare function makeLies(): Lie[];

/** Lets the servers tell a lie, and throws unless the right thing comes of it. */
export declare function tellLie(
  servers: LyingServers,
  lie: Lie,
  resolve: typeof resolveSource,
  options?: {
    readonly firstDelayMs?: number;
    readonly stallMs?: number;
    readonly makeReceiver?: RemoteSettings['makeReceiver'];
  },
): Promise<void>;
