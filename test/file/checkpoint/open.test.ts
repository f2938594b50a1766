import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadFile } from '../../support/api.js';
import { openBoth } from '../../support/both-ways.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

const INDEX = 'model.safetensors.index.json';
const one = fileBytes([{ name: 'single', dtype: 'U8', shape: [1] }]);

/** Opens a checkpoint, and returns the opened path and its tensors. */
async function opened(path: string | URL, options = {}): Promise<unknown[]> {
  using checkpoint = await openBoth(path, options);
  return [checkpoint.shards, checkpoint.keys(), checkpoint.ignoredFiles];
}

async function codeOf(path: string, options = {}): Promise<unknown> {
  try {
    await opened(path, options);
  } catch (error) {
    return (error as { code?: string }).code;
  }
  return 'opened';
}

function folderWith(names: readonly string[]): string {
  const folder = temporaryPath('folder');
  mkdirSync(folder, { recursive: true });
  for (const name of names) writeFileSync(join(folder, name), one);
  return folder;
}

describe('the index cases of the reference, on disk', () => {
  const cases = JSON.parse(
    readFileSync(new URL('../../fixtures/sharding-cases.json', import.meta.url), 'utf8'),
  ).index as { id: string; input: { index_text: string; files: string[] }; expected?: object }[];

  it.each(cases)('$id', ({ input, expected }) => {
    const folder = temporaryPath('case');
    for (const file of input.files) {
      writeBelow(folder, file, fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }]));
    }
    writeBelow(folder, INDEX, input.index_text);
    const load = (): string[] => [...loadFile(folder).keys()];
    // The model of the cases has one tensor, `a`: nothing missing, nothing unexpected.
    if (expected !== undefined) expect(load()).toEqual(['a']);
    else expect(load).toThrow(expect.objectContaining({ name: expect.stringMatching(/Error$/) }));
  });
});

describe('a path', () => {
  const shards = Object.keys(TWO_SHARDS.shards);
  const keys = ['a.weight', 'b.bias', 'b.weight', 'embed'];

  it('may be a folder, an index, a file, or a URL', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    expect(await opened(folder)).toEqual([shards, keys, []]);
    expect(await opened(join(folder, INDEX))).toEqual([shards, keys, []]);
    expect(await opened(pathToFileURL(folder))).toEqual([shards, keys, []]);
    const file = join(folder, shards[1] as string);
    expect(await opened(file)).toEqual([[shards[1]], ['b.bias', 'b.weight'], []]);
  });

  it('may have shards in folders, and other names', async () => {
    const folder = writeCheckpoint({
      shards: { 'sub/x.safetensors': [{ name: 'a', dtype: 'U8', shape: [1] }] },
      weightMap: { a: './sub/x.safetensors' },
      indexName: 'diffusion_pytorch_model.safetensors.index.json',
    });
    expect(await opened(folder)).toEqual([['sub/x.safetensors'], ['a'], []]);
  });

  it('that does not exist and is no id is an error of Node', async () => {
    expect(await codeOf('./no/such/folder')).toBe('ENOENT');
    expect(await codeOf('')).toBe('ENOENT');
    expect(await codeOf('missing.safetensors')).toBe('ENOENT');
  });

  it('and options are checked', async () => {
    expect(await codeOf({} as never)).toBe('ERR_INVALID_ARG_TYPE');
    expect(await codeOf('x', { revision: 7 })).toBe('ERR_INVALID_ARG_TYPE');
    expect(await codeOf(folderWith([]), { revision: 'main' })).toBe('ERR_OUT_OF_RANGE');
    expect(await codeOf(folderWith([]), { variant: '../x' })).toBe('ERR_OUT_OF_RANGE');
    expect(await codeOf(folderWith([]), { variant: '' })).toBe('ERR_OUT_OF_RANGE');
  });
});

