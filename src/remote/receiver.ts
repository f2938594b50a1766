/**
 * The interface of what receives bodies without the streams of `fetch`, straight into their place. Types only:
 * `node/receiver` implements it over sockets; browsers have none.
 */

import type { HubSettings } from '../file/hub/settings.js';
import type { HubAddress } from './hub-address.js';
import type { Repository } from './repository.js';

/** A request for a range whose bytes have a place. */
export interface RequestInto {
  readonly url: URL;
  /** With `range`. */
  readonly headers: Headers;
  /** Memory for exactly the bytes of the range. Written to until the body is complete or the signal is aborted. */
  readonly target: Uint8Array<ArrayBuffer>;
  /** Ends the request and closes its connection. Must be aborted if the body is not wanted. */
  readonly signal: AbortSignal;
}

/** An answer to such a request. */
export interface PlacedAnswer {
  /** Status and headers. Has no body. */
  readonly response: Response;
  /**
   * Waits until all bytes are in the target; calls back with the number of bytes that have come since the last call.
   * Undefined unless the answer is a plain one with exactly the bytes that were asked for.
   */
  readonly receive?: ((arrived: (byteLength: number) => void) => Promise<void>) | undefined;
}

/** Receives ranges for one session. */
export interface Receiver {
  /** Ranges that are shorter gain nothing. */
  readonly leastByteLength: number;
  /** Whether the program has left it to the runtime how requests are sent. Asked before every request. */
  mayRequest(): boolean;
  /**
   * Sends the request; null if `fetch` has to send it, because the answer is not plain.
   *
   * @throws The signal's reason; errors of a connection that has broken before an answer
   */
  ask(request: RequestInto): Promise<PlacedAnswer | null>;
  /** Closes the connections that are kept for later requests. */
  close(): void;
}

/** Settings of a machine for remote files. */
export interface RemoteSettings extends HubSettings {
  /** Makes the receiver of a session. */
  readonly makeReceiver?: (() => Receiver) | undefined;
  /**
   * Opens a repository of the Hub cache while the Hub must not receive requests; missing where there is no cache.
   *
   * @throws SafetensorsError `SAFETENSORS_NOT_IN_CACHE`
   */
  readonly openCached?:
    | ((address: HubAddress, signal: AbortSignal) => Promise<Repository>)
    | undefined;
}
