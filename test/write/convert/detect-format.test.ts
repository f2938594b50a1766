import { cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { detectFormat } from '../../../src/write/convert/detect-format.js';
import { fixturePath } from '../../foreign/torch/fixtures.js';
import { open, safeOpen, saveFile } from '../../support/api.js';
import { intercept, systemError } from '../../support/intercept.js';
import { temporaryPath } from '../../support/make-file.js';
import { filled } from '../../support/saved-tensors.js';

const TORCH = fixturePath('zip-state-dict.pt');
const ARRAYS = fixturePath('np-savez.npz');

/** A copy of a file under another name. */
function called(name: string, from: string): string {
  const path = temporaryPath(name);
  cpSync(from, path);
  return path;
}

function written(name: string, bytes: Uint8Array | string): string {
  const path = temporaryPath(name);
  writeFileSync(path, bytes);
  return path;
}

/** A folder with files of that content, by name. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = temporaryPath('source');
  mkdirSync(folder);
  for (const [name, from] of Object.entries(files)) cpSync(from, join(folder, name));
  return folder;
}

describe('of a file the first bytes say it, not the name', () => {
  it.each<[what: string, path: () => string, format: string | null, found: string | null]>([
    ['torch', () => TORCH, 'torch', 'zip'],
    ['torch called .npz', () => called('plain.npz', TORCH), 'torch', 'zip'],
    ['NumPy called .zip', () => called('arrays.zip', ARRAYS), 'numpy', 'zip'],
    ['an array called .bin', () => called('a.bin', fixturePath('np-f4.npy')), 'numpy', 'numpy'],
    [
      'safetensors called .bin',
      () => fixturePath('safetensors-as-bin.bin'),
      'safetensors',
      'safetensors',
    ],
    [
      'GGUF called .safetensors',
      () => written('a.safetensors', 'GGUF\x03'.padEnd(100, '\0')),
      'gguf',
      'gguf',
    ],
    [
      'a header too long to be one',
      () => written('a.safetensors', Buffer.alloc(16, 0xfe)),
      null,
      null,
    ],
    ...[6, 7].map(
      (at) =>
        [
          `a header whose length has a bit in byte ${at}`,
          () => written('a.safetensors', Buffer.alloc(16).fill(1, at, at + 1)),
          null,
          null,
        ] as [string, () => string, null, null],
    ),
    [
      'a short text that looks like a header',
      () => written('a.safetensors', Buffer.from('\x08\0\0\0\0\0\0\0nonsense')),
      'safetensors',
      null,
    ],
    ['nothing', () => written('a.bin', ''), 'safetensors', null],
    [
      'an index',
      () => written('model.safetensors.index.json', '{}'),
      'safetensors',
      'checkpoint-index',
    ],
    ['an index of torch', () => written('x.bin.index.json', '{}'), 'torch', 'checkpoint-index'],
    [
      'an index of a variant of torch',
      () => written('pytorch_model.bin.index.fp16.json', '{}'),
      'torch',
      'checkpoint-index',
    ],
    ...['w.index.json', 'w.json', 'model.safetensors.index.json'].map(
      (name) =>
        [
          `an index of shards of torch called ${name}`,
          () => written(name, '{"metadata":{},"weight_map":{"a\\"":"a.bin"}}'),
          'torch',
          'checkpoint-index',
        ] as [string, () => string, string, string],
    ),
    [
      'an index of safetensors called as one of torch',
      () => written('x.bin.index.json', '{"weight_map":{"a":"a.safetensors"}}'),
      'safetensors',
      'checkpoint-index',
    ],
  ])('%s', async (_, made, format, foundFormat) => {
    const path = made();
    expect(await detectFormat(path)).toEqual({ path, format, foundFormat });
    expect(await detectFormat(pathToFileURL(path))).toEqual({ path, format, foundFormat });
  });
});

describe('of a folder', () => {
  it.each([
    ['pytorch_model.bin', 'torch'],
    ['diffusion_pytorch_model.bin', 'torch'],
    ['only.pt', 'torch'],
    ['only.npz', 'numpy'],
  ])('%s is found', async (name, format) => {
    const folder = folderOf({ [name]: format === 'numpy' ? ARRAYS : TORCH });
    const path = join(folder, name);
    expect(await detectFormat(folder)).toEqual({ path, format, foundFormat: 'zip' });
    using opened = await open(folder, { remote: false });
    expect([opened.path, opened.format]).toEqual([path, format]);
  });

  it('safetensors come first, broken ones too', async () => {
    const folder = folderOf({ 'pytorch_model.bin': TORCH });
    const safetensors = { path: folder, format: 'safetensors', foundFormat: null };
    await saveFile(join(folder, 'model.safetensors'), { c: filled(3, 0) }, { durable: false });
    expect(await detectFormat(folder)).toEqual(safetensors);
    writeFileSync(join(folder, 'model.safetensors.index.json'), 'no index');
    expect(await detectFormat(folder)).toEqual(safetensors);
  });

  it('an index is not read: who opens it has the limit', async () => {
    const folder = folderOf({ 'pytorch_model.bin': TORCH });
    // A link to nothing cannot be read.
    symlinkSync('nothing', join(folder, 'model.safetensors.index.json'));
    expect(await detectFormat(folder)).toMatchObject({ path: folder, format: 'safetensors' });
  });

  it('a pipeline comes first when it has a model', async () => {
    const folder = folderOf({ 'pytorch_model.bin': TORCH });
    mkdirSync(join(folder, 'unet'));
    const model = join(folder, 'unet/diffusion_pytorch_model.safetensors');
    const format = async (): Promise<unknown> => {
      using opened = await open(folder, { remote: false });
      return opened.format;
    };
    writeFileSync(join(folder, 'model_index.json'), '{}');
    expect(await format()).toBe('torch');
    await saveFile(model, { c: filled(3, 0) }, { durable: false });
    await expect(format()).rejects.toMatchObject({ code: 'SAFETENSORS_DIFFUSERS_PIPELINE' });
    rmSync(join(folder, 'model_index.json'));
    expect(await format()).toBe('torch');
  });

  it('nothing is chosen among several', async () => {
    const folder = folderOf({ 'a.pt': TORCH, 'b.npz': ARRAYS });
    expect(await detectFormat(folder)).toMatchObject({ path: folder, format: 'safetensors' });
  });
});

describe('what cannot be read', () => {
  it.each(['EACCES', 'EPERM'] as const)('%s of a folder leaves it to safetensors', async (code) => {
    const path = folderOf({ 'only.pt': TORCH });
    intercept('readdirSync', () => {
      throw systemError(code);
    });
    expect(await detectFormat(path)).toEqual({ path, format: 'safetensors', foundFormat: null });
  });

  it('any other error of a folder is thrown', async () => {
    const path = folderOf({ 'only.pt': TORCH });
    intercept('readdirSync', () => {
      throw systemError('EIO');
    });
    await expect(detectFormat(path)).rejects.toMatchObject({ code: 'EIO', path });
  });

  it('an error of a file is thrown', async () => {
    const path = called('a.pt', TORCH);
    intercept('openSync', () => {
      throw systemError('EACCES');
    });
    await expect(detectFormat(path)).rejects.toMatchObject({ code: 'EACCES' });
  });

  it('what is no file any more is left to safetensors', async () => {
    const path = called('a.pt', TORCH);
    intercept('openSync', (own, args) => {
      rmSync(path);
      mkdirSync(path);
      return own(...args);
    });
    expect(await detectFormat(path)).toEqual({ path, format: 'safetensors', foundFormat: null });
  });
});

it('a header as long as an archive begins is one of safetensors', async () => {
  const start = Buffer.from('PK\x03\x04\0\0\0\0{"a":{"dtype":"U8"');
  expect((await detectFormat(written('a.safetensors', start))).format).toBe('safetensors');
  start[9] = 0;
  expect((await detectFormat(written('b.safetensors', start))).format).toBe('torch');
});

it('an id in the cache is one, whatever it ends with', async () => {
  const cache = temporaryPath('hub');
  vi.stubEnv('HF_HUB_CACHE', cache);
  expect((await detectFormat('org/waifu.ckpt')).format).toBe('torch');
  mkdirSync(join(cache, 'models--org--waifu.ckpt'), { recursive: true });
  expect((await detectFormat('org/waifu.ckpt')).format).toBe('safetensors');
  expect((await detectFormat('hf://org/other/a.bin')).format).toBe('safetensors');
  vi.unstubAllEnvs();
});

it('what is not there is left to the function whose error says so', async () => {
  expect(await detectFormat('org/name')).toMatchObject({ format: 'safetensors' });
  expect(await detectFormat(temporaryPath('missing.pt'))).toMatchObject({ format: 'torch' });
  await expect(detectFormat(1 as never)).rejects.toThrow(TypeError);
});

it.each(['pytorch_model.bin', 'pytorch_model.bin.index.json', 'old.pt', 'arrays.npz'])(
  'a folder called %s is no model',
  async (name) => {
    const folder = folderOf({ 'model.ckpt': TORCH });
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'notes.txt'), '');
    const model = await open(folder, { remote: false });
    expect([model.path, model.format]).toEqual([join(folder, 'model.ckpt'), 'torch']);
    model.close();
    rmSync(join(folder, 'model.ckpt'));
    expect(() => safeOpen(folder)).toThrow(/found no safetensors file or index$/);
  },
);
