/** Settings of a machine for the Hub: endpoint, token, proxy, offline mode. */

/** The Hub where nothing else is said. */
export const DEFAULT_ENDPOINT = 'https://huggingface.co';

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
}

/** Where there is no environment, as in a browser. */
export const DEFAULT_HUB_SETTINGS: HubSettings = {
  endpoint: DEFAULT_ENDPOINT,
  isOffline: false,
  readToken: () => undefined,
};
