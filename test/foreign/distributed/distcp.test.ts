/** `.distcp` files that are damaged, missing or lie: an error with a code, in bounded time, and nothing outside. */
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  convert,
  loadFile,
  open as openAnything,
  safeOpen,
  verify,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { root } from '../../support/source-tree.js';
import { unicode } from '../pickle/pickle-bytes.js';
import { integer, writeDistcp } from './distcp-files.js';

const FIXTURE = join(root, 'test/fixtures/dcp/dcp-nested-bytes');
const INVALID = 'SAFETENSORS_INVALID_DISTRIBUTED';

const open = (path: string): Promise<Checkpoint> => openAnything(path, { remote: false });

let folder: string;
beforeEach(() => {
  folder = temporaryPath('ckpt');
  cpSync(join(FIXTURE, 'ckpt'), folder, { recursive: true });
});

/** Replaces bytes of `.metadata`, where they are first. */
function replace(before: string, after: string): void {
  const path = join(folder, '.metadata');
  const bytes = readFileSync(path);
  const at = bytes.indexOf(before, 0, 'latin1');
  expect([before.length, at === -1]).toEqual([after.length, false]);
  bytes.write(after, at, 'latin1');
  writeFileSync(path, bytes);
}

it('is converted in one call, and opened by its list, too', async () => {
  const expected = loadFile(join(FIXTURE, 'expected.safetensors'));
  const target = temporaryPath('converted.safetensors');
  await convert(folder, target, { durable: false, names: (name) => name.startsWith('model.') });
  const names = [...expected.keys()].filter((name) => name.startsWith('model.')).sort();
  expect(safeOpen(target).keys()).toEqual(names);
  for (const [name, { bytes }] of loadFile(target))
    expect(bytes).toEqual(expected.get(name)?.bytes);
  const checkpoint = await open(join(folder, '.metadata'));
  expect(checkpoint.path).toBe(join(folder, '.metadata'));
  const rows = checkpoint.getSlice('model.cols', '1:3, 2:8');
  expect(rows.bytes).toEqual(expected.get('model.cols')?.slice('1:3, 2:8').bytes);
  checkpoint.close();
});

it('is verified by its checksums', async () => {
  expect(await verify(folder)).toMatchObject({ problems: [] });
  const rows = loadFile(join(FIXTURE, 'expected.safetensors')).get('model.rows')?.bytes;
  const first = Buffer.from(rows?.subarray(0, 96) as Uint8Array);
  const path = readdirSync(folder)
    .map((name) => join(folder, name))
    .find((one) => readFileSync(one).includes(first)) as string;
  const bytes = readFileSync(path);
  const at = bytes.indexOf(first);
  bytes[at] = (bytes[at] as number) ^ 1;
  writeFileSync(path, bytes);
  const { problems } = await verify(folder);
  expect(problems.map(({ code }) => code)).toEqual(['SAFETENSORS_CHECKSUM_MISMATCH']);
});

