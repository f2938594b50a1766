/**
 * Writes an embedding table of any size with a few megabytes of memory: F16, one row a token. In every row the first
 * value is the version of the table and the second one the row's number modulo 2048, so an answer tells where it is from.
 */
import { parseArgs } from 'node:util';
import { fromFloat32, saveFile } from 'safetensors-mmap';

export const TENSOR = 'embeddings';

/** Rows are written in blocks of about 1 MiB. */
const BLOCK_BYTES = 1 << 20;

function* blocksOf({ rows, width, version }) {
  const height = Math.max(1, Math.floor(BLOCK_BYTES / (2 * width)));
  for (let first = 0; first < rows; first += height) {
    const count = Math.min(height, rows - first);
    const values = new Float32Array(count * width);
    for (let i = 0; i < count; i++) {
      const row = first + i;
      for (let k = 0; k < width; k++) values[i * width + k] = ((row * 31 + k * 17) % 255) / 255;
      values[i * width] = version;
      values[i * width + 1] = row % 2048;
    }
    yield fromFloat32(values, 'F16');
  }
}

/** `saveFile` writes beside the path and renames: readers have the old table or the new one, never a part. */
export async function makeTable(path, { rows, width, version, signal }) {
  const table = {
    dtype: 'F16',
    shape: [rows, width],
    data: () => blocksOf({ rows, width, version }),
  };
  const metadata = { version: String(version) };
  await saveFile(path, { [TENSOR]: table }, { metadata, signal });
}

if (process.argv[1] === import.meta.filename) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rows: { type: 'string', default: '1000000' },
      width: { type: 'string', default: '1024' },
      version: { type: 'string', default: '1' },
    },
  });
  const [path = 'table.safetensors'] = positionals;
  const [rows, width, version] = [values.rows, values.width, values.version].map(Number);
  await makeTable(path, { rows, width, version });
  console.log(`${path}: version ${version}, ${rows} x ${width}, ${(2 * rows * width) / 1e9} GB`);
}
