/** Commands on quantized checkpoints: logical weights by default, what is stored with --raw. */
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { dequantized, safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { writeTensors } from '../../support/write-tensors.js';
import { call } from '../call.js';

const FIXTURES = join(root, 'test/fixtures/quantized');
const fixture = (id: string): string => join(FIXTURES, id);
const FP8 = fixture('fp8-block-ragged');
const NAME = 'model.layers.0.mlp.down_proj.weight';

let values: Float32Array;
beforeAll(async () => {
  const model = await dequantized(safeOpen(FP8));
  values = model.getTensor(NAME).toFloat32();
});

async function json(...args: readonly string[]) {
  const { code, stdout, stderr } = await call([...args, '--json']);
  expect([code, stderr]).not.toEqual([1, expect.stringContaining('error')]);
  return JSON.parse(stdout);
}

/** A plain file of the logical weights, times a factor. */
async function plainFile(id: string, factor: number, name = 'plain.safetensors'): Promise<string> {
  const model = await dequantized(safeOpen(fixture(id)));
  const path = temporaryPath(name);
  const tensors = model.keys().map((name) => {
    const data = model.getTensor(name).toFloat32();
    const shape = model.info(name).shape;
    return [
      name,
      { dtype: 'F32' as const, shape, data: data.map((value) => value * factor) },
    ] as const;
  });
  writeTensors(path, new Map(tensors));
  return path;
}

describe('inspect', () => {
  it.each([
    ['fp8-block-ragged', '2 of 9 weights FP8 in 128 × 128 blocks, 1 FP8'],
    ['gptq-4bit-asym-desc-act', '1 of 5 weights GPTQ of 4 bits in groups of 32'],
    ['mxfp4-gpt-oss', '2 of 5 weights MXFP4 in groups of 32'],
    ['bnb-nf4-nested', 'bitsandbytes-nf4 in groups of 64'],
  ])('%s: %s', async (id, text) => {
    expect((await call(['inspect', fixture(id)])).stdout).toContain(text);
  });

  it('counts logical parameters', async () => {
    const { logical, parameters } = await json('inspect', FP8);
    expect(logical).toMatchObject({ tensors: 9, parameters, problems: {} });
    expect(logical.quantized[0]).toEqual({ scheme: 'fp8', bits: 8, block: [128, 128], weights: 2 });
    expect(await json('inspect', await plainFile('fp8-block-ragged', 1))).toMatchObject({
      logical: null,
    });
  });

  it('says what cannot be dequantized', async () => {
    const { logical, warnings } = await json('inspect', fixture('bad-missing-scale'));
    const [[name, problem]] = Object.entries(logical.problems) as [[string, string]];
    expect([name, problem]).toEqual([NAME, expect.stringContaining('without a scale')]);
    expect(warnings).toContain(problem);
  });

  it('says that a configuration cannot be used, and shows the rest', async () => {
    const { logical, warnings, tensorCount } = await json(
      'inspect',
      fixture('bad-block-size-zero'),
    );
    expect(logical?.quantized ?? []).toEqual([]);
    expect(warnings.join()).toMatch(/weight_block_size/);
    expect(tensorCount).toBeGreaterThan(0);
  });
});

describe('show', () => {
  it('has the weight, or with --raw its codes', async () => {
    const result = await json('show', FP8, NAME, '--slice', '3, 250:');
    expect(result).toMatchObject({ dtype: 'F32', shape: [7], byteLength: 28 });
    expect(result.quantized).toEqual({ scheme: 'fp8', bits: 8, block: [128, 128] });
    const shown = (result.text as string).replaceAll(/[[\]]/g, '').trim().split(/\s+/).map(Number);
    const expected = values.subarray(3 * 257 + 250, 4 * 257);
    expect(Float32Array.from(shown)).toEqual(expected);
    const raw = await json('show', FP8, NAME, '--slice', '3, 250:', '--raw');
    expect(raw).toMatchObject({ dtype: 'F8_E4M3', shape: [7], byteLength: 7 });
    expect(raw).not.toHaveProperty('quantized');
    expect(raw.text).not.toBe(result.text);
  });

  it('has statistics of all values', async () => {
    const { stats, histogram, byteLength } = await json(
      'show',
      FP8,
      NAME,
      '--stats',
      '--histogram',
    );
    expect(stats).toMatchObject({ elements: values.length, nan: 0, infinite: 0 });
    expect(stats.max).toBe(Math.max(...values));
    expect(stats.mean).toBeCloseTo(
      values.reduce((sum, value) => sum + value, 0) / values.length,
      9,
    );
    expect(histogram.counts.reduce((sum: number, count: number) => sum + count, 0)).toBe(
      values.length,
    );
    expect(byteLength).toBe(130 * 257 + 24);
  });

  it('shows companions and plain tensors by their own names', async () => {
    const scale = await json('show', FP8, `${NAME}_scale_inv`);
    expect(scale).toMatchObject({ dtype: 'F32', shape: [2, 3] });
    expect(scale).not.toHaveProperty('quantized');
    expect(await json('show', FP8, 'model.norm.weight')).toMatchObject({ dtype: 'BF16' });
  });

  it('has the codes of a weight that is stored under another name', async () => {
    const module = 'model.layers.0.self_attn.q_proj';
    const raw = await json('show', fixture('gptq-4bit-asym-desc-act'), `${module}.weight`, '--raw');
    expect(raw).toMatchObject({ name: `${module}.qweight`, dtype: 'I32', shape: [16, 24] });
    const { code, stderr } = await call([
      'show',
      fixture('gptq-4bit-asym-desc-act'),
      `${module}.wieght`,
      '--raw',
    ]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('no such tensor; did you mean')]);
  });

  it('refuses a weight without its scale, and shows codes when told so', async () => {
    const { code, stderr } = await call(['show', fixture('bad-missing-scale'), NAME]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('without a scale')]);
    expect(await json('show', fixture('bad-missing-scale'), NAME, '--raw')).toMatchObject({
      dtype: 'F8_E4M3',
    });
  });
});