describe('an error', () => {
  it('for a file outside of the folder', async () => {
    replace('__0_0.distcp', '../_0.distcp');
    await expect(open(folder)).rejects.toMatchObject({ code: INVALID });
  });

  it('for a class that is not on the list', async () => {
    replace('TensorProperties', 'TensorPropertie2');
    await expect(open(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_FORBIDDEN_GLOBAL' });
  });

  it('for a missing file', async () => {
    const name = readdirSync(folder).find((one) => one.endsWith('_0.distcp')) as string;
    rmSync(join(folder, name));
    await expect(open(folder)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it.each([0, 100])('for a file truncated to %i bytes', async (byteLength) => {
    for (const name of readdirSync(folder)) {
      if (name.endsWith('.distcp')) truncateSync(join(folder, name), byteLength);
    }
    await expect(open(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_INCOMPLETE_FILE' });
  });

  it('for the lists of single ranks, which nothing has merged', async () => {
    const metadata = readFileSync(join(folder, '.metadata'));
    rmSync(join(folder, '.metadata'));
    writeFileSync(join(folder, '__0.metadata'), metadata);
    const code = 'SAFETENSORS_CHECKPOINT_NOT_FOUND';
    await expect(open(folder)).rejects.toMatchObject({ code, foundFormat: 'torch-distributed' });
  });
});

/** A tensor of two pieces of a row each. */
const rows = (name: string, file: string, ...values: readonly number[]) => ({
  name,
  shape: [2, 1],
  pieces: values.map((value, row) => {
    return { offsets: [row, 0], shape: [1, 1], file, bytes: Uint8Array.of(value) };
  }),
});

/** A tensor in one piece. */
const single = (name: string, file: string, value: number) => ({
  name,
  shape: [1],
  pieces: [{ offsets: [0], shape: [1], file, bytes: Uint8Array.of(value) }],
});

describe('names of tensors', () => {
  it.each(['__0_0.distcp', '__1_0.distcp'])('may be those of pieces: in %s', async (file) => {
    const other = single('w[0:1, 0:1]', file, 99);
    const checkpoint = await open(writeDistcp([rows('w', '__0_0.distcp', 1, 2), other]));
    expect([...checkpoint.getTensor('w').bytes]).toEqual([1, 2]);
    expect([...checkpoint.getTensor('w[0:1, 0:1]').bytes]).toEqual([99]);
  });

  it('may begin with a number', async () => {
    const other = { ...rows('0 x', '__0_0.distcp', 1, 2) };
    const checkpoint = await open(writeDistcp([other, single('x', '__0_0.distcp', 3)]));
    expect(checkpoint.keys()).toEqual(['0 x', 'x']);
  });

  it('are in the order of their bytes', async () => {
    const [first, second] = ['__0_0.distcp', '__1_0.distcp'] as const;
    const listed = [single('z', second, 1), single('a', first, 2), single('b', second, 3)];
    const checkpoint = await open(writeDistcp(listed));
    const files = checkpoint.offsetKeys().map((name) => {
      return checkpoint.shards.indexOf(name === 'a' ? first : second);
    });
    expect(files).toEqual(files.toSorted());
  });
});

it('packed floats are twice as many elements', async () => {
  const pieces = [0, 1].map((row) => {
    const bytes = Uint8Array.of(0x21 + row, 0x43);
    return { offsets: [row, 0], shape: [1, 2], file: '__0_0.distcp', bytes };
  });
  const packed = { name: 'f4', dtype: 'float4_e2m1fn_x2', shape: [2, 2], pieces };
  const checkpoint = await open(writeDistcp([packed, single('x', '__0_0.distcp', 3)]));
  const { dtype, shape, bytes } = checkpoint.getTensor('f4');
  expect([dtype, shape, [...bytes]]).toEqual(['F4', [2, 4], [0x21, 0x43, 0x22, 0x43]]);
});

it.each([
  ['of only objects', []],
  ['of tensors without pieces', [{ name: 'w', shape: [2], pieces: [] }]],
])('a list %s is an error', async (_, tensors) => {
  const opening = open(writeDistcp(tensors, ['step']));
  await expect(opening).rejects.toMatchObject({ code: INVALID });
});

it('pieces that share bytes are rejected', async () => {
  const written = writeDistcp([rows('w', '__0_0.distcp', 1, 2)]);
  const path = join(written, '.metadata');
  const text = readFileSync(path, 'latin1');
  // The place of the second piece is the last number before a length.
  const at = text.lastIndexOf(unicode('length')) - integer(0).length;
  const moved = text.slice(0, at) + integer(1) + text.slice(at + integer(0).length);
  writeFileSync(path, moved, 'latin1');
  await expect(open(written)).rejects.toMatchObject({ code: INVALID, tensor: 'w' });
});

it('a safetensors model in the same folder comes first', async () => {
  cpSync(join(FIXTURE, 'expected.safetensors'), join(folder, 'model.safetensors'));
  expect((await open(folder)).format).toBe('safetensors');
  expect((await open(join(folder, '.metadata'))).format).toBe('dcp');
});

it('limits apply to conversions, too', async () => {
  const limits = { maxPickleByteLength: 10 };
  const converting = convert(folder, temporaryPath('out'), { limits });
  await expect(converting).rejects.toMatchObject({ code: 'SAFETENSORS_FOREIGN_LIMIT' });
});

it('random damage gives errors with codes', async () => {
  const names = readdirSync(folder);
  const contents = new Map(names.map((name) => [name, readFileSync(join(folder, name))]));
  const codes = new Map<string, number>();
  for (let number = 0; number < 300; number++) {
    const random = new Random(62, number);
    const name = random.chance(0.7) ? '.metadata' : random.pick(names);
    const bytes = Buffer.from(contents.get(name) as Buffer);
    for (let i = random.from(1, 3); i > 0; i--) {
      const at = random.below(bytes.length);
      bytes[at] = random.chance(0.5)
        ? random.below(256)
        : (bytes[at] as number) ^ (1 << random.below(8));
    }
    writeFileSync(join(folder, name), bytes);
    try {
      const checkpoint = await open(folder);
      for (const key of checkpoint.keys()) expect(checkpoint.getTensor(key).bytes).toBeDefined();
      checkpoint.close();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      expect(code, `${number}: ${error}`).toMatch(/^(?:SAFETENSORS_|ENOENT|ENAMETOOLONG)/);
      codes.set(String(code), (codes.get(String(code)) ?? 0) + 1);
    }
    writeFileSync(join(folder, name), contents.get(name) as Buffer);
  }
  expect(codes.size).toBeGreaterThan(3);
});
