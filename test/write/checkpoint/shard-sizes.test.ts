import { readdirSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { convert, safeOpen, saveCheckpoint } from '../../support/api.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { type Entry, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { contentOf, equalTensors, filesOf } from '../../support/saved-tensors.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };
const MODEL = { ...TWO_SHARDS, metadata: { ...TWO_SHARDS.metadata, total_size: 34 } };

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('convert', () => {
  it('keeps tensors through any sequence of layouts, in one folder and into others', async () => {
    const sizes = fc.array(fc.oneof(fc.nat(40), fc.constant(Number.POSITIVE_INFINITY)), {
      minLength: 1,
      maxLength: 5,
    });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(sizes, fc.boolean(), async (limits, isSame) => {
        let folder = writeCheckpoint(MODEL, temporaryPath(`model-${run++}`));
        const content = await contentOf(folder);
        for (const maxShardSize of limits) {
          const target = isSame ? folder : temporaryPath(`model-${run++}`);
          const { files, index, totalSize } = await convert(folder, target, {
            ...fast,
            maxShardSize,
          });
          expect(totalSize).toBe(34);
          expect(readdirSync(target).sort()).toEqual(
            [...files, ...(index === null ? [] : [index])].sort(),
          );
          folder = target;
          expect(await contentOf(folder)).toEqual(content);
        }
        using checkpoint = safeOpen(folder);
        expect(checkpoint.getTensor('lm_head.weight').name).toBe('embed');
        expect(checkpoint.metadata?.get('lost')).toBe('nowhere');
      }),
      { numRuns: 25 },
    );
  });

  it('writes the files that saveCheckpoint writes of the same tensors', async () => {
    const [source, target, expected] = ['source', 'target', 'expected'].map(temporaryPath) as [
      string,
      string,
      string,
    ];
    const tensors = equalTensors(16, 'd', 'a', 'c', 'b');
    await saveCheckpoint(source, tensors, { ...saving, maxShardSize: 16 });
    await convert(source, target, { ...fast, maxShardSize: 32 });
    await saveCheckpoint(expected, tensors, { ...saving, maxShardSize: 32 });
    expect(filesOf(target)).toEqual(filesOf(expected));
  });

  it('takes a file, an index or a cached repository, and writes other names', async () => {
    const folder = writeCheckpoint(MODEL);
    const content = await contentOf(folder);
    const file = temporaryPath('file');
    const one = { ...fast, maxShardSize: Number.POSITIVE_INFINITY };
    await convert(join(folder, 'model.safetensors.index.json'), file, {
      ...one,
      filenamePattern: 'merged{suffix}.safetensors',
    });
    expect(readdirSync(file)).toEqual(['merged.safetensors']);
    const shards = temporaryPath('shards');
    const options = { ...fast, maxShardSize: 12, variant: 'fp16' };
    const { path, index } = await convert(join(file, 'merged.safetensors'), shards, options);
    expect(index).toBe('model.safetensors.index.fp16.json');
    expect(await contentOf(path)).toEqual(content);

    const cache = temporaryPath('cache');
    const commit = 'a'.repeat(40);
    writeBelow(cache, 'models--org--name/refs/main', commit);
    const snapshot = join(cache, 'models--org--name/snapshots', commit);
    await convert(file, snapshot, one);
    vi.stubEnv('HF_HUB_CACHE', cache);
    const target = temporaryPath('from-repository');
    await convert('org/name', target, { ...fast, maxShardSize: 12 });
    expect(await contentOf(target)).toEqual(content);
  });

  it('loses no tensor that the index leaves out, and takes the one that it means', async () => {
    const tensor = (name: string, value: number): Entry => ({
      name,
      dtype: 'U8',
      shape: [1],
      bytes: new Uint8Array([value]),
    });
    const shards = {
      'one.safetensors': [tensor('a', 1), tensor('c', 4), tensor('stray', 2)],
      'two.safetensors': [tensor('a', 3)],
    };
    const weightMap = { a: 'two.safetensors', c: 'one.safetensors' };
    const target = temporaryPath('target');
    await convert(writeCheckpoint({ shards, weightMap }), target, fast);
    expect(await contentOf(target)).toEqual({
      a: ['U8', [1], '03'],
      c: ['U8', [1], '04'],
      stray: ['U8', [1], '02'],
    });
    const more = { ...weightMap, b: 'one.safetensors' };
    const lying = writeCheckpoint({ shards, weightMap: more }, temporaryPath('lying'));
    await expect(convert(lying, target, fast)).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_INDEX_MISMATCH', tensor: 'b' }),
    );
  });

  it('copies every tensor of files without one, and an empty file', async () => {
    const folder = temporaryPath('empty');
    const { files, totalSize } = await convert(writeTemporary([]), folder, fast);
    expect([files, totalSize]).toEqual([['model.safetensors'], 0]);
    using file = safeOpen(join(folder, 'model.safetensors'));
    expect([file.size, file.metadata]).toEqual([0, null]);
  });

  it('fails on a bad source and leaves the target', async () => {
    const source = writeCheckpoint(MODEL, temporaryPath('source'));
    const target = temporaryPath('target');
    await convert(source, target, fast);
    const files = filesOf(target);
    const shard = join(source, 'model-00002-of-00002.safetensors');
    truncateSync(shard, readFileSync(shard).length - 1);
    await expect(convert(source, target, fast)).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_METADATA_INCOMPLETE_BUFFER' }),
    );
    await expect(convert(temporaryPath('none'), target)).rejects.toThrow('ENOENT');
    const signal = AbortSignal.abort(new Error('enough'));
    const good = writeCheckpoint(MODEL, temporaryPath('good'));
    await expect(convert(good, target, { signal })).rejects.toThrow('enough');
    expect(filesOf(target)).toEqual(files);
  });
});
