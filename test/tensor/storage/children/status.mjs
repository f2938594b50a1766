// Opens the given file, and prints the package's report on mappings. A second argument names the addon after the
// package was imported.
import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { mappingStatus, safeOpen } from '../../../../lib/index.js';

const [path, addon] = process.argv.slice(2);
if (addon !== undefined) process.env.SAFETENSORS_MMAP_ADDON = addon;

const warnings = [];
process.on('warning', ({ name, code, message }) => warnings.push({ name, code, message }));

/** The storage and the bytes of a file opened this way, or the error. */
function open(options) {
  try {
    const file = safeOpen(path, options);
    const seen = `${file.storage} ${file.getTensor('t').data}`;
    file.close();
    return seen;
  } catch ({ code, message }) {
    return { code, message };
  }
}

const read = open({ storage: 'read' });
await setImmediate();
const warnedOfRead = warnings.length > 0;
const opened = [open({}), open({}), open({ storage: undefined })];
const mapped = open({ storage: 'mmap' });
await setImmediate();
const status = mappingStatus();
console.log(JSON.stringify({ read, warnedOfRead, opened, mapped, warnings, status }));