describe('in a folder', () => {
  it('an index whose shards are there goes before a single file, which is reported', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    writeFileSync(join(folder, 'model.safetensors'), one);
    expect((await opened(folder))[2]).toEqual(['model.safetensors']);
    writeBelow(folder, INDEX, '{"weight_map":{"single":"model.safetensors"}}');
    expect(await opened(folder)).toEqual([['model.safetensors'], ['single'], []]);
  });

  it('a single file goes before an index with missing shards, which is reported', async () => {
    const folder = folderWith(['model.safetensors', 'other.safetensors']);
    writeBelow(folder, INDEX, '{"weight_map":{"a":"gone.safetensors"}}');
    expect(await opened(folder)).toEqual([['model.safetensors'], ['single'], [INDEX]]);
  });

  it('one missing shard of one is named', async () => {
    const folder = folderWith([]);
    writeBelow(folder, INDEX, '{"weight_map":{"a":"gone.safetensors"}}');
    await expect(openBoth(folder)).rejects.toThrow(
      /expected 1 shard, found it missing: "gone\.safetensors"$/,
    );
  });

  it('all missing shards are listed at once, and half a model is not opened', async () => {
    const folder = folderWith(['c.safetensors']);
    const shards = ['a.safetensors', 'b/b.safetensors', 'c.safetensors'];
    const map = Object.fromEntries(shards.map((name, i) => [`t${i}`, name]));
    writeBelow(folder, INDEX, JSON.stringify({ weight_map: map }));
    for (const path of [folder, join(folder, INDEX)]) {
      await expect(openBoth(path)).rejects.toThrow(
        /expected 3 shards, found 2 of them missing: "a\.safetensors", "b\/b\.safetensors"$/,
      );
      expect(await codeOf(path)).toBe('SAFETENSORS_MISSING_SHARDS');
    }
  });

  it('the only safetensors file is taken, whatever its name', async () => {
    expect((await opened(folderWith(['adapter_model.safetensors'])))[0]).toEqual([
      'adapter_model.safetensors',
    ]);
  });

  it.each(['model.safetensors', INDEX])('a folder of the name %s is no file', async (name) => {
    const folder = folderWith(['other.safetensors']);
    mkdirSync(join(folder, name));
    expect((await opened(folder))[0]).toEqual(['other.safetensors']);
    rmSync(join(folder, 'other.safetensors'));
    expect(await codeOf(folder)).toBe('SAFETENSORS_CHECKPOINT_NOT_FOUND');
  });

  it('one of several numbered shards alone is no checkpoint', async () => {
    const folder = temporaryPath('alone');
    writeBelow(folder, 'model-00001-of-00002.safetensors', fileBytes([]));
    await expect(openBoth(folder)).rejects.toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
        message: expect.stringContaining('a shard without its index'),
      }),
    );
    const whole = temporaryPath('whole');
    writeBelow(whole, 'model-00001-of-00001.safetensors', fileBytes([]));
    (await openBoth(whole)).close();
  });

  it('what a save leaves beside the single file for a moment does not hide it', async () => {
    const interim = '.safetensors-mmap-01234567-0123456789abcdef.safetensors';
    const shards = ['w-00001-of-00002.safetensors', 'w-00002-of-00002.safetensors'];
    expect((await opened(folderWith(['w.safetensors', interim, ...shards])))[0]).toEqual([
      'w.safetensors',
    ]);
    const others = ['w.safetensors', 'v-00001-of-00002.safetensors'];
    expect(await codeOf(folderWith(others))).toBe('SAFETENSORS_CHECKPOINT_NOT_FOUND');
  });

  it('model.safetensors goes before others', async () => {
    expect((await opened(folderWith(['model.safetensors', 'model.fp16.safetensors'])))[0]).toEqual([
      'model.safetensors',
    ]);
  });

  it('files of torch and NumPy are named, with what opens them', async () => {
    await expect(openBoth(folderWith(['config.json']))).rejects.toThrow(/ or index$/);
    const names = ['pytorch_model.bin', 'w.ckpt', 'w.npy', 'w.npz', 'w.pt', 'w.pth'];
    const listed = names.map((name) => `"${name}"`).join(', ');
    await expect(openBoth(folderWith(names))).rejects.toThrow(
      `found no safetensors file or index, but files that open() reads by their paths: ${listed}`,
    );
    const shard = 'pytorch_model-00001-of-00001.bin';
    const folder = folderWith([shard, 'pytorch_model.bin.index.json']);
    await expect(openBoth(folder)).rejects.toThrow(
      /reads by their paths: "pytorch_model\.bin\.index\.json"$/,
    );
  });

  it('nothing, or several to choose from, is an error that lists them', async () => {
    expect(await codeOf(folderWith([]))).toBe('SAFETENSORS_CHECKPOINT_NOT_FOUND');
    const folder = folderWith(['x.safetensors', 'y.safetensors', 'pytorch_model.bin']);
    await expect(openBoth(folder)).rejects.toThrow(/"x\.safetensors", "y\.safetensors"; open one/);
  });

  it.each([
    'model.safetensors.index.fp16.json',
    'model.fp16.safetensors.index.json',
    'other.safetensors.index.fp16.json',
  ])('a variant is found by %s, and never without', async (indexName) => {
    const folder = writeCheckpoint({ ...TWO_SHARDS, indexName });
    writeFileSync(join(folder, 'model.safetensors'), one);
    expect(await opened(folder, { variant: 'fp16' })).toEqual([
      Object.keys(TWO_SHARDS.shards),
      ['a.weight', 'b.bias', 'b.weight', 'embed'],
      [],
    ]);
    expect((await opened(folder))[0]).toEqual(['model.safetensors']);
    expect(await codeOf(folder, { variant: 'bf16' })).toBe('SAFETENSORS_CHECKPOINT_NOT_FOUND');
  });

  it('a variant may be a single file', async () => {
    const folder = folderWith(['model.safetensors', 'model.fp16.safetensors', 'x.safetensors']);
    expect((await opened(folder, { variant: 'fp16' }))[0]).toEqual(['model.fp16.safetensors']);
    await expect(openBoth(folder, { variant: 'bf16' })).rejects.toThrow(
      /index of the variant bf16$/,
    );
  });
});

