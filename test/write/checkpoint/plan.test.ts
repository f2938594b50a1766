/** A dry run reports the call's result, and changes nothing. */
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  convert,
  type DryRun,
  type SaveCheckpointOptions,
  saveCheckpoint,
  saveFile,
} from '../../support/api.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import {
  excludedOf,
  expectSameAsPlanned,
  layouts,
  models,
  newPath,
  newTarget,
  olds,
  selections,
  stateOf,
  tensorFiles,
} from '../../support/plans.js';
import { filled } from '../../support/saved-tensors.js';
import { root } from '../../support/source-tree.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };
const dry = { dryRun: true } as const;

describe('a dry run', () => {
  it('of saveCheckpoint says what it writes', async () => {
    const shared = fc.constantFrom('copy', 'dedupe', 'error', 'python' as const);
    await fc.assert(
      fc.asyncProperty(models, layouts, olds, shared, async (model, layout, old, mode) => {
        const target = newTarget(old);
        const options: SaveCheckpointOptions = { ...saving, ...layout, shared: mode };
        await expectSameAsPlanned(
          target,
          () => saveCheckpoint(target, model, { ...layout, shared: mode, ...dry }),
          () => saveCheckpoint(target, model, options),
        );
      }),
      { numRuns: 40 },
    );
  });

  it('of convert says what it writes', async () => {
    await fc.assert(
      fc.asyncProperty(
        models,
        layouts,
        layouts,
        selections,
        olds,
        fc.constantFrom('other', 'same'),
        async (model, first, layout, selection, old, place) => {
          const source = newPath('source');
          const metadata = { note: 'kept', 'b.bias': 'b.weight' };
          await saveCheckpoint(source, model, { ...saving, ...first, metadata });
          for (const name of ['config.json', 'tokenizer.json']) writeBelow(source, name, '{}');
          mkdirSync(join(source, 'folder.txt'));
          const target = place === 'same' ? source : newTarget(old);
          const options = { ...layout, ...selection, copyOtherFiles: true };
          await expectSameAsPlanned(
            target,
            () => convert(source, target, { ...options, ...fast, ...dry }),
            () => convert(source, target, { ...options, ...fast }),
            excludedOf(model, selection),
          );
        },
      ),
      { numRuns: 40 },
    );
  });

  it.each(
    readdirSync(join(root, 'test/fixtures/torch')).filter((name) => /^(?:zip|legacy)/.test(name)),
  )('of converting %s says what it writes, or why it cannot', async (name) => {
    const source = join(root, 'test/fixtures/torch', name);
    const folder = temporaryPath('folder');
    await expectSameAsPlanned(
      folder,
      () => convert(source, folder, { ...dry, maxShardSize: 40 }),
      () => convert(source, folder, { ...fast, maxShardSize: 40 }),
    );
    const file = join(temporaryPath('missing'), 'model.safetensors');
    await expectSameAsPlanned(
      join(file, '..'),
      () => convert(source, file, dry),
      () => convert(source, file, fast),
    );
  });

  it('counts tied tensors once', async () => {
    const data = new Float32Array(100_000);
    const tensors = {
      'embed.weight': { dtype: 'F32', shape: [100_000], data },
      'lm_head.weight': { dtype: 'F32', shape: [100_000], data },
    } as const;
    const options = { maxShardSize: '500kB', shared: 'dedupe', ...dry } as const;
    const plan = await saveCheckpoint(temporaryPath('tied'), tensors, options);
    expect([tensorFiles(plan), plan.totalSize]).toEqual([['model.safetensors'], 400_000]);
    expect(plan.dropped).toEqual(new Map([['lm_head.weight', 'embed.weight']]));
  });

  it('lists the tensors that are left out, by a list or a function, without their aliases', async () => {
    const source = temporaryPath('source');
    const tensors = { a: filled(1, 1), b: filled(2, 2), c: filled(3, 3) };
    await saveCheckpoint(source, tensors, { ...saving, metadata: { alias: 'c' } });
    for (const [selection, excluded] of [
      [{}, []],
      [{ dtype: 'F16' }, []],
      [{ names: ['alias'] }, ['a', 'b']],
      [{ names: (name: string) => name !== 'b', rename: (name: string) => `new.${name}` }, ['b']],
    ] as const) {
      const plan = await convert(source, temporaryPath('planned'), { ...selection, ...dry });
      expect(plan.excluded).toEqual(excluded);
    }
  });

  it('may be told by a variable', async () => {
    const source = temporaryPath('one.safetensors');
    await saveFile(source, { a: filled(1, 1) }, saving);
    for (const dryRun of [true, false]) {
      const target = temporaryPath(`target-${dryRun}`);
      const options: DryRun = { dryRun };
      const results = [
        await saveCheckpoint(join(target, '1'), { a: filled(1, 1) }, { ...saving, ...options }),
        await convert(source, join(target, '2'), { ...fast, ...options }),
        await convert(source, join(target, '3'), { ...fast, ...options }),
      ];
      for (const { files } of results) {
        const [file] = files;
        expect(typeof file).toBe(dryRun ? 'object' : 'string');
      }
      expect(existsSync(target)).toBe(!dryRun);
    }
  });

  it('reads no stream', async () => {
    const fail = (): never => {
      throw new Error('the stream was read');
    };
    const data = { [Symbol.asyncIterator]: fail };
    const tensor = { dtype: 'U8', shape: [3], data } as const;
    const target = temporaryPath('streams');
    const plan = await saveCheckpoint(target, { tensor, more: filled(2, 1) }, dry);
    expect(plan.files).toEqual([
      { name: 'model.safetensors', byteLength: expect.any(Number), tensors: ['more', 'tensor'] },
    ]);
    expect(existsSync(target)).toBe(false);
    await expect(saveCheckpoint(target, { tensor }, saving)).rejects.toThrow('the stream was read');
  });

  it('refuses what the call refuses, and leaves it', async () => {
    const folder = temporaryPath('folder');
    mkdirSync(join(folder, 'model.safetensors'), { recursive: true });
    const source = temporaryPath('one.safetensors');
    await saveFile(source, { a: filled(1, 1) }, saving);
    for (const call of [
      () => saveCheckpoint(folder, { a: filled(1, 1) }, dry),
      () => convert(source, folder, dry),
      () => convert(source, folder, dry),
      () => convert(source, join(folder, 'model.safetensors'), dry),
    ]) {
      const before = stateOf(folder);
      await expect(call()).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE' });
      expect(stateOf(folder)).toEqual(before);
    }
    const bad = { dryRun: 'yes' } as unknown as typeof dry;
    for (const call of [
      () => saveCheckpoint(folder, { a: filled(1, 1) }, bad),
      () => convert(source, folder, bad),
      () => convert(source, temporaryPath('file.safetensors'), bad),
    ]) {
      await expect(call()).rejects.toThrow('dryRun must be a boolean');
    }
  });

  it('finds a file where the call finds one instead of a folder', async () => {
    const source = temporaryPath('one.safetensors');
    await saveFile(source, { a: filled(1, 1) }, saving);
    for (const [folder, code] of [
      [source, 'EEXIST'],
      [join(source, 'below'), 'ENOTDIR'],
    ] as const) {
      for (const options of [dry, saving as unknown as typeof dry]) {
        for (const call of [
          () => saveCheckpoint(join(folder, 'm'), { a: filled(1, 1) }, options),
          () => convert(source, join(folder, 'm'), options),
          () => convert(source, join(folder, 'm'), options),
        ]) {
          await expect(call()).rejects.toMatchObject({ code: 'ENOTDIR' });
        }
        const call = convert(source, join(folder, 'm.safetensors'), options);
        await expect(call).rejects.toMatchObject({ code });
      }
    }
  });

  it('leaves what a killed process left, and says which of it would go', async () => {
    const left = '.safetensors-mmap-00000000-0000000000000000.tmp';
    const folder = newTarget([left, 'model-00001-of-00009.safetensors']);
    symlinkSync('nowhere', join(folder, 'model.safetensors'));
    await expectSameAsPlanned(
      folder,
      () => saveCheckpoint(folder, { a: filled(1, 1) }, dry),
      () => saveCheckpoint(folder, { a: filled(1, 1) }, saving),
    );
  });
});
