/** Recognises web pages that servers send in place of files with a status of success: logins, above all. */

import { PASS_CREDENTIALS } from '../errors/advice.js';

const PAGE_TYPE = /^\s*(?:text\/html|application\/xhtml\+xml)\s*(?:;|$)/i;

/** Names of files that are web pages. */
const PAGE_NAME = /\.x?html?$/i;

/** Whether an answer has the content type of a page, unless the requested file is one. `path` has no query. */
export function isCalledPage(headers: Headers, path: string): boolean {
  return PAGE_TYPE.test(headers.get('content-type') ?? '') && !PAGE_NAME.test(path);
}

/**
 * Whether the first bytes, one or more, may begin a page. Servers also send other files with a page's content type.
 */
export function beginsAsPage(bytes: Uint8Array): boolean {
  const text = String.fromCharCode(...bytes.subarray(0, 512));
  return /^(?:\xef\xbb\xbf)?\s*</.test(text);
}

/** The end of a message: expectation, finding and advice. */
export function pageMessage(expected: string, { host }: URL, isAuthorized: boolean): string {
  const advice = isAuthorized
    ? 'the token may not be the one that it wants'
    : `${PASS_CREDENTIALS.text} if it is that of the server`;
  return (
    `expected ${expected}, found a web page of ${host}, such as a login or the notice of a network; ` +
    `open the URL in a browser to see it; ${advice}`
  );
}
