/**
 * Writes a checkpoint with its large weights in FP8, each with one scale: `weight` of F8_E4M3 and `weight_scale`, the form
 * that vLLM and others load. Values are read and written some rows at a time.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fromFloat32, safeOpen, saveCheckpoint } from 'safetensors-mmap';

/** The largest number of F8_E4M3. */
const LARGEST = 448;
const BLOCK_BYTES = 4 << 20;
const DTYPES = ['F32', 'F16', 'BF16'];

/** Values of some rows at a time, in an array that is used again. */
function* blocksOf(tensor) {
  const [rows, width] = tensor.shape;
  const count = Math.min(rows, Math.max(1, Math.floor(BLOCK_BYTES / (4 * width))));
  const array = new Float32Array(count * width);
  for (let first = 0; first < rows; first += count) {
    const part = tensor.slice([first, Math.min(first + count, rows)]);
    yield part.toFloat32({ into: array.subarray(0, part.elementCount) });
  }
}

/** The scale, as float32 arithmetic gives it: the largest magnitude becomes the largest number. */
function scaleOf(tensor) {
  let largest = 0;
  for (const values of blocksOf(tensor)) {
    for (const value of values) {
      if (!Number.isFinite(value)) throw new Error(`"${tensor.name}" has a value that is ${value}`);
      largest = Math.max(largest, Math.abs(value));
    }
  }
  return largest === 0 ? 1 : Math.fround(largest / LARGEST);
}

function* codesOf(tensor, scale) {
  for (const values of blocksOf(tensor)) {
    for (let i = 0; i < values.length; i++) values[i] /= scale;
    yield fromFloat32(values, 'F8_E4M3');
  }
}

/** The tensors to write, and what was left as it is: what is no matrix, and what `skip` matches. */
function quantized(checkpoint, { skip, rename }) {
  const tensors = new Map();
  const modules = { quantized: [], skipped: [] };
  for (const name of checkpoint.keys()) {
    const tensor = checkpoint.getTensor(name);
    const { dtype, shape } = tensor;
    const target = rename(name);
    const [, module] = /^(.*)\.weight$/.exec(target) ?? [];
    const isMatrix = module !== undefined && shape.length === 2 && DTYPES.includes(dtype);
    if (!isMatrix || skip.test(name)) {
      tensors.set(target, tensor);
      if (isMatrix) modules.skipped.push(module);
      continue;
    }
    // Whichever of the two is written first asks for the scale.
    let scale;
    const getScale = () => {
      scale ??= scaleOf(tensor);
      return scale;
    };
    const codes = () => codesOf(tensor, getScale());
    tensors.set(target, { dtype: 'F8_E4M3', shape, data: codes });
    const data = () => Float32Array.of(getScale());
    tensors.set(`${target}_scale`, { dtype: 'F32', shape: [], data });
    modules.quantized.push(module);
  }
  return { tensors, modules };
}

/** The configuration tells loaders what to expect. */
function writeConfig(from, to, ignored) {
  let config;
  try {
    config = JSON.parse(readFileSync(join(from, 'config.json'), 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw error;
  }
  config.quantization_config = {
    quant_method: 'fp8',
    activation_scheme: 'dynamic',
    ignored_layers: ignored,
  };
  writeFileSync(join(to, 'config.json'), `${JSON.stringify(config, null, 2)}\n`);
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    skip: { type: 'string', default: 'embed|lm_head|norm|gate\\.weight$' },
    rename: { type: 'string', default: '' }, // FROM=TO, the beginning of names
  },
});
const [source, target] = positionals;
if (target === undefined) {
  console.error('usage: node quantize.js SOURCE TARGET [--skip REGEXP] [--rename FROM=TO]');
  process.exit(2);
}
const [from = '', to = ''] = values.rename.split('=');
const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort(new Error('interrupted')));
let checkpoint;
try {
  checkpoint = safeOpen(source);
  const { tensors, modules } = quantized(checkpoint, {
    skip: new RegExp(values.skip),
    rename: (name) => (name.startsWith(from) ? to + name.slice(from.length) : name),
  });
  const { totalSize } = await saveCheckpoint(target, tensors, { signal: interrupted.signal });
  writeConfig(dirname(checkpoint.path), target, modules.skipped);
  const before = (await checkpoint.summary()).byteLength;
  console.log(`${modules.quantized.length} weights in FP8, ${modules.skipped.length} skipped`);
  console.log(`${(before / 1e6).toFixed(2)} MB before, ${(totalSize / 1e6).toFixed(2)} MB after`);
} catch (error) {
  console.error(`not quantized: ${error.message}`);
  process.exitCode = 1;
} finally {
  checkpoint?.close();
}
