/** Writes `model.safetensors`: a large matrix in F32 and F16, for the other programs. */
import { fromFloat32, saveFile } from 'safetensors-mmap';

const ROWS = Number(process.argv[2] ?? 65_536);
const WIDTH = 1024;
/** Rows are made in blocks of 1 MiB. */
const HEIGHT = 256;

/** Small multiples of 1/8, which F16 holds exactly: sums of products can be compared to the last bit. */
function* blocks(convert) {
  for (let first = 0; first < ROWS; first += HEIGHT) {
    const count = Math.min(HEIGHT, ROWS - first);
    const values = Float32Array.from(
      { length: count * WIDTH },
      (_, i) => ((((first * WIDTH + i) * 7919) % 31) - 15) / 8,
    );
    yield convert(values);
  }
}

const shape = [ROWS, WIDTH];
await saveFile(
  'model.safetensors',
  {
    weight: { dtype: 'F32', shape, data: () => blocks((values) => values) },
    half: { dtype: 'F16', shape, data: () => blocks((values) => fromFloat32(values, 'F16')) },
  },
  { alignment: 4096 }, // for readers that map the file, too
);
console.log(`model.safetensors: ${ROWS} x ${WIDTH}`);
