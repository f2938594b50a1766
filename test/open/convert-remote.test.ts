/** `convert` of an address writes what it writes of the same files on a disk. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { noise, useHub } from '../remote/download/downloads.js';
import { convert, download, safeOpen } from '../support/api.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';

const MODEL: Readonly<Record<string, string | Uint8Array>> = {
  'model-00001-of-00002.safetensors': fileBytes(
    [
      { name: 'a', dtype: 'F32', shape: [40, 8], bytes: noise(1280) },
      { name: 'b', dtype: 'F32', shape: [40, 8], bytes: noise(1280, 2) },
    ],
    { metadata: { format: 'pt' } },
  ),
  'model-00002-of-00002.safetensors': fileBytes(
    [{ name: 'c', dtype: 'I64', shape: [4], bytes: noise(32, 3) }],
    { metadata: { format: 'pt' } },
  ),
  'model.safetensors.index.json': JSON.stringify({
    metadata: { total_size: 2592, note: 'x' },
    weight_map: {
      a: 'model-00001-of-00002.safetensors',
      b: 'model-00001-of-00002.safetensors',
      c: 'model-00002-of-00002.safetensors',
    },
  }),
  'config.json': '{"dtype":"float32"}',
};

const hub = useHub({ 'org/model': { files: MODEL } });
const SOURCE = 'hf://org/model';

let local = '';
beforeEach(() => {
  vi.stubEnv('HF_ENDPOINT', hub().url);
  vi.stubEnv('HF_TOKEN', '');
  local = temporaryPath('local');
  mkdirSync(local);
  for (const [name, contents] of Object.entries(MODEL)) writeFileSync(join(local, name), contents);
});
afterEach(() => vi.unstubAllEnvs());

const fast = { durable: false } as const;

function contentsOf(folder: string): [string, Buffer][] {
  const names = readdirSync(folder).filter((name) => !name.startsWith('.'));
  return names.sort().map((name) => [name, readFileSync(join(folder, name))]);
}

it.each([
  {},
  { maxShardSize: 1000 },
  { dtype: 'F16', maxShardSize: 700 },
  { names: ['c', 'a'], rename: { a: 'x' } },
  { metadata: { note: 'y', more: 'z' } },
  { metadata: null },
  { verify: true, digests: false },
  { copyOtherFiles: true, dtype: 'BF16' },
] as const)('into a folder: %j', async (options) => {
  const [remote, expected] = [temporaryPath('remote'), temporaryPath('expected')];
  const done = await convert(SOURCE, remote, { ...options, ...fast });
  const wanted = await convert(local, expected, { ...options, ...fast });
  expect(contentsOf(remote)).toEqual(contentsOf(expected));
  const below = (path: string): string => path.replace(remote, expected);
  expect({ ...done, path: below(done.path) }).toEqual(wanted);
  expect(safeOpen(done.path).size).toBeGreaterThan(0);
});

it('into a file', async () => {
  const [remote, expected] = ['remote', 'expected'].map((name) =>
    temporaryPath(`${name}.safetensors`),
  ) as [string, string];
  const options = { dtype: 'F16', ...fast } as const;
  const done = await convert(SOURCE, remote, options);
  const wanted = await convert(local, expected, options);
  expect(readFileSync(remote)).toEqual(readFileSync(expected));
  expect(done.files).toEqual(['remote.safetensors']);
  expect({ ...done, path: expected, files: wanted.files }).toEqual(wanted);
  const plan = await convert(SOURCE, remote, { ...options, dryRun: true, overwrite: true });
  expect(plan.files.map(({ name }) => name)).toEqual(done.files);
});

it('rejects copyOtherFiles where the server lists no files', async () => {
  const source = `${hub().url}/org/model/resolve/main/model.safetensors.index.json`;
  const options = { ...fast, copyOtherFiles: true };
  const listed = await convert(source, temporaryPath('listed'), options).then(
    ({ copied }) => copied,
    ({ code }) => code,
  );
  expect(['ERR_OUT_OF_RANGE', ['config.json']]).toContainEqual(listed);
});

it('rejects what is no source', async () => {
  for (const source of [undefined, null, true]) {
    await expect(convert(source as never, temporaryPath('x'))).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringContaining('hf://'),
    });
  }
});

it('takes the Hub cache alone with HF_HUB_OFFLINE', async () => {
  const cache = temporaryPath('cache');
  vi.stubEnv('HF_HUB_CACHE', cache);
  await download(SOURCE, 'cache');
  vi.stubEnv('HF_HUB_OFFLINE', '1');
  const target = temporaryPath('target');
  await convert(SOURCE, target, fast);
  expect(safeOpen(target).size).toBe(3);
  await expect(convert('hf://org/other', temporaryPath('x'))).rejects.toMatchObject({
    code: 'SAFETENSORS_NOT_IN_CACHE',
  });
});

it('plans the same, and writes nothing', async () => {
  const target = temporaryPath('target');
  const options = { dtype: 'F16', maxShardSize: 700, dryRun: true } as const;
  const plan = await convert(SOURCE, target, options);
  expect(plan).toEqual(await convert(local, target, options));
  expect(() => readdirSync(target)).toThrow(expect.objectContaining({ code: 'ENOENT' }));
});

it('replaces weights of another source only with `overwrite`', async () => {
  const target = temporaryPath('target');
  mkdirSync(target);
  writeFileSync(join(target, 'model.safetensors'), 'other');
  const code = 'SAFETENSORS_TARGET_EXISTS';
  await expect(convert(SOURCE, target, fast)).rejects.toMatchObject({ code });
  await convert(SOURCE, target, { ...fast, overwrite: true });
  expect(safeOpen(target).size).toBe(3);
});

it.each([
  { verify: false },
  { root: 'model' },
  { digests: true },
  { filenamePattern: 'x{suffix}.safetensors' },
])('rejects options for local sources: %j', async (options) => {
  const target = temporaryPath('target');
  await expect(convert(SOURCE, target, options)).rejects.toMatchObject({
    code: 'ERR_OUT_OF_RANGE',
    message: expect.stringContaining(Object.keys(options)[0] as string),
  });
});
