/** Commands that take one model, of a folder whose subfolders hold models. */
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { MODEL_INDEX } from '../../support/model-index.js';
import { call } from '../call.js';

const ONE = fileBytes([{ name: 'w', dtype: 'U8', shape: [4] }]);
const NOT_FOUND = 'expected a checkpoint in the folder, found no safetensors file or index';

let folder: string;

beforeEach(() => {
  folder = temporaryPath('models');
  rmSync(folder, { recursive: true, force: true });
  writeBelow(folder, 'README.md', 'models');
});

it.each([['inspect'], ['show', 'w'], ['hash', '--write'], ['verify']])(
  '%s names the models',
  async (command, ...more) => {
    writeBelow(folder, 'b/pytorch_model.bin', 'torch');
    writeBelow(folder, 'c/model_index.json', MODEL_INDEX);
    writeBelow(folder, 'd/notes.txt', 'no model');
    writeBelow(folder, 'deep/e/model.safetensors', ONE);
    mkdirSync(join(folder, 'a'));
    writeCheckpoint(TWO_SHARDS, join(folder, 'a'));
    const { code, stdout, stderr } = await call([command, folder, ...more]);
    expect(code).toBe(1);
    expect(stdout + stderr).toContain(
      `${NOT_FOUND}; the folder has models in a, b, c: pass one of them, such as ${join(folder, 'a')}\n`,
    );
  },
);

it('names only the first of many', async () => {
  for (let i = 10; i < 30; i++) writeBelow(folder, `m${i}/model.safetensors`, ONE);
  expect((await call(['inspect', folder])).stderr).toContain(
    'models in m10, m11, m12, m13, m14, m15, m16, m17 and 12 more: pass',
  );
});

it('follows no link to a folder, and has no hint for a folder without models', async () => {
  const outside = temporaryPath('outside');
  writeBelow(outside, 'model.safetensors', ONE);
  symlinkSync(outside, join(folder, 'link'));
  mkdirSync(join(folder, 'linked'));
  symlinkSync(join(outside, 'model.safetensors'), join(folder, 'linked/model.safetensors'));
  expect((await call(['inspect', folder])).stderr).toMatch(new RegExp(`${NOT_FOUND}\n$`));
});

it('has no hint for a folder with weights, or a variant that no model of a pipeline has', async () => {
  writeBelow(folder, 'a/model.safetensors', ONE);
  writeBelow(folder, 'model_index.json', MODEL_INDEX);
  const { code, stderr } = await call(['inspect', folder, '--variant', 'fp16']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('CHECKPOINT_NOT_FOUND')]);
  expect(stderr).not.toContain('pass one of them');
});
