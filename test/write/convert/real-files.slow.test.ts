/** Converted checkpoints of models and of their training equal, in Python, torch's reading of the source. */

import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, parse } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PythonReader, type TensorFact } from '../../foreign/python-reader.js';
import { convert } from '../../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';

const python = findPython('torch', 'transformers', 'huggingface_hub', 'safetensors');
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const constructors = here('../../../scripts/fixtures');
const fast = { durable: false, overwrite: true };

function inOrder(facts: readonly TensorFact[] = []): TensorFact[] {
  return facts.toSorted(([a], [b]) => (a < b ? -1 : 1));
}

describe.skipIf(isSkipped(python))(titleWith(python, 'checkpoints of models, converted'), () => {
  const reader = new PythonReader(python);
  let folder: string;
  let converted: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'safetensors-converted-'));
    converted = join(folder, 'converted');
    mkdirSync(converted);
    runPython(python, [here('../../foreign/torch/save_models.py'), folder, constructors]);
    runPython(python, [here('save_cases.py'), folder]);
  });
  afterAll(async () => {
    await reader.close();
    rmSync(folder, { recursive: true });
  });

  const files = (): string[] =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => name);
  const shardedModels = (): string[] =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== 'converted')
      .map(({ name }) => name);

  async function factsOf(kind: 'torch' | 'safetensors', paths: string[]): Promise<TensorFact[][]> {
    const answers = await reader.answer<TensorFact[]>(
      paths.map((path) => ({ reader: kind, path })),
    );
    expect(answers.filter(({ error }) => error !== undefined)).toEqual([]);
    return answers.map(({ found }) => found ?? []);
  }

  it('have all tensors with the values that torch reads, tied ones included', async () => {
    const sources = files();
    expect(sources).toHaveLength(9 * 3 + 2 + 7 * 2 + 11);
    const targets = sources.map((name) => join(converted, `${name}.safetensors`));
    for (const [i, name] of sources.entries()) {
      await convert(join(folder, name), targets[i] as string, { ...fast, root: [] });
    }
    const expected = await factsOf(
      'torch',
      sources.map((name) => join(folder, name)),
    );
    const found = await factsOf('safetensors', targets);
    for (const [i, name] of sources.entries()) {
      expect(inOrder(found[i]), name).toEqual(inOrder(expected[i]));
    }
  });

  it('have those of all shards, and an index of what was written', async () => {
    const models = shardedModels();
    expect(models).toHaveLength(9);
    for (const name of models) {
      const source = join(folder, name, 'pytorch_model.bin.index.json');
      const target = join(converted, `${name}-sharded`);
      const { files: written } = await convert(source, target, { ...fast, maxShardSize: 12_000 });
      expect(written.length, name).toBeGreaterThan(1);
      const shards = readdirSync(join(folder, name)).filter((file) => file.endsWith('.bin'));
      const parts = await factsOf(
        'torch',
        shards.map((file) => join(folder, name, file)),
      );
      const [found] = await factsOf('safetensors', [target]);
      expect(inOrder(found), name).toEqual(inOrder(parts.flat()));
    }
  });

  it('load into the model and into its base model without a missing key', async () => {
    for (const name of shardedModels()) {
      await convert(join(folder, `${name}.bin`), join(converted, name), fast);
      const target = join(converted, `${name}-sharded`);
      await convert(join(folder, name, 'pytorch_model.bin.index.json'), target, {
        ...fast,
        maxShardSize: 12_000,
      });
    }
    const printed = runPython(python, [here('load_models.py'), folder, constructors]);
    const reports = printed
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { missing: string[]; different: string[] });
    expect(reports).toHaveLength(9 * 2 * 2 + 2);
    const wrong = reports.filter((report) => report.missing.length + report.different.length > 0);
    expect(wrong).toEqual([]);
  });

  it('keep of tied weights the name that the model registers first, as save_pretrained does', async () => {
    const keptOf = async (name: string): Promise<Map<string, string>> => {
      const target = join(converted, `${parse(name).name}-kept.safetensors`);
      const { dropped } = await convert(join(folder, name), target, fast);
      return new Map([...dropped].sort());
    };
    expect(await keptOf('gpt2-f16.bin')).toEqual(
      new Map([['lm_head.weight', 'transformer.wte.weight']]),
    );
    expect(await keptOf('t5-f32-legacy.bin')).toEqual(
      new Map(
        ['decoder.embed_tokens.weight', 'encoder.embed_tokens.weight', 'lm_head.weight'].map(
          (name) => [name, 'shared.weight'],
        ),
      ),
    );
  });
});
