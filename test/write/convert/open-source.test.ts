/** The files that `convert` opens in a folder, which parts it reads, within which limits; and that it closes them. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { writeArchive } from '../../foreign/generated-archive.js';
import { headerOf, npy } from '../../foreign/numpy/arrays.js';
import { unicode } from '../../foreign/pickle/pickle-bytes.js';
import { fixturePath } from '../../foreign/torch/fixtures.js';
import { dict, legacyFile, tensor } from '../../foreign/torch/legacy-file.js';
import {
  type ConversionOptions,
  convert,
  safeOpen,
  saveCheckpoint,
  saveFile,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { Random } from '../../support/random.js';
import { equalTensors, filled } from '../../support/saved-tensors.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };

/** A checkpoint with tensors of these numbers of elements, which count from 0; below a key when it is given. */
function torchFile(lengths: Readonly<Record<string, number>>, root?: string): string {
  const names = Object.keys(lengths);
  const tensors = names.map((name, i) => {
    return [unicode(name), tensor(`${i}`, [lengths[name] as number])] as const;
  });
  const stateDict = dict(...tensors);
  const storages = Object.fromEntries(Object.values(lengths).map((length, i) => [i, length]));
  return legacyFile(root === undefined ? stateDict : dict([unicode(root), stateDict]), storages);
}

/** A folder with files of that content, by name. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = temporaryPath('source');
  mkdirSync(folder);
  for (const [name, from] of Object.entries(files)) cpSync(from, join(folder, name));
  return folder;
}

/** A copy in the temporary folder; gives its path. */
function copied(path: string): string {
  const copy = temporaryPath(basename(path));
  cpSync(path, copy);
  return copy;
}

/** Adds an index to a folder; gives its path. */
function withIndex(
  folder: string,
  weightMap: Readonly<Record<string, string>>,
  name = 'pytorch_model.bin.index.json',
): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify({ metadata: {}, weight_map: weightMap }));
  return path;
}

/** Lengths of the tensors that come out, by name; and the root. */
async function converted(
  source: string,
  options: ConversionOptions = {},
): Promise<{ lengths: Record<string, number>; root: readonly unknown[] }> {
  const target = temporaryPath('model.safetensors');
  const { root } = await convert(source, target, { ...fast, ...options });
  using file = safeOpen(target);
  const lengths = file.keys().map((name) => [name, file.info(name).shape[0] ?? 0]);
  return { lengths: Object.fromEntries(lengths), root };
}

describe('of several files of torch', () => {
  it('every name is taken once, from the shard that the index names if it is there', async () => {
    const folder = folderOf({
      '1.bin': torchFile({ a: 1, b: 2 }),
      '2.bin': torchFile({ a: 3, c: 4 }),
    });
    const index = withIndex(folder, { a: '2.bin', b: '1.bin' });
    expect((await converted(index)).lengths).toEqual({ a: 3, b: 2, c: 4 });
    const { duplicates } = await convert(index, temporaryPath('target'), saving);
    expect(duplicates).toEqual(['a']);
  });

  it('a tensor that cannot be read is an error, also one that the index does not name', async () => {
    const layout = `ctorch.serialization\n_get_layout\n${unicode('torch.sparse_coo')}\x85R`;
    const parts = `${tensor('0', [2])}${tensor('0', [2])}`;
    const sparse = `ctorch._utils\n_rebuild_sparse_tensor\n${layout}(${parts}K\x05\x85t\x86R`;
    const entries = [
      [unicode('b'), tensor('0', [2])],
      [unicode('z'), sparse],
    ] as const;
    const folder = folderOf({
      '1.bin': torchFile({ a: 1 }),
      '2.bin': legacyFile(dict(...entries), { 0: 2 }),
    });
    const index = withIndex(folder, { a: '1.bin', b: '2.bin' });
    await expect(converted(index)).rejects.toThrow('"z"');
    expect((await converted(index, { names: ['a', 'b'] })).lengths).toEqual({ a: 1, b: 2 });
    using checkpoint = openTorchCheckpoint(index);
    expect([checkpoint.size, checkpoint.keys()]).toEqual([2, ['a', 'b']]);
    expect(checkpoint.problems.map((problem) => problem.tensor)).toEqual(['z']);
  });

  it('the root that was given is that of each, and the report names that of the first', async () => {
    const folder = folderOf({
      '1.bin': torchFile({ a: 1 }, 'model'),
      '2.bin': torchFile({ b: 2 }, 'ema'),
    });
    const index = withIndex(folder, { a: '1.bin', b: '2.bin' });
    expect(await converted(index)).toEqual({ lengths: { a: 1, b: 2 }, root: ['model'] });
    await expect(converted(index, { root: 'model' })).rejects.toThrow(
      /2\.bin: .*the root \["model"\]/,
    );
  });
});

