// Opens a file many times under limits on descriptors or addresses, and drops or detaches it. Prints
// how often it was opened, and the most descriptors. Arguments: FILE COUNT ENDING TURNS
import { readdirSync } from 'node:fs';
import { safeOpen } from '../../../lib/index.js';

const [path, count, ending, turns] = process.argv.slice(2);

let opened = 0;
let most = 0;
for (; opened < Number(count); opened++) {
  const file = safeOpen(path);
  if (ending !== 'drop-untouched') file.getTensor('t').buffer;
  if (ending === 'close') file.close();
  if (ending === 'detach') file.close({ detach: true });
  if (turns === 'turns') await new Promise(setImmediate);
  if (opened % 10 === 0) most = Math.max(most, readdirSync('/proc/self/fd').length);
}
console.log(JSON.stringify({ opened, most }));
