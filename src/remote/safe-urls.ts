/** Which URLs are asked at all, and what of a URL may be shown. */

/**
 * A URL for messages: without credentials, and without query and fragment, which in presigned URLs are
 * secrets.
 */
export function shownUrl(url: URL): string {
  return url.origin + url.pathname;
}

/**
 * Whether a URL leads to this machine, so that nobody on the way can listen. Names below `localhost` may
 * lead elsewhere: outside browsers some resolvers ask others for them.
 */
export function isLoopback({ hostname }: URL): boolean {
  return /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

/**
 * Resolves a URL, against `base` when it may be relative. Gives what was found instead, without secrets,
 * unless it is `https:` or `http:` without user and password.
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