describe('diff --values', () => {
  it.each(['fp8-block-ragged', 'gptq-4bit-asym-desc-act', 'mxfp4-gpt-oss', 'awq-gemm'])(
    'has the error of each weight: %s',
    async (id) => {
      const path = await plainFile(id, 1.125);
      const { added, removed, changed } = await json('diff', path, fixture(id), '--values');
      expect([added, removed]).toEqual([[], []]);
      const model = await dequantized(safeOpen(fixture(id)));
      for (const { name, values: found } of changed) {
        const own = model.getTensor(name).toFloat32();
        if (own.every((value) => value === 0)) continue;
        expect(found.relative, name).toBeCloseTo(1 - 1 / 1.125, 5);
        expect(found.cosine, name).toBeCloseTo(1, 6);
        const greatest = own.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
        expect(found.maxError / greatest, name).toBeCloseTo(0.125, 5);
      }
    },
  );

  it('finds no difference between a checkpoint and itself, nor to its values', async () => {
    expect(await json('diff', FP8, FP8, '--values')).toMatchObject({ same: true, unchanged: 9 });
    const copy = temporaryPath('copy');
    cpSync(FP8, copy, { recursive: true });
    expect(await json('diff', FP8, copy, '--values')).toMatchObject({ same: true });
    const { changed } = await json('diff', FP8, await plainFile('fp8-block-ragged', 1), '--values');
    for (const { changed: what, values: found } of changed) {
      expect([what, found.differing]).toEqual(['dtype', 0]);
    }
  });

  it('compares what is stored with --raw', async () => {
    const path = await plainFile('fp8-block-ragged', 1);
    const { removed } = await json('diff', FP8, path, '--values', '--raw');
    expect(removed).toContain(`${NAME}_scale_inv`);
  });

  it('--base compares changes of dequantized weights, whichever source is quantized', async () => {
    const paths = [];
    for (const factor of [0.5, 2]) {
      paths.push(await plainFile('fp8-block-ragged', factor, `times-${factor}.safetensors`));
    }
    const [half, double] = paths as [string, string];
    for (const [a, b, base, cosine] of [
      [half, double, FP8, -1],
      [FP8, double, half, 1],
      [half, FP8, double, 1],
    ] as const) {
      const found = await json('diff', a, b, '--base', base, '--values');
      const own = found.changed.find(({ name }: { name: string }) => name === NAME);
      expect([own.cosineOfChanges, found.cosineOfChanges]).toEqual([
        expect.closeTo(cosine, 12),
        expect.closeTo(cosine, 12),
      ]);
    }
    const raw = await json('diff', half, double, '--base', FP8, '--values', '--raw');
    const codes = raw.changed.find(({ name }: { name: string }) => name === NAME);
    // Codes are large: since these, both changes have nearly the same direction.
    expect(codes.cosineOfChanges).toBeGreaterThan(0.9);
  });

  it('gives the reason for a weight that cannot be dequantized', async () => {
    const bad = fixture('bad-missing-scale');
    const { code, stderr } = await call(['diff', bad, FP8, '--values']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('without a scale')]);
  });
});

