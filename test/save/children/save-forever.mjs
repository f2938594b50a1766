// Saves over one path again and again, by turns what the files `<path>.0` and `<path>.1` hold, until
// it is killed. Prints a line when both have been saved.
import { loadFile, safeOpen, saveFile, saveFileSync } from '../../../lib/index.js';

const [path, way] = process.argv.slice(2);
const sources = [`${path}.0`, `${path}.1`];
const contents = sources.map((source) => loadFile(source));

async function* inPieces(tensor) {
  yield* tensor.chunks({ maxByteLength: 100_000 });
}

const ways = {
  memory: (state, options) => saveFile(path, contents[state], options),
  sync: async (state, options) => saveFileSync(path, contents[state], options),
  stream: (state, options) => {
    const streamed = Array.from(contents[state], ([name, tensor]) => {
      const { dtype, shape } = tensor;
      return [name, { dtype, shape, data: () => inPieces(tensor) }];
    });
    return saveFile(path, streamed, options);
  },
  // From a file whose bytes nobody has asked for: the kernel copies them.
  file: async (state, options) => {
    const file = safeOpen(sources[state]);
    await saveFile(path, file, options);
    file.close();
  },
};

for (let i = 0; ; i++) {
  await ways[way](i % 2, { durable: i % 4 < 2 });
  if (i === 1) console.log('saved');
}
