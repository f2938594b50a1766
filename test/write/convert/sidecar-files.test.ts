/** Config, tokenizer and other files, which `convert` copies on request. */

import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { fixturePath } from '../../foreign/torch/fixtures.js';
import { convert } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const options = { durable: false, copyOtherFiles: true };

/** A folder with a model and its other files. */
function modelFolder(name: string, fixture: string): string {
  const folder = temporaryPath('source');
  mkdirSync(join(folder, 'onnx'), { recursive: true });
  cpSync(fixturePath(fixture), join(folder, name));
  for (const other of ['config.json', 'tokenizer.json', 'optimizer.pt', '.gitattributes']) {
    writeFileSync(join(folder, other), other);
  }
  return folder;
}

it('copies what holds no weights, from a folder', async () => {
  const source = modelFolder('pytorch_model.bin', 'zip-state-dict.pt');
  const target = temporaryPath('target');
  const { files, copied, skipped } = await convert(source, target, options);
  expect([files, copied, skipped]).toEqual([
    ['model.safetensors'],
    ['config.json', 'tokenizer.json'],
    ['onnx'],
  ]);
  expect(readdirSync(target)).toEqual(['config.json', 'model.safetensors', 'tokenizer.json']);
  expect(readFileSync(join(target, 'config.json'), 'utf8')).toBe('config.json');
});

it('copies what stands beside a file or an index, but not the source', async () => {
  const source = modelFolder('w.npy', 'np-f4.npy');
  const rename = (): string => 'w';
  const array = await convert(join(source, 'w.npy'), temporaryPath('a'), { ...options, rename });
  expect(array.copied).toEqual(['config.json', 'tokenizer.json']);

  cpSync(fixturePath('zip-state-dict.pt'), join(source, '1.bin'));
  const index = join(source, 'pytorch_model.bin.index.json');
  writeFileSync(index, JSON.stringify({ metadata: {}, weight_map: { 'l1.bias': '1.bin' } }));
  const { copied } = await convert(index, temporaryPath('b'), options);
  expect(copied).toEqual(['config.json', 'tokenizer.json', 'w.npy']);
});

it('copies nothing unless asked, nor into the folder of the source', async () => {
  const source = modelFolder('pytorch_model.bin', 'zip-state-dict.pt');
  const target = temporaryPath('target');
  const { copied, skipped } = await convert(source, target, { durable: false });
  expect([copied, skipped, readdirSync(target)]).toEqual([[], [], ['model.safetensors']]);
  expect((await convert(source, source, options)).copied).toEqual([]);
  expect(readdirSync(source)).toContain('config.json');
});

it('is refused where the target is a file', async () => {
  const source = modelFolder('pytorch_model.bin', 'zip-state-dict.pt');
  const target = temporaryPath('model.safetensors');
  await expect(convert(source, target, options)).rejects.toThrow(
    'copyOtherFiles must be left out where the target is a .safetensors file',
  );
  const { copied } = await convert(source, target, { ...options, copyOtherFiles: false });
  expect(copied).toEqual([]);
  const wrong = { ...options, copyOtherFiles: 'yes' as never };
  await expect(convert(source, target, wrong)).rejects.toThrow(TypeError);
});