const COMFY = join(root, 'test/fixtures/quantized-comfy');
const comfyIds = readdirSync(COMFY).filter((id) => /^(?:comfy|kohya)-/.test(id));

/** The schemes of the fixtures that have other ones than FP8. */
const SCHEMES: Readonly<Record<string, string>> = {
  'comfy-awq-w4a16': '2 weights awq_w4a16',
  'comfy-convrot-w4a4': '3 weights convrot_w4a4',
  'comfy-experts-nvfp4': '1 weights NVFP4',
  'comfy-int8-convrot': '3 weights rotated INT8',
  'comfy-int8-tensorwise': '2 weights INT8',
  'comfy-mxfp8-tiled': '2 weights MXFP8',
  'comfy-nvfp4-padded': '1 weights NVFP4',
  'comfy-nvfp4-tiled': '2 weights NVFP4',
  'comfy-w4a8-codebook': '2 weights asym_w4a8_int8',
};

describe.each(comfyIds)('%s', (id) => {
  const folder = join(COMFY, id);
  const { logical, tolerance } = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
  const names = Object.keys(logical);

  it('has its scheme, its values, and no label after a conversion', async () => {
    const inspected = await json('inspect', folder);
    expect(inspected.logical.problems).toEqual({});
    const counts = new Map<string, number>();
    for (const { scheme, weights } of inspected.logical.quantized) {
      counts.set(scheme, (counts.get(scheme) ?? 0) + weights);
    }
    expect([...counts.values()].reduce((sum, count) => sum + count)).toBe(names.length);
    const { stdout } = await call(['inspect', folder]);
    const [count = '', , ...scheme] = (SCHEMES[id] ?? `${names.length} weights FP8`).split(' ');
    expect(Math.max(...counts.values())).toBe(Number(count));
    expect(stdout).toContain(scheme.join(' '));

    const model = join(folder, 'model.safetensors');
    const [expected, target] = [
      join(folder, 'expected.safetensors'),
      temporaryPath('plain.safetensors'),
    ];
    const different = await json('diff', '--values', expected, model);
    expect([different.added, different.removed]).toEqual([[], []]);
    const isExact = !tolerance.startsWith('abs');
    expect(different.same).toBe(isExact || different.changed.length === 0);
    for (const { name, values } of different.changed) {
      expect(names).toContain(name);
      expect(values.relative).toBeLessThan(2 ** -20);
    }
    for (const name of names) {
      const shown = await json('show', model, name, '--stats');
      expect([shown.dtype, shown.shape]).toEqual(['F32', logical[name].shape]);
    }
    expect((await call(['convert', '--dequantize', 'F32', model, target])).code).toBe(0);
    const { same, changed, unchanged } = await json('diff', '--values', model, target);
    expect([same, changed]).toEqual([true, []]);
    expect((await json('inspect', target)).logical).toBe(null);
    expect(unchanged).toBe(safeOpen(target).size);
  });
});
