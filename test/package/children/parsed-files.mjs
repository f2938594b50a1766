// Lists the files of the package that a process loads.

import { Session } from 'node:inspector';
import { basename } from 'node:path';

/** Watches from now on. Returns a function that lists the files so far, and one that ends the watch. */
export function watchParsedFiles() {
  const files = new Set();
  const session = new Session();
  session.connect();
  session.on('Debugger.scriptParsed', ({ params: { url } }) => {
    if (/\/lib\/[\w-]+\.js$/.test(url)) files.add(basename(url));
  });
  session.post('Debugger.enable');
  return { loaded: () => [...files].toSorted(), end: () => session.disconnect() };
}