describe('symbolic links', () => {
  it('may stay in the folder, and not leave it', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    writeFileSync(temporaryPath('outside.safetensors'), one);
    symlinkSync('model-00001-of-00002.safetensors', join(folder, 'inside.safetensors'));
    symlinkSync('../outside.safetensors', join(folder, 'link.safetensors'));
    writeBelow(folder, INDEX, '{"weight_map":{"embed":"inside.safetensors"}}');
    expect((await opened(folder))[0]).toEqual(['inside.safetensors']);
    writeBelow(folder, INDEX, '{"weight_map":{"single":"link.safetensors"}}');
    expect(await codeOf(folder)).toBe('SAFETENSORS_UNSAFE_SHARD_NAME');
    expect(await codeOf(join(folder, INDEX))).toBe('SAFETENSORS_UNSAFE_SHARD_NAME');
  });

  it('out of the folder are refused for a single file and an index too', async () => {
    const outside = writeCheckpoint(TWO_SHARDS, temporaryPath('outside'));
    for (const [target, name] of [
      ['model-00001-of-00002.safetensors', 'model.safetensors'],
      [INDEX, INDEX],
    ] as const) {
      const folder = temporaryPath(`folder-${name}`);
      mkdirSync(folder);
      symlinkSync(join(outside, target), join(folder, name));
      expect(await codeOf(folder)).toBe('SAFETENSORS_UNSAFE_SHARD_NAME');
    }
  });
});

describe('loadFile', () => {
  it('gives everything by name, and it outlives the handle', () => {
    const tensors = loadFile(writeCheckpoint(TWO_SHARDS));
    expect([...tensors.keys()]).toEqual(['embed', 'a.weight', 'b.weight', 'b.bias']);
    expect(tensors.get('b.bias')?.data).toEqual(new Uint8Array([1, 2, 3, 4]));
  });

  it('of a name in two shards takes the one that the index means', () => {
    const entry = (bytes: number[]) => ({
      name: 't',
      dtype: 'U8' as const,
      shape: [1],
      bytes: Uint8Array.from(bytes),
    });
    for (const [shard, value] of [
      ['x.safetensors', 1],
      ['y.safetensors', 2],
    ] as const) {
      const folder = writeCheckpoint(
        {
          shards: { 'x.safetensors': [entry([1])], 'y.safetensors': [entry([2])] },
          weightMap: { p: 'x.safetensors', q: 'y.safetensors', t: shard },
        },
        temporaryPath(shard),
      );
      expect(loadFile(folder).get('t')?.data[0]).toBe(value);
    }
  });
});
