// Runs a command of the command line, and prints the files of the package that it loads. Its arguments are those of the
// command.

import { watchParsedFiles } from './parsed-files.mjs';

const { loaded, end } = watchParsedFiles();
process.on('exit', () => {
  end();
  console.log(JSON.stringify(loaded()));
});
await import('../../../lib/cli.js');
