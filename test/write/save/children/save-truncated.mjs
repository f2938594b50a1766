// Saves tensors of a file that is cut short before or meanwhile, in every way they can come from it. Prints the result
// of each save, and the contents of its folder.
import { mkdtempSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadFile, safeOpen, saveFile, serialize } from '../../../../lib/index.js';

const BYTE_LENGTH = 3_000_000;
const [parent] = process.argv.slice(2);

const opened = (options, isUsed) => (source) => {
  const tensor = safeOpen(source, options).getTensor('x');
  if (isUsed) tensor.bytes;
  return tensor;
};

const ways = {
  mapped: opened({}, true),
  unguarded: opened({ guard: false }, true),
  copied: opened({}, false),
  read: opened({ storage: 'read' }, false),
  closed: (source) => loadFile(source).get('x'),
};

async function endOf(isBefore, take) {
  const folder = mkdtempSync(join(parent, 'save-'));
  const source = join(folder, 'source');
  const data = new Uint8Array(BYTE_LENGTH).fill(7);
  writeFileSync(source, serialize({ x: { dtype: 'U8', shape: [BYTE_LENGTH], data } }));
  const target = join(folder, 'target');
  writeFileSync(target, 'old');
  const x = take(source);
  const cut = () => truncateSync(source, 4096 * 5);
  let error = {};
  try {
    if (isBefore) {
      cut();
      await saveFile(target, { x });
    } else {
      // Sorted before the tensor, so that its turn is when the save is under way.
      const data = () => {
        cut();
        return new Uint8Array(2);
      };
      const first = { dtype: 'U16', shape: [1], data };
      await saveFile(target, { x, first });
    }
  } catch (reason) {
    error = reason;
  }
  return {
    code: error.code,
    path: error.path === source ? 'source' : error.path,
    message: error.message,
    files: readdirSync(folder),
    old: readFileSync(target, 'latin1').slice(0, 10),
  };
}

const ends = {};
for (const [name, take] of Object.entries(ways)) {
  ends[name] = await endOf(false, take);
  ends[`${name}, before`] = await endOf(true, take);
}
console.log(JSON.stringify(ends));
