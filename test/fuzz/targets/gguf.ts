/** GGUF files, half of them valid ones with other data or numbers: rejected, or read alike in every way. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { type Checkpoint, dequantize, open, type Tensor } from 'safetensors-mmap';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import type { PythonAnswer } from '../oracle.js';
import { type Corpus, codeOf, type Place, Problem, type Target } from '../target.js';

const FIXTURES = new URL('../../fixtures/gguf/', import.meta.url);

const WORDS: readonly string[] = [
  'GGUF', '\x03\0\0\0', '\0\0\0\x03', '\x01\0\0\0', 'general.alignment', 'split.count', 'split.no',
  '\x04\0\0\0', '\x08\0\0\0', '\x09\0\0\0', '\x0c\0\0\0', '\xff\xff\xff\xff\xff\xff\xff\xff', '\0\0\0\0\0\0\0\x10',
  '\0\x01\0\0\0\0\0\0', '\x20\0\0\0\0\0\0\0', '\0\0\0\0\0\0\0\0',
]; // biome-ignore format: a table

/** Changes bytes in the last part of a valid file, which has the data, or numbers of eight bytes anywhere. */
function withOtherData(input: Buffer, random: Random): Buffer {
  const changed = Buffer.from(input);
  if (changed.length < 64) return changed;
  for (let count = random.from(1, 8); count > 0; count--) {
    if (random.below(3) > 0) {
      const at = (changed.length >> 1) + random.below(changed.length >> 1);
      changed[at] = random.below(256);
    } else {
      const at = random.below(changed.length - 8);
      changed.writeUInt32LE(random.number(changed.readUInt32LE(at)) >>> 0, at);
    }
  }
  return changed;
}

function make(random: Random, corpus: Corpus): Buffer {
  const input = corpus.pick(random);
  return random.do(
    () => withOtherData(input, random),
    () => BYTES.mutate(input, corpus.pick(random), random, WORDS),
  );
}

/** A tensor as gguf-py reads it: name, shape, and SHA-256 of its values; null for a type that gguf-py lacks. */
type Fact = readonly [name: string, shape: readonly number[], sha256: string | null];

/** The values of a tensor as float32, hashed with every NaN as the same one. */
function hashOf(tensor: Tensor): string {
  const values = tensor.toFloat32().map((value) => (Number.isNaN(value) ? Number.NaN : value));
  return createHash('sha256').update(new Uint8Array(values.buffer)).digest('hex');
}

/** Throws unless gguf-py has the same tensors and values. It may reject more files than are rejected here. */
function compare(
  here: readonly [string, Tensor][],
  { found }: PythonAnswer<readonly Fact[]>,
): void {
  if (found === undefined) return;
  const shown = (facts: readonly Fact[]): string =>
    JSON.stringify(facts.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  const theirs = new Map(found.map((fact) => [fact[0], fact]));
  const ours = here.map(([name, tensor]): Fact => {
    const isUnknown = theirs.get(name)?.[2] === null;
    return [name, tensor.shape, isUnknown ? null : hashOf(tensor)];
  });
  if (shown(ours) !== shown(found)) {
    throw new Problem(`here ${shown(ours)}, gguf-py ${shown(found)}`);
  }
}

/** All values of a file, or the code of its error. */
async function valuesOf(path: string, storage: 'read' | undefined): Promise<string> {
  let file: Checkpoint;
  try {
    file = await open(path, { remote: false, formats: ['gguf'], storage });
  } catch (error) {
    return codeOf(error);
  }
  try {
    await file.extra();
    JSON.stringify(file);
    const view = await dequantize(file);
    const read = await view.readTensors();
    for (const [name, { shape, bytes }] of read) {
      const tensor = view.getTensor(name);
      if (Buffer.compare(tensor.bytes, bytes) !== 0) throw new Problem(`${name} differs when read`);
      const rows = tensor.elementCount / (shape.at(-1) ?? 1);
      if (shape.length < 2 || !(rows > 0) || tensor.dtype !== 'F32') continue;
      const last = tensor.toFloat32({ rows: [rows - 1, rows] });
      const end = bytes.subarray(bytes.length - last.byteLength);
      if (Buffer.compare(Buffer.from(last.buffer), end) !== 0)
        throw new Problem(`last row of ${name}`);
    }
    return `tensors ${Array.from(read, ([name, { bytes }]) => name + bytes.length).join()}`;
  } finally {
    file.close({ detach: true });
  }
}

/** Copies of the tensors; none of a file with tensors that cannot be read. */
async function tensorsOf(path: string): Promise<[string, Tensor][]> {
  const file: Checkpoint = await open(path, { remote: false, formats: ['gguf'] });
  try {
    const view = await dequantize(file);
    return view.problems.length > 0 ? [] : [...(await view.readTensors())];
  } finally {
    file.close({ detach: true });
  }
}

async function check(input: Buffer, place: Place): Promise<string> {
  const path = place.file(input);
  const mapped = await valuesOf(path, undefined);
  const read = await valuesOf(path, 'read');
  if (mapped !== read) throw new Problem(`mapped ${mapped}, read ${read}`);
  const [result = ''] = mapped.split(' ');
  const isLittleEndian = input.length >= 8 && input.readUInt16LE(4) !== 0;
  if (result === 'tensors' && isLittleEndian) {
    const tensors = await tensorsOf(path);
    place.ask<readonly Fact[]>('gguf', (answer) => compare(tensors, answer));
  }
  return result;
}

export const gguf: Target = {
  name: 'gguf',
  about: 'GGUF files, mapped and read, whole and by rows, with gguf-py',
  sources: /^(?:foreign\/gguf|quantized\/blocks)\//,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 500,
  outcomes: ['tensors', 'SAFETENSORS_INVALID_GGUF', 'SAFETENSORS_INCOMPLETE_FILE'],
  asksPythonOf: 2,
  seeds: () =>
    readdirSync(FIXTURES).map((name) => readFileSync(new URL(`${name}/model.gguf`, FIXTURES))),
  make,
  check,
};
