/** The recorded checkpoints: values of the references, bit for bit, and what must be refused. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  dequantized,
  fromFloat32,
  loadFile,
  SafetensorsError,
  safeOpen,
  select,
  type Tensor,
} from '../support/api.js';
import { root } from '../support/source-tree.js';
import { rowCountOf } from './opened-tensors.js';

interface Fixture {
  readonly id: string;
  readonly expect: 'dequantize' | 'refuse';
  readonly scope?: 'tensor' | 'checkpoint';
  readonly still_readable?: readonly string[];
  readonly logical?: Readonly<Record<string, { readonly shape: readonly number[] }>>;
  readonly plain?: readonly string[];
}

const folder = join(root, 'test/fixtures/quantized');
const { fixtures }: { fixtures: readonly Fixture[] } = JSON.parse(
  readFileSync(join(folder, 'manifest.json'), 'utf8'),
);
const exact = fixtures.filter((fixture) => fixture.expect === 'dequantize');
const refused = fixtures.filter((fixture) => fixture.expect === 'refuse');

const open = (id: string): Promise<Checkpoint> => dequantized(safeOpen(join(folder, id)));
const expectedOf = (id: string): Map<string, Tensor> =>
  loadFile(join(folder, id, 'expected.safetensors'));

/** What the messages say after the names of file and tensor. */
const REASONS: Readonly<Record<string, string>> = {
  'bad-block-size-zero': 'weight_block_size must be two positive integers, found [0,128]',
  'bad-gptq-g-idx': 'down_proj.g_idx" is -1 at [5]; 0 to 1 allowed',
  'bad-missing-scale':
    'F8_E4M3 codes without a scale; looked for model.layers.0.mlp.down_proj.weight_scale_inv',
  'bad-mixed-schemes':
    'qweight [8, 16] with qzeros [2, 2] and scales [2, 16] is not AWQ, as the configuration declares, but looks like GPTQ',
  'bad-name-collision': 'the name is taken',
  'bad-nan-scale': 'down_proj.weight_scale_inv" is NaN at [1, 2]',
  'bad-quant-state-json': 'the state of bitsandbytes (quant_state) is not JSON',
  'bad-two-scales': 'down_proj.weight_scale" are there: expected one scale',
  'bad-weight-shape':
    'says [2147483648, 2147483648], which does not fit "model.layers.0.mlp.down_proj.weight_packed" of shape [8, 8]',
};

/** Bit patterns, with one for every NaN; and one for both zeros where the reference loses their sign. */
function bits(values: Float32Array, isSignFree = false): Uint32Array {
  const patterns = new Uint32Array(values.slice().buffer);
  return patterns.map((pattern, i) => {
    if (Number.isNaN(values[i])) return 0x7fc00000;
    return isSignFree && values[i] === 0 ? 0 : pattern;
  });
}

it('are all there', () => {
  expect([exact.length, refused.length]).toEqual([21, 9]);
});

describe.each(exact.map((fixture) => [fixture.id, fixture] as const))('%s', (id, fixture) => {
  const isSignFree = id.startsWith('modelopt-nvfp4');
  const logical = Object.entries(fixture.logical ?? {});

  it('has the logical names and shapes, and no problems', async () => {
    const model = await open(id);
    expect(model.problems).toEqual([]);
    expect(model.keys()).toEqual(
      [...logical.map(([name]) => name), ...(fixture.plain ?? [])].sort(),
    );
    for (const [name, { shape }] of logical) {
      expect(model.info(name)).toMatchObject({ dtype: 'F32', shape, quantization: {} });
    }
  });

  it('has the values of the reference, whole and by rows', async () => {
    const [model, expected] = [await open(id), expectedOf(id)];
    for (const [name, { shape }] of logical) {
      const values = bits((expected.get(name) as Tensor).toFloat32(), isSignFree);
      const tensor = model.getTensor(name);
      expect(bits(tensor.toFloat32(), isSignFree), name).toEqual(values);
      expect(bits(await tensor.toFloat32Async(), isSignFree), name).toEqual(values);
      const columns = shape.at(-1) as number;
      const into = new Float32Array(columns);
      for (let row = 0; row < rowCountOf(tensor); row++) {
        expect(tensor.toFloat32({ rows: [row, row + 1], into })).toBe(into);
        const own = values.subarray(row * columns, (row + 1) * columns);
        expect(bits(into, isSignFree), `${name} row ${row}`).toEqual(own);
      }
      const middle = [rowCountOf(tensor) >> 1, rowCountOf(tensor)] as const;
      const own = values.subarray(middle[0] * columns);
      expect(bits(tensor.toFloat32({ rows: middle }), isSignFree)).toEqual(own);
    }
  });

  it.each(['BF16', 'F16'] as const)('has them as %s, rounded once', async (dtype) => {
    const [model, expected] = [await open(id), expectedOf(id)];
    const cast = select(model, { dtype });
    for (const [name] of logical) {
      const values = model.getTensor(name).toFloat32();
      expect(cast.info(name)).toMatchObject({ dtype, quantization: {} });
      expect(cast.getTensor(name).data).toEqual(fromFloat32(values, dtype));
      expect(values.length).toBe((expected.get(name) as Tensor).elementCount);
    }
  });

  it('returns its other tensors as they are', async () => {
    const checkpoint = safeOpen(join(folder, id));
    const model = await dequantized(checkpoint);
    const expected = expectedOf(id);
    for (const name of fixture.plain ?? []) {
      const tensor = model.getTensor(name);
      expect(tensor).toBe(checkpoint.getTensor(name));
      expect(tensor.bytes).toEqual((expected.get(name) as Tensor).bytes);
      expect(model.info(name)).toEqual(checkpoint.info(name));
      expect(model.info(name).quantization).toBe(undefined);
    }
  });
});

describe.each(refused.map((fixture) => [fixture.id, fixture] as const))('%s', (id, fixture) => {
  const expectRefused = async (work: Promise<unknown>): Promise<void> => {
    const error: unknown = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(SafetensorsError);
    expect((error as SafetensorsError).code).toBe('SAFETENSORS_QUANTIZATION_INVALID');
    const file = fixture.scope === 'checkpoint' ? 'config.json' : 'model.safetensors';
    expect((error as SafetensorsError).path).toBe(join(folder, id, file));
    expect((error as SafetensorsError).message).toContain(REASONS[id]);
  };

  it('is refused', async () => {
    if (fixture.scope === 'checkpoint') return await expectRefused(open(id));
    const model = await open(id);
    const name = 'model.layers.0.mlp.down_proj.weight';
    await expectRefused((async () => model.getTensor(name).toFloat32())());
  });

  it('leaves the others readable', async () => {
    if (fixture.scope === 'checkpoint') return;
    const checkpoint = safeOpen(join(folder, id));
    const model = await dequantized(checkpoint);
    expect(model.keys()).toEqual(
      id.match(/nan-scale|g-idx/)
        ? ['model.layers.0.mlp.down_proj.weight', 'model.norm.weight']
        : fixture.still_readable,
    );
    for (const name of fixture.still_readable ?? []) {
      expect(model.getTensor(name)).toBe(checkpoint.getTensor(name));
    }
  });
});
