/** Refusals, and failures on the way: the old checkpoint stays, and nothing else. */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type SaveCheckpointOptions, saveCheckpoint } from '../../support/api.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';
import {
  contentOf,
  equalTensors,
  filesOf,
  filled,
  folderWith,
  type Tensors,
} from '../../support/saved-tensors.js';

describe('refused before anything is written', () => {
  const INVALID = 'SAFETENSORS_INVALID_TENSOR_VIEW';
  const good = equalTensors(4, 'a', 'b');
  const cases: [string, Tensors, SaveCheckpointOptions, string][] = [
    ['a pattern without {suffix}', good, { filenamePattern: 'm' }, 'ERR_OUT_OF_RANGE'],
    ['another extension', good, { filenamePattern: 'm{suffix}.bin' }, 'ERR_OUT_OF_RANGE'],
    [
      'a folder in the pattern',
      good,
      { filenamePattern: 'm/{suffix}.safetensors' },
      'ERR_OUT_OF_RANGE',
    ],
    ['a size below 0', good, { maxShardSize: -1 }, 'ERR_OUT_OF_RANGE'],
    ['a size of 0KB', good, { maxShardSize: '0KB' }, 'ERR_OUT_OF_RANGE'],
    ['an unknown mode', good, { shared: 'some' as 'copy' }, 'ERR_OUT_OF_RANGE'],
    ['an empty variant', good, { variant: '' }, 'ERR_OUT_OF_RANGE'],
    [
      'metadata that is no text',
      good,
      { metadata: { a: 1 as unknown as string } },
      'ERR_INVALID_ARG_TYPE',
    ],
    ['half characters of an index', good, { maxShardSize: 4, metadata: { a: '\ud800' } }, INVALID],
    ['durable of another type', good, { durable: 1 as unknown as boolean }, 'ERR_INVALID_ARG_TYPE'],
    ['a name that comes twice', [...good, ...equalTensors(4, 'a')], {}, INVALID],
    ['the name of the metadata', equalTensors(4, '__metadata__'), {}, INVALID],
    [
      'too few bytes',
      [['a', { dtype: 'F32', shape: [2], data: new Float32Array(1) }]],
      {},
      INVALID,
    ],
    [
      'too long a name',
      good,
      { filenamePattern: `${'m'.repeat(250)}{suffix}.safetensors` },
      'ENAMETOOLONG',
    ],
  ];

  it.each(cases)('%s', async (_, tensors, options, code) => {
    const folder = folderWith('model.safetensors');
    const save = saveCheckpoint(folder, tensors, options);
    await expect(save).rejects.toThrow(expect.objectContaining({ code }));
    expect(filesOf(folder)).toEqual(new Map([['model.safetensors', 'model.safetensors']]));
  });

  it('a path that is a file, or looks like one', async () => {
    const path = writeTemporary([]);
    const range = expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' });
    await expect(saveCheckpoint(path, good)).rejects.toThrow(range);
    await expect(saveCheckpoint(temporaryPath('m.safetensors'), good)).rejects.toThrow(range);
    await expect(saveCheckpoint('hf://org/name', good)).rejects.toThrow(range);
    const folder = folderWith('a');
    const inFile = saveCheckpoint(join(folder, 'a'), good);
    await expect(inFile).rejects.toThrow(expect.objectContaining({ code: 'EEXIST' }));
  });

  it('a folder in the place of a file', async () => {
    const folder = folderWith();
    mkdirSync(join(folder, 'model-00001-of-00002.safetensors'));
    const save = saveCheckpoint(folder, good, { maxShardSize: 4 });
    await expect(save).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE' }),
    );
    expect(readdirSync(folder)).toEqual(['model-00001-of-00002.safetensors']);
  });

  it('what is no file in the place of any of the files', async () => {
    const names = [1, 2].map((number) => `model-0000${number}-of-00002.safetensors`);
    for (const [other, mine] of [names, names.toReversed()] as [string, string][]) {
      const folder = temporaryPath(other);
      mkdirSync(join(folder, other), { recursive: true });
      writeFileSync(join(folder, mine), 'mine');
      const save = saveCheckpoint(folder, good, { maxShardSize: 4 });
      await expect(save).rejects.toThrow(
        expect.objectContaining({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE' }),
      );
      expect(readFileSync(join(folder, mine), 'utf8')).toBe('mine');
    }
  });

  it('a snapshot of the Hub cache', async () => {
    const folder = temporaryPath('models--org--name');
    mkdirSync(join(folder, 'blobs'), { recursive: true });
    mkdirSync(join(folder, 'snapshots/abc'), { recursive: true });
    writeFileSync(join(folder, 'blobs/hash'), 'blob');
    const link = join(folder, 'snapshots/abc/model.safetensors');
    symlinkSync('../../blobs/hash', link);
    const save = saveCheckpoint(join(folder, 'snapshots/abc'), good);
    await expect(save).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_HUB_CACHE_BLOB' }),
    );
    expect(readFileSync(link, 'utf8')).toBe('blob');
  });
});

