/** Settings of a machine for the Hub: endpoint, token, proxy, offline mode. */

/** The Hub where nothing else is said. */
export const DEFAULT_ENDPOINT = 'https://huggingface.co';

/** Where events go, such as a channel of `node:diagnostics_channel`. */
export interface RequestChannel {
  /** Events are made only when this is true. */
  readonly hasSubscribers: boolean;
  /** Hands an event to all subscribers. Does not throw their errors: Node reports them as uncaught exceptions. */
  publish(event: unknown): void;
}

/** Settings of one call. */
export interface HubSettings {
  /** URL of the Hub or of a mirror, as it was given. */
  readonly endpoint: string;
  /** Whether the Hub must not be asked. */
  readonly isOffline: boolean;
  /** The token of the machine, for `endpoint` alone; undefined without a token. May read a file. */
  readToken(): string | undefined;
  /** Name of the variable that names a proxy for a URL; undefined without a proxy. */
  proxyFor?(url: URL): string | undefined;
  /** Where remote requests are announced: in Node a channel of `node:diagnostics_channel`. */
  readonly requestChannel?: RequestChannel;
}

/** Where there is no environment, as in a browser. */
export const DEFAULT_HUB_SETTINGS: HubSettings = {
  endpoint: DEFAULT_ENDPOINT,
  isOffline: false,
  readToken: () => undefined,
};
