/**
 * Files that this project did not write: made by `save_pretrained` of transformers and `save_file` of safetensors
 * (scripts/fixtures/make_models.py), with Python's reading of them in a sibling file.
 */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Checkpoint, loadFile, safeOpen } from '../support/api.js';
import { expectSameFile, expectSameTensor, readDescription } from './model-description.js';

const folder = fileURLToPath(new URL('../fixtures/models/', import.meta.url));
const models = readdirSync(folder)
  .filter((name) => name.endsWith('.safetensors'))
  .map((name) => name.slice(0, -'.safetensors'.length));

it('has the fixtures of all architectures, dtypes and writers', () => {
  expect(models.toSorted()).toEqual([
    'bert-f32',
    'clip-bf16',
    'float8-state-dict',
    'gpt2-f16',
    'int8-state-dict',
    'llama-bf16',
    'mamba-f32',
    'mixtral-bf16',
    't5-f32',
    'vit-f32',
    'whisper-f16',
  ]);
});

describe.each(models)('%s', (model) => {
  const path = `${folder}${model}.safetensors`;
  const python = readDescription(`${folder}${model}.json`);

  describe.each(['mmap', 'read'] as const)('storage %s', (storage) => {
    let file: Checkpoint;
    beforeAll(() => {
      file = safeOpen(path, { storage });
    });
    afterAll(() => file?.close());

    it('has the names, orders, size and metadata that Python reads', () => {
      expect(file.storage).toBe(storage);
      expectSameFile(file, path, python);
    });

    it('has the dtypes, shapes, bytes and values that Python reads', () => {
      for (const tensor of python.tensors) expectSameTensor(file.getTensor(tensor.name), tensor);
    });
  });

  it('gives the same tensors after loadFile closed the file', () => {
    const tensors = loadFile(path);
    expect(tensors.size).toBe(python.tensors.length);
    for (const description of python.tensors) {
      const tensor = tensors.get(description.name);
      expect(tensor, description.name).toBeDefined();
      if (tensor) expectSameTensor(tensor, description);
    }
  });
});
