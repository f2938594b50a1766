// Runs a command of the command line, and prints the files of the package that it loads. Arguments: those of the command.

import { Session } from 'node:inspector';
import { basename } from 'node:path';

const files = new Set();
const session = new Session();
session.connect();
session.on('Debugger.scriptParsed', ({ params: { url } }) => {
  if (/\/lib\/[\w-]+\.js$/.test(url)) files.add(basename(url));
});
session.post('Debugger.enable');
process.on('exit', () => {
  session.disconnect();
  console.log(JSON.stringify([...files].toSorted()));
});
await import('../../../lib/cli.js');
