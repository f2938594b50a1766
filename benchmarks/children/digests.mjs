/**
 * Digests and checksums in a separate process. Arguments: METHOD FILE [TARGET]. `verify` compares those that the file
 * declares; `scan` scans a file of PyTorch, with checksums; `save` and `stream` write the file's tensors to the target,
 * or to a reader that drops them, and with `-digests` also their digests. Prints the ms as `elapsed`, and the memory
 * after it.
 */
import { safeOpen, saveFile, scanPickle, serializeStream, verify } from 'safetensors-mmap';
import { peakMemory, readMemory } from './memory.mjs';

const [method, path, target] = process.argv.slice(2);

const digests = method.endsWith('-digests');

/** Earlier versions have another name for an option. */
async function withEither(option, earlier, call) {
  try {
    return await call(option);
  } catch (error) {
    if (error.code !== 'ERR_INVALID_ARG_VALUE') throw error;
    return await call(earlier);
  }
}

async function requireOk(report) {
  const { ok, verdict } = await report;
  if (ok !== true && verdict !== 'safe') throw new Error(`${path} is not right`);
}

const METHODS = {
  verify: () => requireOk(verify(path)),
  scan: () =>
    requireOk(
      withEither({ verify: true }, { checksums: true }, (options) => scanPickle(path, options)),
    ),
  save: async (options) => {
    const file = safeOpen(path);
    const { metadata } = file;
    await saveFile(target, file.getTensors(), { metadata, durable: false, ...options });
  },
  stream: async (options) => {
    let length = 0;
    for await (const piece of serializeStream(safeOpen(path), options)) length += piece.length;
    if (length === 0) throw new Error('the stream is empty');
  },
};

const work = METHODS[method.replace('-digests', '')];
const start = performance.now();
if (digests) await withEither({ digests }, { checksums: digests }, work);
else await work({});
const elapsed = performance.now() - start;
console.log(JSON.stringify({ elapsed, peak: peakMemory(), ...readMemory() }));
