/** Checks which URLs may be requested, and hides secrets of URLs in messages. */

/**
 * A URL for messages: without credentials, and without query and fragment, which in presigned URLs are
 * secrets.
 */
export function shownUrl(url: URL): string {
  return url.origin + url.pathname;
}

/**
 * Whether a URL leads to this machine, so that no network can listen. Names below `localhost` don't count: outside
 * browsers some resolvers forward them.
 */
export function isLoopback({ hostname }: URL): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

/**
 * Resolves a URL, against `base` when it may be relative. Returns a description of the URL, without secrets, unless
 * it is `https:` or `http:` without user and password.
 */
export function parseHttpUrl(text: string, base?: URL): URL | string {
  let url: URL;
  try {
    url = new URL(text, base);
  } catch {
    return 'one that cannot be parsed';
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return url.protocol;
  if (url.username === '' && url.password === '') return url;
  return `one of ${url.host} with a user name or password; pass these in headers`;
}
