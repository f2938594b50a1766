/** Numbers of every dtype to float32 and back, against ml_dtypes and torch, bit by bit. */
import { fromFloat32, parse, serialize } from 'safetensors-mmap';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import type { PythonAnswer } from '../oracle.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';

/** The dtypes by the first byte of an input, with the bytes of so many elements; oracle.py has the same list. */
const DTYPES = [
  ['F64', 8], ['F32', 4], ['F16', 2], ['BF16', 2], ['F8_E4M3', 1], ['F8_E5M2', 1], ['F8_E8M0', 1],
  ['F8_E4M3FNUZ', 1], ['F8_E5M2FNUZ', 1], ['I64', 8], ['U64', 8], ['I32', 4], ['U32', 4], ['I16', 2], ['U16', 2],
  ['I8', 1], ['U8', 1],
] as const; // biome-ignore format: a table

/** To these float32 is rounded. */
const TARGETS = [
  'F16',
  'BF16',
  'F8_E4M3',
  'F8_E5M2',
  'F8_E8M0',
  'F8_E4M3FNUZ',
  'F8_E5M2FNUZ',
] as const;

/** Words of float32, hexadecimal, without the payload of a NaN. */
type Rounded = Readonly<Record<string, string>>;

const MAX_BYTE_LENGTH = 512;

/** Patterns at which rounding changes: halves of the last bit, the largest numbers, the smallest ones. */
function edgeFloat(random: Random): Buffer {
  const word = Buffer.alloc(4);
  const exponent = random.pick([
    0, 1, 90, 102, 103, 112, 113, 118, 127, 134, 135, 142, 143, 254, 255,
  ]);
  const mantissa = random.pick([
    0, 1, 0x1000, 0x0fff, 0x1001, 0x8000, 0x7fff, 0x8001, 0x80000, 0x100000, 0x7fffff,
  ]);
  word.writeUInt32LE(((random.below(2) << 31) | (exponent << 23) | mantissa) >>> 0);
  return word;
}

function make(random: Random, corpus: Corpus): Buffer {
  const [kind] = [random.below(DTYPES.length)];
  const data = random.do(
    () => Buffer.concat(Array.from({ length: random.from(1, 64) }, () => edgeFloat(random))),
    () => random.bytes(random.from(8, 256)),
    () => BYTES.mutate(corpus.pick(random), corpus.pick(random), random, []),
  );
  return Buffer.concat([
    Buffer.of(random.chance(0.5) ? 1 : kind),
    data.subarray(0, MAX_BYTE_LENGTH),
  ]);
}

/** All NaNs count as equal: no rule says which bits a NaN keeps. */
function floatWords(values: Float32Array): string {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Array.from(words, (word, i) =>
    Number.isNaN(values[i]) ? 'nan' : word.toString(16),
  ).join();
}

function toFloat32(
  dtype: (typeof DTYPES)[number][0],
  bytes: Uint8Array,
  count: number,
): Float32Array {
  const file = parse(serialize({ t: { dtype, shape: [count], data: bytes } }));
  return file.getTensor('t').toFloat32();
}

/** Describes the first number that differs, and the bits of its float32. */
function judge(
  dtype: string,
  bytes: Uint8Array,
  here: Rounded,
  { found, error }: PythonAnswer<Rounded>,
): void {
  if (found === undefined) throw new Problem(`Python: ${error}`);
  for (const [name, words] of Object.entries(here)) {
    const theirs = found[name]?.split(',') ?? [];
    const ours = words.split(',');
    const at = ours.findIndex((word, i) => word !== theirs[i]);
    if (at === -1) continue;
    const size = bytes.length / ours.length;
    const item = Buffer.from(bytes.subarray(at * size, (at + 1) * size)).toReversed();
    const way = name === 'toFloat32' ? `${dtype} to F32` : `${dtype} to F32, to ${name}, to F32`;
    throw new Problem(
      `${way} differs\nof the bits ${Buffer.from(item).toString('hex')}: ` +
        `here the bits ${ours[at]}, in Python ${theirs[at]}`,
    );
  }
}

function check(input: Buffer, place: Place): string {
  const [dtype, itemByteLength] = DTYPES[
    (input[0] ?? 0) % DTYPES.length
  ] as (typeof DTYPES)[number];
  const count = Math.floor((input.length - 1) / itemByteLength);
  const bytes = new Uint8Array(input.subarray(1, 1 + count * itemByteLength));
  const floats = toFloat32(dtype, bytes, count);
  const here: Record<string, string> = { toFloat32: floatWords(floats) };
  for (const target of TARGETS) {
    // Reads the rounded numbers again: the same bits, except for NaNs.
    const rounded = fromFloat32(floats, target);
    const read = toFloat32(
      target,
      new Uint8Array(rounded.buffer, rounded.byteOffset, rounded.byteLength),
      count,
    );
    here[target] = floatWords(read);
    const again = fromFloat32(read, target);
    for (let i = 0; i < count; i++) {
      if (again[i] === rounded[i] || Number.isNaN(read[i])) continue;
      throw new Problem(`${target}: ${rounded[i]} becomes ${read[i]}, and that ${again[i]}`);
    }
  }
  place.ask<Rounded>('casts', (answer) => judge(dtype, bytes, here, answer));
  return dtype;
}

export const casts: Target = {
  name: 'casts',
  about: 'toFloat32 of every dtype and fromFloat32, with ml_dtypes and torch',
  sources: /^tensor\/float32\//,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 64 * 2 ** 20 },
  batchLength: 500,
  outcomes: DTYPES.map(([dtype]) => dtype),
  asksPythonOf: 10,
  seeds: () => DTYPES.map((_, kind) => Buffer.concat([Buffer.of(kind), Buffer.alloc(16, kind)])),
  make,
  check,
};
