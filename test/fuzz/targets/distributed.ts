/** Folders of distributed checkpoints with changed files: rejected, or read alike in every way. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Checkpoint, open } from 'safetensors-mmap';
import type { Random } from '../../support/random.js';
import { BYTES } from '../bytes.js';
import { type Corpus, codeOf, type Place, Problem, type Target } from '../target.js';

const FIXTURES = new URL('../../fixtures/dcp/', import.meta.url);

const WORDS: readonly string[] = [
  'saved_offsets', 'DCP_SHARDING_INFO', '[0]', '[1]', '[3]', '[0,0]', '"shape":[', 'F32', 'I64', 'torch.Size', 'J\0\0\0\0',
  'K\x01', 'K\x02', 'K\x03', 'K\x04', '\x85', '\x86', '\x87', '__0_0.distcp', '__1_0.distcp', '../x',
]; // biome-ignore format: a table

/** A file of a folder. */
type NamedBytes = readonly [name: string, bytes: Buffer];

/** An input is all files of a folder: the lengths of name and bytes before each. */
function joined(files: readonly NamedBytes[]): Buffer {
  return Buffer.concat(
    files.flatMap(([name, bytes]): Buffer[] => {
      const head = Buffer.alloc(5);
      head[0] = name.length;
      head.writeUInt32LE(bytes.length, 1);
      return [head, Buffer.from(name), bytes];
    }),
  );
}

/** The files of an input, as far as it has them. */
function filesOf(input: Buffer): NamedBytes[] {
  const files: NamedBytes[] = [];
  for (let at = 0; at + 5 <= input.length; ) {
    const begin = at + 5 + (input[at] as number);
    const end = begin + input.readUInt32LE(at + 1);
    const name = input.toString('latin1', at + 5, begin).replaceAll(/[^\w.-]/g, '_');
    files.push([name, input.subarray(begin, end)]);
    at = end;
  }
  return files;
}

function make(random: Random, corpus: Corpus): Buffer {
  const files = filesOf(corpus.pick(random));
  const others = filesOf(corpus.pick(random));
  if (files.length === 0) return corpus.pick(random);
  const at = random.below(files.length);
  const [name, bytes] = files[at] as NamedBytes;
  const [, other] = random.pick(others.length > 0 ? others : files);
  const changed: readonly NamedBytes[] = random.do<readonly (readonly NamedBytes[])[]>(
    () => [[name, BYTES.mutate(bytes, other, random, WORDS)]],
    () => [[name, withOtherByte(bytes, random)]],
    () => [[name, withOtherByte(bytes, random)]],
    () => [],
    () => [[name, other]],
    () => [
      [name, bytes],
      [random.pick(files)[0].replace(/\d(?=\D*$)/, `${random.below(4)}`), other],
    ],
  );
  return joined([...files.slice(0, at), ...changed, ...files.slice(at + 1)]);
}

/** One other byte, in the header or the data. */
function withOtherByte(bytes: Buffer, random: Random): Buffer {
  if (bytes.length === 0) return bytes;
  const changed = Buffer.from(bytes);
  const at = random.below(changed.length);
  changed[at] = random.do(
    () => random.below(256),
    () => ((changed[at] as number) + 1) & 255,
    () => ((changed[at] as number) + 255) & 255,
  );
  return changed;
}

/** The code of an error of this package, or of the system for a listed file that is not there. */
function expectedCode(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENAMETOOLONG' ? code : codeOf(error);
}

/** All bytes of a checkpoint, or the code of its error. */
async function bytesOf(folder: string, storage: 'read' | undefined): Promise<string> {
  let opened: Checkpoint;
  try {
    opened = await open(folder, { remote: false, formats: ['dcp'], storage });
  } catch (error) {
    return expectedCode(error);
  }
  const values: string[] = [];
  try {
    await opened.extra();
    const unreadable = new Set(opened.problems.map(({ tensor }) => tensor));
    for (const name of opened.keys().filter((one) => !unreadable.has(one))) {
      const tensor = opened.getTensor(name);
      const bytes = Buffer.from(tensor.bytes);
      const [rows = 0] = tensor.shape;
      if (rows > 1) {
        const last = opened.getSlice(name, [rows - 1, rows]).bytes;
        const end = bytes.subarray(bytes.length - last.length);
        if (!end.equals(last)) throw new Problem(`the last row of ${name} differs`);
      }
      values.push(`${name} ${tensor.dtype} ${tensor.shape} ${bytes.toString('base64')}`);
    }
  } catch (error) {
    return expectedCode(error);
  } finally {
    opened.close({ detach: true });
  }
  return `tensors ${values.join('; ')}`;
}

async function check(input: Buffer, place: Place): Promise<string> {
  const folder = join(place.folder, 'distributed');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const [name, bytes] of filesOf(input)) {
    if (!/^\.*$/.test(name)) writeFileSync(join(folder, name.slice(0, 100)), bytes);
  }
  const mapped = await bytesOf(folder, undefined);
  const read = await bytesOf(folder, 'read');
  if (mapped !== read) throw new Problem(`mapped ${mapped}, read ${read}`);
  return mapped.split(' ')[0] as string;
}

export const distributed: Target = {
  name: 'distributed',
  about: 'distributed checkpoints, mapped and read, whole and by rows',
  sources: /^foreign\/distributed\//,
  form: BYTES,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 500,
  outcomes: ['tensors', 'SAFETENSORS_INVALID_DISTRIBUTED', 'SAFETENSORS_MISSING_SHARDS'],
  asksPythonOf: 0,
  seeds: () =>
    readdirSync(FIXTURES).map((name) => {
      const folder = new URL(`${name}/ckpt/`, FIXTURES);
      const names = readdirSync(folder);
      return joined(names.map((one): NamedBytes => [one, readFileSync(new URL(one, folder))]));
    }),
  make,
  check,
};
