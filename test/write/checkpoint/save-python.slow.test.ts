/** Checkpoints of ours in Python, and one of transformers in other shards. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convert, type NewTensor, safeOpen, saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { childPath } from '../../support/run-child.js';
import { contentOf } from '../../support/saved-tensors.js';

const python = findPython('torch', 'safetensors', 'huggingface_hub', 'transformers');

type Loaded = Record<string, [shape: number[], values: number[]]>;

type Question = readonly [folder: string, way: 'files' | 'hub' | 'model'];

function load(questions: readonly Question[]): Loaded[] {
  return JSON.parse(
    runPython(python, [
      childPath('write/checkpoint/children/load_checkpoints.py'),
      JSON.stringify(questions),
    ]),
  );
}

/** A model of two linear layers. */
const shapes: Readonly<Record<string, readonly number[]>> = {
  '0.weight': [2, 3],
  '0.bias': [2],
  '1.weight': [2, 2],
  '1.bias': [2],
};
const values: Loaded = Object.fromEntries(
  Object.entries(shapes).map(([name, shape], i) => {
    const length = shape.reduce((count, size) => count * size, 1);
    return [name, [[...shape], Array.from({ length }, (_, at) => i + at / 4)]];
  }),
);
const tensors: [string, NewTensor][] = Object.entries(values).map(([name, [shape, data]]) => [
  name,
  { dtype: 'F32', shape, data: Float32Array.from(data) },
]);

describe.skipIf(isSkipped(python))(titleWith(python, 'in Python'), () => {
  it('one file and shards load with equal tensors', { timeout: 300_000 }, async () => {
    const questions: Question[] = [];
    for (const maxShardSize of [undefined, 24]) {
      const folder = temporaryPath(`saved-${maxShardSize}`);
      await saveCheckpoint(folder, tensors, { maxShardSize });
      const other = temporaryPath(`resharded-${maxShardSize}`);
      await convert(folder, other, { maxShardSize: maxShardSize === 24 ? '1KB' : 16 });
      if (maxShardSize === undefined) questions.push([folder, 'hub']);
      questions.push([folder, 'files'], [folder, 'model'], [other, 'files'], [other, 'model']);
    }
    expect(load(questions)).toEqual(Array(questions.length).fill(values));
  });

  it('a checkpoint of transformers is split, merged and split again', {
    timeout: 300_000,
  }, async () => {
    const folder = temporaryPath('pretrained');
    runPython(python, [childPath('support/save_pretrained.py'), folder]);
    const content = await contentOf(folder);
    const merged = temporaryPath('merged');
    await convert(folder, merged, { maxShardSize: Number.POSITIVE_INFINITY });
    expect(await contentOf(merged)).toEqual(content);
    const [loaded = {}] = load([[merged, 'hub']]);
    expect(Object.keys(loaded).sort()).toEqual(Object.keys(content));
    const again = temporaryPath('again');
    await convert(join(merged, 'model.safetensors'), again, { maxShardSize: '8KB' });
    expect(await contentOf(again)).toEqual(content);
    await convert(folder, folder, { maxShardSize: '8KB' });
    expect(await contentOf(folder)).toEqual(content);
    using checkpoint = safeOpen(folder);
    expect(Number(checkpoint.metadata?.get('total_parameters'))).toBeGreaterThan(1000);
  });
});