describe('failing on the way', () => {
  async function oldCheckpoint(): Promise<{ folder: string; files: Map<string, string> }> {
    const folder = temporaryPath('old');
    await saveCheckpoint(folder, equalTensors(8, 'a', 'b'), { maxShardSize: 8, durable: false });
    return { folder, files: filesOf(folder) };
  }

  it('leaves the old checkpoint when a stream fails, and ends the others', async () => {
    const { folder, files } = await oldCheckpoint();
    const data = (): never => {
      throw new Error('no more');
    };
    const given: Tensors = [...equalTensors(8, 'a'), ['b', { dtype: 'U8', shape: [8], data }]];
    const save = saveCheckpoint(folder, given, { maxShardSize: 8 });
    await expect(save).rejects.toThrow('no more');
    expect(filesOf(folder)).toEqual(files);
  });

  it('leaves the old checkpoint, or no folder, when aborted', async () => {
    const { folder, files } = await oldCheckpoint();
    const large = equalTensors(2 ** 22, 'a', 'b', 'c', 'd', 'e', 'f');
    for (const target of [folder, join(folder, 'new/folder')]) {
      const controller = new AbortController();
      const save = saveCheckpoint(target, large, {
        maxShardSize: 2 ** 22,
        signal: controller.signal,
        durable: false,
      });
      setTimeout(() => controller.abort(new Error('enough')), 1);
      await expect(save).rejects.toThrow('enough');
      expect(filesOf(folder)).toEqual(files);
    }
  });

  it('leaves the old checkpoint when onProgress throws', async () => {
    const { folder, files } = await oldCheckpoint();
    const onProgress = (): never => {
      throw new Error('stop');
    };
    const save = saveCheckpoint(folder, equalTensors(8, 'a', 'b'), { maxShardSize: 8, onProgress });
    await expect(save).rejects.toThrow('stop');
    expect(filesOf(folder)).toEqual(files);
  });

  it('reports the bytes of all files once they are written', async () => {
    const { folder } = await oldCheckpoint();
    const reports: number[] = [];
    await saveCheckpoint(folder, equalTensors(8, 'a', 'b'), {
      maxShardSize: 8,
      onProgress: ({ bytes, totalBytes }) => reports.push(bytes / totalBytes),
    });
    expect(reports.at(-1)).toBe(1);
    expect(reports.filter((share) => share === 1).length).toBe(1);
  });
});

it('two saves at once into one folder leave one of the two, whole', async () => {
  for (let i = 0; i < 10; i++) {
    const folder = temporaryPath(`twice-${i}`);
    const one = ['a', 'b', 'c'].map((name) => [name, filled(2, 1)] as const);
    const two = ['a', 'b', 'c'].map((name) => [name, filled(2, 2)] as const);
    const options = { maxShardSize: 8, durable: false };
    await Promise.all([saveCheckpoint(folder, one, options), saveCheckpoint(folder, two, options)]);
    const content = Object.values(await contentOf(folder)).map(([, , bytes]) => bytes);
    expect(new Set(content).size).toBe(1);
    expect(readdirSync(folder).length).toBe(4);
  }
});
