/** `convert` of bytes, descriptors, Blobs and readers writes what it writes of the same files on a disk. */
import { mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type FileHandle, open as openHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { noise } from '../remote/download/downloads.js';
import { convert, safeOpen, saveFile } from '../support/api.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';

const FIRST = fileBytes(
  [
    { name: 'a', dtype: 'F32', shape: [40, 8], bytes: noise(1280) },
    { name: 'b', dtype: 'F32', shape: [40, 8], bytes: noise(1280, 2) },
  ],
  { metadata: { format: 'pt', note: 'x' } },
);
const SECOND = fileBytes([{ name: 'c', dtype: 'I64', shape: [4], bytes: noise(32, 3) }], {
  metadata: { format: 'pt' },
});
const NAMES = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;
const INDEX = JSON.stringify({
  metadata: { total_size: 2592, note: 'y' },
  weight_map: { a: NAMES[0], b: NAMES[0], c: NAMES[1] },
});
const SHARDED: Readonly<Record<string, string | Uint8Array>> = {
  [NAMES[0]]: FIRST,
  [NAMES[1]]: SECOND,
  'model.safetensors.index.json': INDEX,
};

/** FP8 with one scale, and its configuration. */
const QUANTIZED: Readonly<Record<string, string | Uint8Array>> = {
  'model.safetensors': fileBytes([
    { name: 'up.weight', dtype: 'F8_E4M3', shape: [4, 4], bytes: new Uint8Array(16).fill(0x38) },
    { name: 'up.weight_scale_inv', dtype: 'F32', shape: [1, 1], bytes: f32(0.5) },
    { name: 'norm.weight', dtype: 'F32', shape: [4], bytes: noise(16) },
  ]),
  'config.json': JSON.stringify({
    hidden_size: 4,
    quantization_config: { quant_method: 'fp8', weight_block_size: [4, 4] },
  }),
};

function f32(value: number): Uint8Array {
  return new Uint8Array(Float32Array.of(value).buffer);
}

let folders = 0;

function folderOf(files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = temporaryPath(`source-${folders++}`);
  mkdirSync(folder);
  for (const [name, contents] of Object.entries(files)) writeFileSync(join(folder, name), contents);
  return folder;
}

function blobsOf(files: Readonly<Record<string, string | Uint8Array>>): Map<string, Blob> {
  return new Map(Object.entries(files).map(([name, contents]) => [name, new Blob([contents])]));
}

function contentsOf(folder: string): [string, Buffer][] {
  const names = readdirSync(folder).filter((name) => !name.startsWith('.'));
  return names.sort().map((name) => [name, readFileSync(join(folder, name))]);
}

const fast = { durable: false } as const;
const CHOICES = [
  {},
  { dtype: 'F16' },
  { names: ['b'], rename: { b: 'x' } },
  { metadata: { note: 'z' } },
  { metadata: null, digests: true },
  { verify: false },
] as const;

const handles: FileHandle[] = [];
afterEach(async () => {
  await Promise.all(handles.splice(0).map((handle) => handle.close()));
});

async function opened(path: string): Promise<FileHandle> {
  const handle = await openHandle(path);
  handles.push(handle);
  return handle;
}

/** One file in every form without a path. */
const KINDS: readonly [string, (bytes: Uint8Array<ArrayBuffer>, path: string) => unknown][] = [
  ['bytes', (bytes) => bytes],
  ['a descriptor', (_, path) => openSync(path, 'r')],
  ['a FileHandle', (_, path) => opened(path)],
  ['a Blob', (bytes) => new Blob([bytes])],
  [
    'a reader',
    (bytes) => ({
      byteLength: bytes.length,
      read: async (begin: number, end: number) => bytes.slice(begin, end),
    }),
  ],
];

for (const [kind, sourceOf] of KINDS) {
  it.each(CHOICES)(`${kind}: %j`, async (options) => {
    const path = temporaryPath('source.safetensors');
    writeFileSync(path, FIRST);
    const source = (await sourceOf(new Uint8Array(FIRST), path)) as Blob;
    const [found, expected] = ['found', 'expected'].map((name) =>
      temporaryPath(`${name}.safetensors`),
    ) as [string, string];
    const done = await convert(source, found, { ...options, ...fast });
    const wanted = await convert(path, expected, { ...options, ...fast });
    expect(readFileSync(found)).toEqual(readFileSync(expected));
    expect({ ...done, path: expected, files: wanted.files }).toEqual(wanted);
  });
}

it.each([...CHOICES, { maxShardSize: 1300 }] as const)(
  'a Map of Blobs into a folder: %j',
  async (options) => {
    const [found, expected] = [temporaryPath('found'), temporaryPath('expected')];
    const done = await convert(blobsOf(SHARDED), found, { ...options, ...fast });
    const wanted = await convert(folderOf(SHARDED), expected, { ...options, ...fast });
    expect(contentsOf(found)).toEqual(contentsOf(expected));
    expect({ ...done, path: wanted.path }).toEqual(wanted);
  },
);

it.each(['F32', 'BF16'] as const)('dequantizes as %s, with config.json', async (dequantize) => {
  const [found, expected] = [temporaryPath('found'), temporaryPath('expected')];
  const done = await convert(blobsOf(QUANTIZED), found, { dequantize, ...fast });
  const wanted = await convert(folderOf(QUANTIZED), expected, { dequantize, ...fast });
  expect(contentsOf(found)).toEqual(contentsOf(expected));
  expect(done.dequantized).toEqual(['up.weight']);
  expect({ ...done, path: wanted.path }).toEqual(wanted);
});

it('plans without writing', async () => {
  const target = temporaryPath('planned');
  const plan = await convert(new Blob([FIRST]), target, { names: ['a'], dryRun: true });
  const [file] = plan.files;
  expect(file?.tensors).toEqual(['a']);
  expect(() => readdirSync(target)).toThrow('ENOENT');
});

it('compares declared digests unless verify is false', async () => {
  const path = temporaryPath('declared.safetensors');
  await saveFile(path, safeOpen(sourceFile()), { digests: true });
  const damaged = new Uint8Array(readFileSync(path));
  damaged[damaged.length - 1] = (damaged.at(-1) as number) ^ 1;
  const target = temporaryPath('target.safetensors');
  const descriptorOf = (): number => {
    const file = temporaryPath('damaged.safetensors');
    writeFileSync(file, damaged);
    return openSync(file, 'r');
  };
  for (const source of [damaged, new Blob([damaged]), descriptorOf()]) {
    for (const options of [
      { ...fast, overwrite: true },
      { ...fast, overwrite: true, dtype: 'F16' },
    ] as const) {
      await expect(convert(source, target, options)).rejects.toMatchObject({
        code: 'SAFETENSORS_CHECKSUM_MISMATCH',
        tensor: 'b',
      });
    }
    await convert(source, target, { ...fast, verify: false, overwrite: true });
    expect(safeOpen(target).keys()).toEqual(['a', 'b']);
  }
});

it('compares declared digests of quantized weights', async () => {
  const folder = folderOf(QUANTIZED);
  const path = temporaryPath('quantized.safetensors');
  await saveFile(path, safeOpen(folder), { digests: true, durable: false });
  const damaged = new Uint8Array(readFileSync(path));
  const { dataOffsets } = safeOpen(path).info('up.weight');
  const [start] = new BigUint64Array(damaged.slice(0, 8).buffer) as unknown as [bigint];
  damaged[8 + Number(start) + dataOffsets[0]] = 0x30;
  const config = QUANTIZED['config.json'] as string;
  const files = { 'model.safetensors': damaged, 'config.json': config };
  const target = temporaryPath('target.safetensors');
  const expected = { code: 'SAFETENSORS_CHECKSUM_MISMATCH', tensor: 'up.weight' };
  const options = { dequantize: 'F32', durable: false } as const;
  const sources = [blobsOf(files), folderOf(files)];
  for (const source of sources) {
    await expect(convert(source, target, options)).rejects.toMatchObject(expected);
  }
  await convert(blobsOf(files), target, { ...options, names: ['norm.weight'] });
  expect(safeOpen(target).keys()).toEqual(['norm.weight']);
  await convert(blobsOf(files), target, { ...options, verify: false, overwrite: true });
  expect(safeOpen(target).getTensor('up.weight').toFloat32()[0]).toBe(0.25);
});

function sourceFile(): string {
  const path = temporaryPath('first.safetensors');
  writeFileSync(path, FIRST);
  return path;
}

it('does not replace weights of another model', async () => {
  const target = sourceFile();
  const blob = new Blob([SECOND]);
  const expected = { code: 'SAFETENSORS_TARGET_EXISTS' };
  await expect(convert(blob, target, fast)).rejects.toMatchObject(expected);
  expect(readFileSync(target)).toEqual(Buffer.from(FIRST));
  await convert(blob, target, { ...fast, overwrite: true });
  expect(safeOpen(target).keys()).toEqual(['c']);
});

it('rejects options and sources that it cannot use before it makes a folder', async () => {
  const target = temporaryPath('never');
  const blob = new Blob([FIRST]);
  const rejected = async (source: unknown, options: object, text: string): Promise<void> => {
    await expect(convert(source as Blob, target, options)).rejects.toThrow(text);
    expect(() => readdirSync(target)).toThrow('ENOENT');
  };
  await rejected(blob, { copyOtherFiles: true }, 'copyOtherFiles must be left out or false');
  await rejected(null, {}, 'source must be a path');
  await rejected({}, {}, 'source must be');
  await rejected(new Blob(['no']), {}, 'expected at least 8 bytes');
  await rejected(blob, { root: ['a'] }, 'root must be left out');
  await rejected(blob, { names: ['nope'] }, 'nope');
});
