/** Recorded checkpoints of ComfyUI and of methods that are rejected: each weight is right, or a problem that names why. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { dequantized, loadFile, safeOpen, type Tensor } from '../support/api.js';
import { root } from '../support/source-tree.js';

interface Fixture {
  readonly expect: string;
  readonly tensor?: string;
  readonly code?: string;
  readonly message_should_name?: readonly string[];
  readonly still_readable?: readonly string[];
  readonly hidden?: readonly string[];
}

const folder = join(root, 'test/fixtures/quantized-comfy');
const ids = readdirSync(folder).sort();
const manifestOf = (id: string): Fixture =>
  JSON.parse(readFileSync(join(folder, id, 'manifest.json'), 'utf8'));
const isRejected = (id: string): boolean => manifestOf(id).expect.startsWith('refuse');

/** Formats that are dequantized here; the others are rejected by name. */
const READ = [
  'comfy-fp8-marker',
  'comfy-fp8-metadata',
  'comfy-int8-tensorwise',
  'kohya-fp8-scale-weight-blocks',
];

it('are all there', () => {
  expect([ids.length, ids.filter(isRejected).length]).toEqual([27, 14]);
});

it.each(ids)('%s has no wrong value, and no part of a weight as a tensor', async (id) => {
  const { hidden = [] } = manifestOf(id);
  const model = await dequantized(safeOpen(join(folder, id)));
  const expected = loadFile(join(folder, id, 'expected.safetensors'));
  for (const name of model.keys()) {
    expect(hidden).not.toContain(name);
    const tensor = expected.get(name) as Tensor;
    expect([name, model.info(name).shape]).toEqual([name, tensor?.shape]);
    expect(model.getTensor(name).toFloat32()).toEqual(tensor.toFloat32());
  }
  const names = [...model.keys(), ...model.problems.map(({ tensor }) => tensor)];
  for (const name of expected.keys()) expect(names).toContain(name);
});

it.each(ids.filter(isRejected))('%s is rejected by name, and the others stay', async (id) => {
  const fixture = manifestOf(id);
  const { tensor = '', code, message_should_name: named = [], still_readable: others } = fixture;
  const model = await dequantized(safeOpen(join(folder, id)));
  expect(model.problems.map((problem) => [problem.tensor, problem.code])).toEqual([[tensor, code]]);
  for (const word of named) expect(model.problems[0]?.message).toContain(word);
  expect(() => model.getTensor(tensor)).toThrow(model.problems[0]);
  for (const name of others ?? []) expect(model.has(name)).toBe(true);
});

it.each(READ)('%s is read', async (id) => {
  const model = await dequantized(safeOpen(join(folder, id)));
  expect(model.problems).toEqual([]);
});
