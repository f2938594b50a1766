/** Web pages that come in place of files, with a status that says that all is well: logins, above all. */

const PAGE_TYPE = /^\s*(?:text\/html|application\/xhtml\+xml)\s*(?:;|$)/i;

/** Names of files that are pages themselves. */
const PAGE_NAME = /\.x?html?$/i;

/** Whether an answer calls itself a page, though the file that was asked for is none. `path` has no query. */
export function isCalledPage(headers: Headers, path: string): boolean {
  return PAGE_TYPE.test(headers.get('content-type') ?? '') && !PAGE_NAME.test(path);
}

/** Whether the first bytes, one or more, may be those of a page. Servers also call other files pages. */
export function beginsAsPage(bytes: Uint8Array): boolean {
  const text = String.fromCharCode(...bytes.subarray(0, 512));
  return /^(?:\xef\xbb\xbf)?\s*</.test(text);
}

/** The end of a message: what was expected and found, and what to do. */
export function pageMessage(expected: string, { host }: URL, isAuthorized: boolean): string {
  const advice = isAuthorized
    ? 'the token may not be the one that it wants'
    : 'pass a token or headers if it is that of the server';
  return (
    `expected ${expected}, found a web page of ${host}, such as a login or the notice of a network; ` +
    `open the URL in a browser to see it; ${advice}`
  );
}
