/** Checkpoints without tensors, which are valid. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dict, legacyFile } from '../../foreign/torch/legacy-file.js';
import { convert, safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { writeTensors } from '../../support/write-tensors.js';

const saving = { durable: false };
const fast = { ...saving, overwrite: true };

function emptyTorch(): string {
  return legacyFile('}', {});
}

function emptySafetensors(): string {
  const path = temporaryPath('source.safetensors');
  writeTensors(path, {}, { metadata: { format: 'pt' } });
  return path;
}

describe.each([
  ['torch', emptyTorch],
  ['safetensors', emptySafetensors],
])('of %s', (_, source) => {
  it.each([{}, { dtype: 'F16' }, { names: () => true }, { verify: false }] as const)(
    'become an empty file: %o',
    async (options) => {
      const target = temporaryPath('model.safetensors');
      const { totalSize, cast } = await convert(source(), target, { ...fast, ...options });
      expect([totalSize, cast]).toEqual([0, []]);
      using file = safeOpen(target);
      expect(file.keys()).toEqual([]);
      expect(file.metadata).toEqual(new Map([['format', 'pt']]));
    },
  );

  it('become a folder with an empty file', async () => {
    const target = temporaryPath('model');
    const { files, index } = await convert(source(), target, fast);
    expect([files, index]).toEqual([['model.safetensors'], null]);
    using checkpoint = safeOpen(target);
    expect(checkpoint.size).toBe(0);
  });

  it('have no tensor of that name', async () => {
    const options = { ...fast, names: ['a'] };
    await expect(convert(source(), temporaryPath('x.safetensors'), options)).rejects.toMatchObject({
      code: 'SAFETENSORS_TENSOR_NOT_FOUND',
    });
  });
});

it('convert takes them too, also with a cast', async () => {
  const target = temporaryPath('model');
  await convert(emptySafetensors(), target, { ...fast, dtype: 'F16' });
  using checkpoint = safeOpen(target);
  expect(checkpoint.size).toBe(0);
});

it('a checkpoint of other things than tensors is refused', async () => {
  const source = legacyFile(dict(['K\x01', 'K\x02']), {});
  await expect(convert(source, temporaryPath('x.safetensors'), fast)).rejects.toMatchObject({
    code: 'SAFETENSORS_AMBIGUOUS_ROOT',
  });
});

it('an archive of no arrays is refused as what it is', async () => {
  const folder = temporaryPath('arrays');
  mkdirSync(folder);
  const path = join(folder, 'empty.npz');
  writeFileSync(path, Buffer.from(`PK\x05\x06${'\0'.repeat(18)}`, 'latin1'));
  for (const source of [path, folder]) {
    await expect(convert(source, temporaryPath('x.safetensors'), fast)).rejects.toMatchObject({
      code: 'SAFETENSORS_FOREIGN_FORMAT',
      message: expect.stringContaining('an empty zip archive'),
    });
  }
});