it('the root is that of a PyTorch checkpoint, and other formats have none', async () => {
  const { root } = await converted(torchFile({ a: 1 }, 'model'));
  expect(root).toEqual(['model']);
  const options = { rename: (name: string) => name || 'array' };
  expect((await converted(fixturePath('np-f4.npy'), options)).root).toEqual([]);
  expect((await converted(fixturePath('safetensors-as-bin.bin'))).root).toEqual([]);
});

describe('in a folder', () => {
  const one = { a: 1 };
  const two = { b: 2 };

  it.each(['pytorch_model', 'diffusion_pytorch_model'])('%s.bin is found', async (name) => {
    const folder = folderOf({ [`${name}.bin`]: torchFile(one), 'other.bin': torchFile(two) });
    expect((await converted(folder)).lengths).toEqual(one);
  });

  it.each(['pytorch_model', 'diffusion_pytorch_model'])(
    'the index of %s comes before a file',
    async (name) => {
      const folder = folderOf({ [`${name}.bin`]: torchFile(one), 'other.bin': torchFile(two) });
      withIndex(folder, { b: 'other.bin' }, `${name}.bin.index.json`);
      expect((await converted(folder)).lengths).toEqual(two);
    },
  );

  it('safetensors come before torch', async () => {
    const folder = folderOf({ 'pytorch_model.bin': torchFile(one) });
    await saveFile(join(folder, 'model.safetensors'), { c: filled(3, 0) }, saving);
    expect((await converted(folder)).lengths).toEqual({ c: 3 });
  });

  it('of several files without a usual name none is taken', async () => {
    const folder = folderOf({ 'a.bin': torchFile(one), 'b.bin': torchFile(two) });
    await expect(converted(folder)).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
      message: expect.stringMatching(/reads by their paths: "a\.bin", "b\.bin"$/),
    });
  });
});

it('arrays of an .npz need not be called .npy', async () => {
  const path = temporaryPath('arrays.npz');
  const data = npy(headerOf('<f4', '(3,)'), Buffer.alloc(12));
  writeFileSync(path, writeArchive([{ name: 'a', data, isDeflated: false }], new Random(1, 0)));
  expect((await converted(path)).lengths).toEqual({ a: 3 });
});

