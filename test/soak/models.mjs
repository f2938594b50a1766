/**
 * The models of the soak: version and number of rows determine every value, so a reader knows from a file's metadata
 * what each tensor must hold. A file that mixes two versions is found by its values.
 */
import assert from 'node:assert';
import { setImmediate as yieldNow } from 'node:timers/promises';

/** Elements in a row of the matrix. */
export const COLUMNS = 256;

// Two turns of the event loop have no more elements than this between them.
const BLOCK = 32_768;

/** Each tensor: its dtype, its shape by the rows of the model, and the rule of its values. */
const TENSORS = {
  'embed.weight': ['F32', (rows) => [rows, COLUMNS], (i, version) => (i * 7 + version * 13) % 1021],
  'half.weight': ['F16', (rows) => [rows * 4], (i, version) => (i * 3 + version) % 1999],
  'position.ids': ['I32', (rows) => [rows, 4], (i, version) => i - version],
  // Of an odd length, so that some tensors do not start at a multiple of their item size.
  'raw.bytes': ['U8', (rows) => [rows * 9 + 1], (i, version) => (i * 5 + version * 3) & 255],
};

export const NAMES = Object.keys(TENSORS);

const ARRAYS = { F32: Float32Array, I32: Int32Array, U8: Uint8Array };

/** Runs `work` for ranges of `length` elements, with turns of the event loop between them. */
async function inBlocks(length, work) {
  for (let begin = 0; begin < length; begin += BLOCK) {
    if (begin > 0) await yieldNow();
    work(begin, Math.min(length, begin + BLOCK));
  }
}

/** Bits of float16 for whole numbers from 0 to 2047. */
function halfBits(value) {
  if (value === 0) return 0;
  const exponent = 31 - Math.clz32(value);
  return ((exponent + 15) << 10) | ((value << (10 - exponent)) & 1023);
}

/** The tensors of a model, as `saveFile` takes them. */
export async function makeTensors(version, rows) {
  const tensors = {};
  for (const [name, [dtype, shapeOf, rule]] of Object.entries(TENSORS)) {
    const shape = shapeOf(rows);
    const count = shape.reduce((product, length) => product * length, 1);
    const data = new (ARRAYS[dtype] ?? Uint16Array)(count);
    const encode = dtype === 'F16' ? halfBits : (value) => value;
    await inBlocks(count, (begin, end) => {
      for (let i = begin; i < end; i++) data[i] = encode(rule(i, version));
    });
    tensors[name] = { dtype, shape, data };
  }
  return tensors;
}

/** The metadata of a model, which determines its values. */
export function makeMetadata(version, rows) {
  return { version: String(version), rows: String(rows) };
}

/** Version and rows by the metadata of an open file or checkpoint. */
export function identityOf({ metadata }) {
  const [version, rows] = ['version', 'rows'].map((key) => Number(metadata.get(key)));
  assert(Number.isInteger(version) && Number.isInteger(rows), 'metadata without a version');
  return { version, rows };
}

/** The values of a tensor as numbers, whatever it was cast to. */
function numbersOf(tensor) {
  return tensor.dtype === 'F16' ? tensor.toFloat32() : tensor.data;
}

/** Fails unless each value is that of the version, beginning with element `first` of the whole tensor. */
export async function checkValues(values, name, version, first = 0) {
  const [, , rule] = TENSORS[name];
  await inBlocks(values.length, (begin, end) => {
    for (let i = begin; i < end; i++) {
      const expected = rule(first + i, version);
      if (values[i] === expected) continue;
      assert.fail(`${name}[${first + i}] of version ${version}: ${values[i]}, not ${expected}`);
    }
  });
}

/** Fails unless a whole tensor, or its part that begins with element `first`, has the values it must have. */
export async function checkTensor(tensor, name, version, first = 0) {
  await checkValues(numbersOf(tensor), name, version, first);
}

/** Fails unless a file, checkpoint or Map has all tensors of the version, whole. */
export async function checkTensors(tensors, { version, rows }) {
  assert.deepStrictEqual([...tensors.keys()].toSorted(), NAMES.toSorted());
  for (const name of NAMES) {
    const tensor = tensors.getTensor?.(name) ?? tensors.get(name);
    assert.deepStrictEqual([...tensor.shape], TENSORS[name][1](rows));
    await checkTensor(tensor, name, version);
  }
}
