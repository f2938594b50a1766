/**
 * Fresh models at every run: Python writes them with a new seed and describes them; this package must read the same.
 * SAFETENSORS_SEED repeats a run.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { safeOpen } from '../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';
import { expectSameFile, expectSameTensor, readDescription } from './model-description.js';

const script = fileURLToPath(new URL('../../scripts/fixtures/make_models.py', import.meta.url));
const python = findPython('torch', 'transformers', 'safetensors', 'numpy');
const seed = Number(process.env['SAFETENSORS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

const MODELS = [
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
];

if (isSkipped(python)) process.stderr.write(`oracle: skipped: ${python.missing}\n`);

describe.skipIf(isSkipped(python))(titleWith(python, `fresh models, seed ${seed}`), () => {
  let folder: string;

  beforeAll(() => {
    process.stderr.write(`oracle: SAFETENSORS_SEED=${seed}\n`);
    folder = mkdtempSync(join(tmpdir(), 'safetensors-oracle-'));
    runPython(python, [script, folder, '--seed', String(seed), '--size', 'large']);
  });
  afterAll(() => {
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  it('covers every model that the script writes', () => {
    const written = readdirSync(folder).filter((name) => name.endsWith('.safetensors'));
    expect(written.map((name) => name.replace('.safetensors', '')).toSorted()).toEqual(MODELS);
  });

  it.each(MODELS)('%s: names, orders, metadata, bytes and values equal Python', (model) => {
    const path = join(folder, `${model}.safetensors`);
    const description = readDescription(join(folder, `${model}.json`));
    expect(description.seed).toBe(seed);
    const file = safeOpen(path);
    try {
      expectSameFile(file, path, description);
      for (const tensor of description.tensors) {
        expectSameTensor(file.getTensor(tensor.name), tensor);
      }
    } finally {
      file.close();
    }
  });
});