describe('limits', () => {
  const code = 'SAFETENSORS_FOREIGN_LIMIT';
  const state = fixturePath('zip-state-dict.pt');
  const arrays = fixturePath('np-savez.npz');
  const deflated = fixturePath('np-savez-compressed.npz');

  it.each<[format: string, source: string, ConversionOptions]>([
    ['torch', state, { limits: { maxEntries: 1 } }],
    ['torch', state, { limits: { maxDirectoryByteLength: 1 } }],
    ['torch', fixturePath('zip-deflated.pt'), { limits: { maxInflatedByteLength: 1 } }],
    ['torch', state, { limits: { maxTensorByteLength: 1 } }],
    ['torch', state, { limits: { maxPickleByteLength: 1 } }],
    ['torch', state, { limits: { maxOpcodes: 1 } }],
    ['torch', state, { limits: { maxDepth: 1 } }],
    ['torch', state, { limits: { maxPickleMemoryByteLength: 1 } }],
    ['NumPy', arrays, { limits: { maxEntries: 1 } }],
    ['NumPy', arrays, { limits: { maxDirectoryByteLength: 1 } }],
    ['NumPy', deflated, { limits: { maxInflatedByteLength: 1 } }],
    ['NumPy', arrays, { limits: { maxTensorByteLength: 1 } }],
  ])('of %s, $2', async (_, source, options) => {
    const [name = ''] = Object.keys(options.limits ?? {});
    await expect(converted(source, options)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(`limits.${name}`),
    });
  });

  it('are checked whatever the source, and have their names in errors', async () => {
    const source = temporaryPath('none.safetensors');
    const wrong = async (options: object): Promise<unknown> =>
      await converted(source, options as ConversionOptions).catch((error: unknown) => error);
    expect(await wrong({ limits: { maxDepth: 0 } })).toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
      message: expect.stringMatching(/^limits\.maxDepth must be an integer from 1/),
    });
    expect(await wrong({ limits: 5 })).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    expect(await wrong({ limits: { maxDepht: 1 } })).toMatchObject({
      message: 'unknown option "limits.maxDepht"; did you mean limits.maxDepth?',
    });
    expect(await wrong({ limits: [] })).toMatchObject({
      message: expect.stringMatching(/^limits must be an object with /),
    });
    expect(await wrong({ maxDepth: 1 })).toMatchObject({
      code: 'ERR_INVALID_ARG_VALUE',
      message: 'unknown option "maxDepth"; it is limits.maxDepth',
    });
  });

  it('maxIndexByteLength is that of torch and of safetensors', async () => {
    const torch = withIndex(folderOf({ '1.bin': torchFile({ a: 1 }) }), { a: '1.bin' });
    const folder = temporaryPath('sharded');
    const { path } = await saveCheckpoint(folder, equalTensors(16, 'a', 'b'), {
      ...saving,
      maxShardSize: 16,
    });
    for (const source of [torch, path, folder]) {
      await expect(converted(source, { limits: { maxIndexByteLength: 1 } })).rejects.toMatchObject({
        code: 'SAFETENSORS_INDEX_TOO_LARGE',
      });
    }
  });

  it('unknownGlobals reaches torch, and voidDtype NumPy', async () => {
    const source = fixturePath('zip-namespace.pt');
    await expect(converted(source)).rejects.toThrow('argparse.Namespace');
    await converted(source, { unknownGlobals: 'placeholder' });

    const opaque = fixturePath('np-bf16-void.npy');
    const rename = (): string => 'array';
    await expect(converted(opaque, { rename })).rejects.toThrow('voidDtype');
    const target = temporaryPath('array.safetensors');
    await convert(opaque, target, { ...fast, rename, voidDtype: 'BF16' });
    using file = safeOpen(target);
    expect(file.info('array').dtype).toBe('BF16');
  });
});

describe('the source is closed', () => {
  const shards = (): Record<string, string> => ({
    '1.bin': torchFile({ a: 1 }),
    '2.bin': torchFile({ b: 2 }),
  });
  const sources: Record<string, () => string> = {
    torch: () => copied(torchFile({ a: 1 })),
    'torch in two files': () => withIndex(folderOf(shards()), { a: '1.bin', b: '2.bin' }),
    NumPy: () => copied(fixturePath('np-savez.npz')),
    safetensors: () => copied(fixturePath('safetensors-as-bin.bin')),
  };

  it.each(Object.keys(sources))('at the end and after an error: %s', async (name) => {
    const source = sources[name]?.() as string;
    await converted(source);
    expect(openDescriptors()).toEqual([]);
    await expect(converted(source, { names: ['none'] })).rejects.toThrow('none');
    expect(openDescriptors()).toEqual([]);
    const below = join(source, 'model.safetensors');
    await expect(convert(source, below, fast)).rejects.toMatchObject({ code: 'EEXIST' });
    expect(openDescriptors()).toEqual([]);
  });

  it('when what it holds is damaged', async () => {
    const damaged = copied(legacyFile(dict([unicode('out'), tensor('0', [2], [9])]), { 0: 2 }));
    const lacking = withIndex(folderOf(shards()), { a: '1.bin', c: '2.bin' });
    const folder = temporaryPath('sharded');
    const { path, files } = await saveCheckpoint(folder, equalTensors(16, 'a', 'b'), {
      ...saving,
      maxShardSize: 16,
    });
    const index = readFileSync(path, 'utf8').replace('"b":', '"c":');
    writeFileSync(path, index);
    expect(files).toHaveLength(2);
    for (const source of [damaged, lacking, path]) {
      await expect(converted(source)).rejects.toMatchObject({
        code: expect.stringMatching(/^SAFETENSORS_IN/),
      });
      expect(openDescriptors()).toEqual([]);
    }
  });
});
