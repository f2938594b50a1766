/** Every way to write from a file with digests compares them, before anything takes the place of the target. */

import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import process from 'node:process';
import { afterEach, describe, expect, it } from 'vitest';
import { convertStream } from '../../../src/write/convert/convert-stream.js';
import { call } from '../../cli/call.js';
import {
  convert,
  createWriter,
  editMetadata,
  loadFile,
  type NamedTensors,
  safeOpen,
  saveCheckpoint,
  saveFile,
  serialize,
  serializeStream,
  verify,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const KEY = 'safetensors-mmap.sha256';
const MISMATCH = 'SAFETENSORS_CHECKSUM_MISMATCH';
const OLD = 'the old file';

const closing: { close(): void }[] = [];
afterEach(() => {
  for (const one of closing.splice(0)) one.close();
});

/** Opens a source until the end of the test. */
function open(path: string, storage: 'mmap' | 'read' = 'mmap'): ReturnType<typeof safeOpen> {
  const checkpoint = safeOpen(path, { storage });
  closing.push(checkpoint);
  return checkpoint;
}

/** Reads a stream to its end. */
async function readAll(stream: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const _ of stream);
}

type Way = (source: string, target: string) => Promise<unknown>;

/** Ways that the functions have; `target` is a file. */
const WAYS: Readonly<Record<string, Way>> = {
  saveFile: (source, target) => saveFile(target, open(source)),
  'saveFile with digests': (source, target) => saveFile(target, open(source), { digests: true }),
  'saveFile of a file that is read': (source, target) => saveFile(target, open(source, 'read')),
  'saveFile of a closed file': async (source, target) => {
    const file = safeOpen(source);
    const tensors = file.getTensors();
    file.close();
    await saveFile(target, tensors);
  },
  'saveFile under other names': (source, target) =>
    saveFile(target, new Map([...loadFile(source)].map(([name, one]) => [`x.${name}`, one]))),
  saveCheckpoint: (source, target) => saveCheckpoint(`${target}.d`, open(source)),
  'saveCheckpoint with digests': (source, target) =>
    saveCheckpoint(`${target}.d`, open(source), { digests: true, maxShardSize: 500 }),
  serialize: async (source) => serialize(open(source) as NamedTensors as never),
  serializeStream: (source) => readAll(serializeStream(open(source))),
  'serializeStream with digests': (source) =>
    readAll(serializeStream(open(source), { digests: true })),
  createWriter: async (source, target) => {
    const checkpoint = open(source);
    await using writer = await createWriter(target, checkpoint);
    for (const [name, tensor] of checkpoint) await writer.write(name, tensor);
    await writer.close();
  },
  'convert into shards': (source, target) => convert(source, `${target}.d`, { maxShardSize: 500 }),
  'convert into a folder with digests': (source, target) =>
    convert(source, `${target}.d`, { digests: true }),
  'convert into a folder with a cast': (source, target) =>
    convert(source, `${target}.d`, { dtype: 'F32' }),
  'convert into a folder with other names': (source, target) =>
    convert(source, `${target}.d`, { rename: (name) => `x.${name}` }),
  convert: (source, target) => convert(source, target, { overwrite: true }),
  'convert with a cast': (source, target) =>
    convert(source, target, { dtype: 'BF16', overwrite: true }),
  convertStream: async (source) => {
    const { stream } = await convertStream(source);
    await readAll(stream);
  },
  editMetadata: (source) => editMetadata(source, { a: 'b' }),
  'editMetadata with digests': (source) => editMetadata(source, {}, { digests: true }),
  'editMetadata with modelspecHash': (source) => editMetadata(source, {}, { modelspecHash: true }),
};

/** Commands; the source and the target follow. */
const COMMANDS: Readonly<Record<string, (source: string, target: string) => readonly string[]>> = {
  split: (source, target) => ['split', source, `${target}.d`],
  'split into several': (source, target) => [
    ...['split', source, `${target}.d`, '--max-shard-size', '500B'],
  ],
  convert: (source, target) => ['convert', source, target],
  'convert with a cast': (source, target) => ['convert', source, target, '--dtype', 'BF16'],
  'hash --write': (source) => ['hash', source, '--write'],
  'metadata set': (source) => ['metadata', 'set', source, 'a=b'],
};

/** A file of random tensors with digests. */
async function writeSource(random: Random, digests: boolean): Promise<string> {
  const path = temporaryPath('source.safetensors');
  const tensors = new Map(
    Array.from({ length: random.from(2, 6) }, (_, i) => {
      const length = random.from(1, 200);
      const data = Float32Array.from({ length }, () => random.from(-100, 100));
      return [`t${i}`, { dtype: 'F32', shape: [length], data }] as const;
    }),
  );
  await saveFile(path, tensors, { digests, durable: false });
  return path;
}

