/**
 * Merges a LoRA adapter into a checkpoint. Memory holds the factors of one weight, and a few rows of it:
 * tensors that the adapter leaves alone are copied from file to file, the others are computed while they are written.
 */
import { copyFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fromFloat32, safeOpen, saveCheckpoint } from 'safetensors-mmap';
import { readAdapter } from './adapter.js';
import { privateBytes } from './memory.js';

const BLOCK_BYTES = 4 << 20;
/** The dtypes of weights, each with the least value that rounds to infinity in it. */
const LIMITS = { F32: 2 ** 128, F16: 65520, BF16: (2 - 2 ** -8) * 2 ** 127 };
const DTYPES = Object.keys(LIMITS);

/** Fails before anything is written. Kernels of convolutions count as rows: their products are the same. */
function checkShapes(name, { dtype, shape }, { down, up, transposed }) {
  const [height, width] = matrixOf(shape);
  const [rank, columns] = matrixOf(down.shape);
  const [rows, upRank] = matrixOf(up.shape);
  const found = transposed ? [columns, rows] : [rows, columns];
  if (!DTYPES.includes(dtype)) throw new Error(`"${name}" is ${dtype}; expected ${DTYPES}`);
  if (rank !== upRank || found[0] !== height || found[1] !== width) {
    const factors = `[${up.shape}] x [${down.shape}]`;
    throw new Error(`"${name}" is [${shape}], the adapter's factors are ${factors}`);
  }
}

function matrixOf([rows = 1, ...rest]) {
  return [rows, rest.reduce((product, length) => product * length, 1)];
}

function transpose(values, [rows, columns]) {
  const result = new Float32Array(values.length);
  for (let i = 0; i < rows; i++) {
    for (let k = 0; k < columns; k++) result[k * rows + i] = values[i * columns + k];
  }
  return result;
}

/** Fails unless all values of some rows are finite, and stay so in the dtype. */
function checkFinite(name, dtype, values, firstRow, width) {
  const limit = LIMITS[dtype];
  for (let i = 0; i < values.length; i++) {
    if (Math.abs(values[i]) < limit) continue;
    const row = firstRow + Math.floor(i / width);
    const found = Number.isFinite(values[i]) ? `${values[i]}, too large for ${dtype}` : values[i];
    throw new Error(`"${name}" would have the value ${found} in row ${row}`);
  }
}

function checkScale(name, scale) {
  if (!Number.isFinite(scale)) throw new Error(`"${name}": the adapter's alpha / rank is ${scale}`);
}

/** The merged weight, some rows at a time. Sums are of float64, rounded once to the dtype of the base. */
function* mergedRows(name, tensor, { down, up, scale, transposed }, seen) {
  const [height, width] = matrixOf(tensor.shape);
  const [rank] = down.shape;
  let left = up.toFloat32(); // [height, rank]
  let right = down.toFloat32(); // [rank, width]
  if (transposed) {
    [left, right] = [transpose(right, [rank, height]), transpose(left, [width, rank])];
  }
  const count = Math.max(1, Math.floor(BLOCK_BYTES / (4 * width)));
  const sums = new Float64Array(width);
  for (let first = 0; first < height; first += count) {
    const values = tensor.slice([first, Math.min(first + count, height)]).toFloat32();
    for (let i = 0; i < values.length / width; i++) {
      sums.fill(0);
      for (let r = 0; r < rank; r++) {
        const factor = left[(first + i) * rank + r];
        for (let k = 0; k < width; k++) sums[k] += factor * right[r * width + k];
      }
      for (let k = 0; k < width; k++) values[i * width + k] += scale * sums[k];
    }
    checkFinite(name, tensor.dtype, values, first, width);
    seen.privateBytes = Math.max(seen.privateBytes, privateBytes());
    yield fromFloat32(values, tensor.dtype);
  }
}

/** A tensor that replaces one of the base, some rows at a time. */
function* checkedRows(name, tensor) {
  const [height, width] = matrixOf(tensor.shape);
  const count = Math.max(1, Math.floor(BLOCK_BYTES / (4 * width)));
  for (let first = 0; first < height; first += count) {
    const rows = tensor.slice([first, Math.min(first + count, height)]);
    checkFinite(name, tensor.dtype, rows.toFloat32(), first, width);
    yield rows.bytes;
  }
}

/** Everything that stands beside the weights: configuration, tokenizer, licence. */
function copyOtherFiles(from, to) {
  if (!statSync(from).isDirectory()) return;
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const isWeights = /\.(?:safetensors|safetensors\.index\.json|bin|pt|ckpt|gguf)$/;
    if (entry.isFile() && !isWeights.test(entry.name)) {
      copyFileSync(join(from, entry.name), join(to, entry.name));
    }
  }
}

/** The tensors of the merged model: of the base, of the adapter, or still to be computed. */
function* mergedTensors(base, { changes, replaced }, seen) {
  for (const name of base.keys()) {
    const tensor = base.getTensor(name);
    const change = changes.get(name);
    const other = replaced.get(name);
    if (change !== undefined) {
      checkShapes(name, tensor, change);
      checkScale(name, change.scale);
      const { dtype, shape } = tensor;
      yield [name, { dtype, shape, data: () => mergedRows(name, tensor, change, seen) }];
    } else if (other !== undefined && other.dtype in LIMITS && other.shape.length > 0) {
      const { dtype, shape } = other;
      yield [name, { dtype, shape, data: () => checkedRows(name, other) }];
    } else yield [name, other ?? tensor];
  }
}

async function merge(basePath, adapterPath, target, { component, maxShardSize, signal }) {
  const base = safeOpen(basePath);
  let adapter;
  try {
    adapter = readAdapter(adapterPath, new Set(base.keys()), component);
    if (adapter.changes.size === 0) throw new Error(`${adapterPath} changes nothing`);
    const seen = { privateBytes: 0 };
    const tensors = new Map(mergedTensors(base, adapter, seen));
    // The old target, or all of the new one, whatever fails meanwhile.
    const { files, totalSize } = await saveCheckpoint(target, tensors, { maxShardSize, signal });
    copyOtherFiles(basePath, target);
    return {
      merged: adapter.changes.size,
      replaced: adapter.replaced.size,
      files,
      totalSize,
      ...seen,
    };
  } finally {
    base.close();
    adapter?.file.close();
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    component: { type: 'string', default: 'unet' }, // of kohya's files: unet, te, te1, te2
    'max-shard-size': { type: 'string', default: '5GB' },
  },
});
if (positionals.length !== 3) {
  console.error(
    'usage: node merge.js BASE ADAPTER TARGET [--component unet] [--max-shard-size 5GB]',
  );
  process.exit(2);
}
const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort(new Error('interrupted')));
try {
  const result = await merge(...positionals, {
    component: values.component,
    maxShardSize: values['max-shard-size'],
    signal: interrupted.signal,
  });
  console.log(`${result.merged} weights merged, ${result.replaced} replaced`);
  const count = result.files.length;
  console.log(
    `${count} ${count === 1 ? 'file' : 'files'}, ${(result.totalSize / 1e6).toFixed(1)} MB`,
  );
  console.log(`at most ${Math.round(result.privateBytes / 1e6)} MB of private memory`);
} catch (error) {
  console.error(`not merged: ${error.message}`);
  process.exitCode = 1;
}
