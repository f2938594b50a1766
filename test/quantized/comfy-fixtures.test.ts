/** Recorded checkpoints of ComfyUI and of methods that are rejected: each weight is right, or a problem that names why. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type AnyCheckpoint,
  type Checkpoint,
  dequantized,
  fromFloat32,
  loadFile,
  openRemote,
  safeOpen,
  select,
  type Tensor,
} from '../support/api.js';
import { root } from '../support/source-tree.js';
import { rowCountOf } from './opened-tensors.js';
import { patternsOf } from './rules.js';

interface Fixture {
  readonly expect: string;
  readonly tolerance?: string;
  readonly tensor?: string;
  readonly code?: string;
  readonly message_should_name?: readonly string[];
  readonly still_readable?: readonly string[];
  readonly hidden?: readonly string[];
  readonly plain?: readonly string[];
  readonly logical?: Readonly<Record<string, { readonly shape: readonly number[] }>>;
}

const folder = join(root, 'test/fixtures/quantized-comfy');
const ids = readdirSync(folder).sort();
const manifestOf = (id: string): Fixture =>
  JSON.parse(readFileSync(join(folder, id, 'manifest.json'), 'utf8'));
const isRead = (id: string): boolean => manifestOf(id).expect === 'dequantize';
const read = ids.filter(isRead);
/** Its weight may be rejected or, as here, have the scale of its inputs in its columns. */
const FOLDED = 'bad-comfy-nvfp4-pre-quant-scale';
const rejected = ids.filter((id) => !isRead(id) && id !== FOLDED);

const open = (id: string): Promise<Checkpoint> => dequantized(safeOpen(join(folder, id)));
const expectedOf = (id: string): Map<string, Tensor> =>
  loadFile(join(folder, id, 'expected.safetensors'));

/** Exact values; of rotated rows, sums in another order differ by 2^-20 of the largest value of the row. */
function expectValues(id: string, name: string, found: Float32Array, expected: Tensor): void {
  const values = expected.toFloat32();
  if (manifestOf(id).tolerance?.startsWith('abs') !== true) {
    expect(patternsOf(found), name).toEqual(patternsOf(values));
    return;
  }
  const columns = expected.shape.at(-1) as number;
  for (let begin = 0; begin < values.length; begin += columns) {
    const row = values.subarray(begin, begin + columns);
    const most = row.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) * 2 ** -20;
    const far = row.findIndex(
      (value, i) => !(Math.abs(value - (found[begin + i] as number)) <= most),
    );
    expect([name, begin / columns, far]).toEqual([name, begin / columns, -1]);
  }
}

it('are all there', () => {
  expect([ids.length, read.length, rejected.length]).toEqual([27, 13, 13]);
});

describe.each(read)('%s', (id) => {
  const { logical = {}, plain = [] } = manifestOf(id);

  it('has the logical names and shapes, and no problems', async () => {
    const model = await open(id);
    expect(model.problems).toEqual([]);
    expect(model.keys()).toEqual([...Object.keys(logical), ...plain].sort());
    for (const [name, { shape }] of Object.entries(logical)) {
      expect(model.info(name)).toMatchObject({ dtype: 'F32', shape, quantization: {} });
    }
  });

  it('has the values of the original, whole, by rows and in slices', async () => {
    const [model, expected] = [await open(id), expectedOf(id)];
    for (const [name, { shape }] of Object.entries(logical)) {
      const tensor = model.getTensor(name);
      const values = tensor.toFloat32();
      expectValues(id, name, values, expected.get(name) as Tensor);
      expect(patternsOf(await tensor.toFloat32Async())).toEqual(patternsOf(values));
      const columns = shape.at(-1) as number;
      for (let row = 0; row < rowCountOf(tensor); row++) {
        const own = values.subarray(row * columns, (row + 1) * columns);
        expect(patternsOf(tensor.toFloat32({ rows: [row, row + 1] })), `${row}`).toEqual(
          patternsOf(own),
        );
      }
      const part = (tensor.slice('..., 3:9') as Tensor).toFloat32();
      const whole = Float32Array.from({ length: part.length }, (_, i) => {
        return values[Math.floor(i / 6) * columns + 3 + (i % 6)] as number;
      });
      expect(patternsOf(part)).toEqual(patternsOf(whole));
      for (const dtype of ['BF16', 'F16'] as const) {
        expect(select(model, { dtype }).getTensor(name).data).toEqual(fromFloat32(values, dtype));
      }
    }
    for (const name of plain) {
      expect(model.getTensor(name).bytes).toEqual((expected.get(name) as Tensor).bytes);
    }
  });

  it('has the same values from far away', async () => {
    const local = await open(id);
    const file = new Blob([readFileSync(join(folder, id, 'model.safetensors'))]);
    const remote: AnyCheckpoint = await dequantized(await openRemote(file));
    expect(remote.keys()).toEqual(local.keys());
    for (const name of Object.keys(logical)) {
      const values = local.getTensor(name).toFloat32();
      expect(patternsOf((await remote.getTensor(name)).toFloat32())).toEqual(patternsOf(values));
      const rows = rowCountOf(local.info(name));
      if (local.info(name).shape.length !== 2) continue;
      const last = values.subarray(values.length - values.length / rows);
      expect(patternsOf((await remote.getSlice(name, rows - 1)).toFloat32())).toEqual(
        patternsOf(last),
      );
    }
  });
});

it.each(ids)('%s has no part of a weight as a tensor, and loses none', async (id) => {
  const { hidden = [] } = manifestOf(id);
  const model = await open(id);
  for (const name of model.keys()) expect(hidden).not.toContain(name);
  const names = [...model.keys(), ...model.problems.map(({ tensor }) => tensor)];
  for (const name of expectedOf(id).keys()) expect(names).toContain(name);
});

it.each(rejected)('%s is rejected by name, and the others stay', async (id) => {
  const fixture = manifestOf(id);
  const { tensor = '', code, message_should_name: named = [], still_readable: others } = fixture;
  const model = await open(id);
  expect(model.problems.map((problem) => [problem.tensor, problem.code])).toEqual([[tensor, code]]);
  for (const word of named) expect(model.problems[0]?.message).toContain(word);
  expect(() => model.getTensor(tensor)).toThrow(model.problems[0]);
  for (const name of others ?? []) {
    const expected = expectedOf(id).get(name) as Tensor;
    expect(patternsOf(model.getTensor(name).toFloat32())).toEqual(patternsOf(expected.toFloat32()));
  }
});

it('scales of inputs are factors of columns', async () => {
  const model = await open(FOLDED);
  expect([model.keys(), model.problems]).toEqual([['l.weight', 'norm.weight', 'ok.weight'], []]);
  const expected = loadFile(join(folder, FOLDED, 'folded.safetensors')).get('l.weight') as Tensor;
  const values = model.getTensor('l.weight').toFloat32();
  expect(patternsOf(values)).toEqual(patternsOf(expected.toFloat32()));
});