/** Changes a bit of one tensor, whose name it returns. */
async function damage(path: string, random: Random): Promise<string> {
  using file = safeOpen(path, { storage: 'read' });
  const [{ dataStart } = { dataStart: Number.NaN }] = await file.headers();
  const name = random.pick(file.offsetKeys());
  const { dataOffsets } = file.info(name);
  const bytes = readFileSync(path);
  const [begin, end] = dataOffsets;
  const at = dataStart + random.from(begin, end - 1);
  bytes[at] = (bytes[at] as number) ^ (1 << random.below(7));
  writeFileSync(path, bytes);
  return name;
}

/** The target and its folder are as before. */
function expectNothing(target: string): void {
  expect(readFileSync(target, 'utf8')).toBe(OLD);
  const folder = `${target}.d`;
  const weights = existsSync(folder)
    ? readdirSync(folder).filter((name) => /safetensors/.test(name))
    : [];
  expect(weights).toEqual([]);
}

let number = 0;

describe.each(Object.entries(WAYS))('%s', (_, write) => {
  it('rejects damaged tensors that have a digest', async () => {
    const random = new Random(SEED, number++);
    const source = await writeSource(random, true);
    const target = temporaryPath('target.safetensors');
    writeFileSync(target, OLD);
    const tensor = await damage(source, random);
    const before = readFileSync(source);
    const error = await write(source, target).then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: MISMATCH, tensor });
    expectNothing(target);
    expect(readFileSync(source).equals(before)).toBe(true);
  });

  it('writes right ones, and tensors without digests', async () => {
    for (const digests of [true, false]) {
      const source = await writeSource(new Random(SEED, number++), digests);
      const target = join(temporaryPath(`folder-${digests}`), '..', `target-${number}.safetensors`);
      await write(source, target);
      for (const written of [target, `${target}.d`]) {
        if (existsSync(written)) expect((await verify(written)).ok).toBe(true);
      }
    }
  });
});

describe.each(Object.entries(COMMANDS))('the command %s', (_, argsOf) => {
  it('rejects damaged tensors that have a digest', async () => {
    const random = new Random(SEED, number++);
    const source = await writeSource(random, true);
    const target = temporaryPath('target.safetensors');
    const tensor = await damage(source, random);
    const before = readFileSync(source);
    const { code, stderr } = await call(argsOf(source, target));
    expect([code, stderr]).toEqual([1, expect.stringContaining(`${MISMATCH}: `)]);
    expect(stderr).toContain(`"${tensor}"`);
    expect(existsSync(target)).toBe(false);
    expect(readFileSync(source).equals(before)).toBe(true);
  });
});

it('is not asked of tensors that the caller has changed', async () => {
  const random = new Random(SEED, number++);
  const source = await writeSource(random, true);
  const checkpoint = open(source);
  for (const [, tensor] of checkpoint) tensor.view(Float32Array).fill(1);
  const target = temporaryPath('changed.safetensors');
  await saveFile(target, checkpoint, { digests: true });
  expect((await verify(target)).ok).toBe(true);
  expect(loadFile(target).get('t0')?.data[0]).toBe(1);
  await saveFile(target, checkpoint);
  await damage(source, random);
  await expect(saveFile(target, loadFile(source))).rejects.toMatchObject({ code: MISMATCH });
});

it('an edit that removes the digests, or stays in place, compares nothing', async () => {
  const random = new Random(SEED, number++);
  const source = await writeSource(random, true);
  await damage(source, random);
  await editMetadata(source, { format: null }, { inPlace: true });
  expect((await verify(source)).ok).toBe(false);
  await editMetadata(source, { [KEY]: null });
  const { checks, files } = await verify(source);
  expect(checks).toEqual(['headers']);
  expect(files).toMatchObject([{ file: basename(source), reason: 'no-digests' }]);
});

it('is left out by convert with verify: false', async () => {
  const random = new Random(SEED, number++);
  const source = await writeSource(random, true);
  await damage(source, random);
  const target = temporaryPath('unverified.safetensors');
  await convert(source, target, { verify: false });
  expect((await verify(target)).checks).toEqual(['headers']);
});

it('hashes of all tensors stay only with the same bytes', async () => {
  const source = temporaryPath('hashed.safetensors');
  await writeSource(new Random(SEED, number++), false).then((path) =>
    saveFile(source, loadFile(path), { durable: false }),
  );
  await editMetadata(source, {}, { modelspecHash: true });
  const hash = 'modelspec.hash_sha256';
  const ways: readonly [string, boolean, object][] = [
    ['same', true, {}],
    ['cast', false, { dtype: 'BF16' }],
    ['renamed', false, { rename: (name: string) => `x.${name}` }],
    ['some', false, { names: ['t0'] }],
    ['split', false, { maxShardSize: 100 }],
  ];
  for (const [name, isKept, options] of ways) {
    const target = temporaryPath(`${name}-hashes`);
    await convert(source, target, options);
    expect(open(target).metadata?.has(hash), name).toBe(isKept);
    expect((await verify(target)).ok, name).toBe(true);
  }
});
