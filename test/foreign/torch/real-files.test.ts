/** Checkpoints of models and of their training are read as torch reads them. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import type { Tensor } from '../../../src/tensor/tensor.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { PythonReader, type TensorFact } from '../python-reader.js';

const python = findPython('torch', 'transformers', 'huggingface_hub');

function inOrder(facts: readonly TensorFact[]): TensorFact[] {
  return facts.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function factsOf(tensors: Iterable<[string, Tensor]>): TensorFact[] {
  const facts = Array.from(tensors, ([name, { dtype, shape, bytes }]): TensorFact => {
    return [name, dtype, [...shape], createHash('sha256').update(bytes).digest('hex')];
  });
  return inOrder(facts);
}

describe.skipIf(isSkipped(python))(titleWith(python, 'checkpoints of models'), () => {
  const reader = new PythonReader(python);
  let folder: string;
  let files: string[];
  let models: string[];

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'safetensors-models-'));
    const script = fileURLToPath(new URL('save_models.py', import.meta.url));
    const constructors = fileURLToPath(new URL('../../../scripts/fixtures', import.meta.url));
    runPython(python, [script, folder, constructors]);
    const entries = readdirSync(folder, { withFileTypes: true });
    files = entries.filter((entry) => entry.isFile()).map(({ name }) => join(folder, name));
    models = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name));
  });
  afterAll(async () => {
    await reader.close();
    rmSync(folder, { recursive: true });
  });

  async function readByTorch(
    paths: readonly string[],
  ): Promise<(readonly TensorFact[] | undefined)[]> {
    const answers = await reader.answer<TensorFact[]>(
      paths.map((path) => ({ reader: 'torch', path })),
    );
    return answers.map(({ found }) => found);
  }

  it('have the tensors that torch reads, under any storage', async () => {
    expect(files).toHaveLength(9 * 3 + 2 + 7 * 2);
    const expected = await readByTorch(files);
    for (const [i, path] of files.entries()) {
      expect(scanPickle(path, { verify: true }).verdict, path).toBe('safe');
      for (const storage of ['mmap', 'read'] as const) {
        using checkpoint = openTorchCheckpoint(path, { root: [], storage });
        // torch cannot read float8 from the legacy stream; this one has none.
        expect(factsOf(checkpoint), path).toEqual(inOrder(expected[i] ?? []));
      }
    }
  });

  it('have their weights at the root that is chosen', () => {
    for (const path of files) {
      if (path.includes('training')) {
        using checkpoint = openTorchCheckpoint(path, { root: 'model_state_dict' });
        expect(checkpoint.keys(), path).toContain('body.3.weight');
        continue;
      }
      using checkpoint = openTorchCheckpoint(path);
      expect(checkpoint.root, path).toEqual(path.includes('lightning') ? ['state_dict'] : []);
    }
  });

  it('share the memory of tied weights', () => {
    using checkpoint = openTorchCheckpoint(join(folder, 'gpt2-f16.bin'));
    const [head, embedding] = ['lm_head.weight', 'transformer.wte.weight'].map((name) =>
      checkpoint.getTensor(name),
    );
    expect(head?.bytes.byteOffset).toBe(embedding?.bytes.byteOffset);
    expect(head?.bytes).toEqual(embedding?.bytes);
  });

  it('in shards have the tensors of all shards, by their index', async () => {
    expect(models).toHaveLength(9);
    for (const model of models) {
      const shards = readdirSync(model).filter((name) => name.endsWith('.bin'));
      expect(shards.length, model).toBeGreaterThan(1);
      const parts = await readByTorch(shards.map((name) => join(model, name)));
      using checkpoint = openTorchCheckpoint(join(model, 'pytorch_model.bin.index.json'));
      expect(factsOf(checkpoint), model).toEqual(inOrder(parts.flatMap((part) => part ?? [])));
    }
  });
});
