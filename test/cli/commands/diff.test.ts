import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fromFloat32, type TensorInput } from '../../support/api.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';
import { MODEL_INDEX } from '../../support/model-index.js';
import { writeTensors } from '../../support/write-tensors.js';
import { call, golden } from '../call.js';
import { HOSTILE_ENTRIES, UNSAFE_OUTPUT } from '../hostile.js';

type Tensors = Readonly<Record<string, TensorInput>>;

function write(name: string, tensors: Tensors): string {
  const path = temporaryPath(name);
  writeTensors(path, tensors as Parameters<typeof writeTensors>[1]);
  return path;
}

function f32(shape: readonly number[], ...values: readonly number[]): TensorInput {
  return { dtype: 'F32', shape, data: Float32Array.from(values) };
}

function pair(): [a: string, b: string] {
  const same = f32([2], 1, 2);
  const a = write('a.safetensors', {
    same,
    gone: f32([1], 1),
    cast: f32([2], 1, 2.5),
    shape: f32([2, 1], 1, 2),
    values: f32([2, 2], 1, 2, Number.NaN, 4),
    both: f32([2], 1, 2),
  });
  const b = write('b.safetensors', {
    same,
    new: f32([1], 1),
    cast: { dtype: 'BF16', shape: [2], data: fromFloat32(Float32Array.of(1, 2.5), 'BF16') },
    shape: f32([2], 1, 2),
    values: f32([2, 2], 1, 2.5, Number.NaN, -4),
    both: { dtype: 'U8', shape: [3], data: new Uint8Array(3) },
  });
  return [a, b];
}

describe('diff', () => {
  it.each([
    ['diff', []],
    ['diff-values', ['--values']],
    ['diff-quick', ['--quick']],
  ])('prints what %s has', async (name, options) => {
    const { code, stdout, stderr } = await call(['diff', ...pair(), ...options], { columns: 80 });
    expect([code, stderr]).toEqual([1, '']);
    await expect(stdout).toMatchFileSnapshot(golden(name));
  });

  it('is no difference for the same tensors, in whatever files', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const one = writeTemporary(Object.values(TWO_SHARDS.shards).flat());
    expect(await call(['diff', folder, one])).toEqual({
      ...{ code: 0, stdout: 'no difference; 4 tensors\n', stderr: '' },
    });
    // It has not looked at the bytes.
    expect((await call(['diff', folder, one, '--quick'])).stdout).toBe(
      'no difference in names, dtypes and shapes; 4 tensors\n',
    );
  });

  it('has the values in JSON', async () => {
    const [a, b] = pair();
    const { stdout } = await call(['diff', a, b, '--values', '--json']);
    const result = JSON.parse(stdout);
    expect(result).toMatchObject({
      ...{ a, b, same: false, added: ['new'], removed: ['gone'], unchanged: 1 },
    });
    const byName = new Map(result.changed.map((one: { name: string }) => [one.name, one]));
    expect(byName.get('cast')).toEqual({
      ...{ name: 'cast', changed: 'dtype', dtype: ['F32', 'BF16'], shape: [[2], [2]] },
      values: { elements: 2, differing: 0, nonFinite: 0, maxError: 0, relative: 0, cosine: 1 },
    });
    expect(byName.get('values')).toMatchObject({
      changed: 'bytes',
      values: { elements: 4, differing: 2, maxError: 8, cosine: expect.closeTo(-0.45256, 4) },
    });
    expect(byName.get('both')).toMatchObject({ changed: 'dtype and shape' });
    expect(byName.get('both')).not.toHaveProperty('values');
  });

  it('tells large integers apart, and infinity from numbers', async () => {
    const big = (value: bigint): TensorInput => ({
      dtype: 'I64',
      shape: [1],
      data: BigInt64Array.of(value),
    });
    const a = write('a.safetensors', { i: big(2n ** 60n), f: f32([2], Infinity, 0) });
    const b = write('b.safetensors', { i: big(2n ** 60n + 1n), f: f32([2], 1, 0) });
    const { changed } = JSON.parse((await call(['diff', a, b, '--values', '--json'])).stdout);
    expect(changed.map(({ values }: { values: object }) => values)).toEqual(
      expect.arrayContaining([
        { elements: 1, differing: 1, nonFinite: 0, maxError: 0, relative: 0, cosine: 1 },
        {
          elements: 2,
          differing: 1,
          nonFinite: 1,
          maxError: 'Infinity',
          relative: null,
          cosine: null,
        },
      ]),
    );
  });

  it('counts NaN and infinities, of which no other number is', async () => {
    const a = write('a.safetensors', { t: f32([4], 1, 2, 3, 4) });
    const b = write('b.safetensors', { t: f32([4], 1, NaN, 3, 5) });
    const { stdout } = await call(['diff', a, b, '--values']);
    expect(stdout).toMatch(/^t +bytes, 1 NaN or Inf +2 of 4 /m);
  });

  it('compares in windows as it does at once', async () => {
    // More than is read at once.
    const length = 5 * 2 ** 20;
    const [x, y] = [new Float32Array(length), new Float32Array(length)];
    let [differing, squares, products, otherSquares] = [0, 0, 0, 0];
    for (let i = 0; i < length; i++) {
      const value = i % 7;
      const other = value * (i > length / 2 ? 2 : 1);
      x[i] = value;
      y[i] = other;
      if (value !== other) differing++;
      squares += value ** 2;
      otherSquares += other ** 2;
      products += value * other;
    }
    const tensor = (data: Float32Array): TensorInput => {
      return { dtype: 'F32', shape: [length / 4, 4], data };
    };
    const a = write('a.safetensors', { t: tensor(x) });
    const b = write('b.safetensors', { t: tensor(y) });
    const { changed } = JSON.parse((await call(['diff', a, b, '--values', '--json'])).stdout);
    expect(changed[0].values).toEqual({
      ...{ elements: length, differing, nonFinite: 0, maxError: 6 },
      relative: expect.closeTo(Math.sqrt((squares - 2 * products + otherSquares) / squares), 9),
      cosine: expect.closeTo(products / Math.sqrt(squares * otherSquares), 9),
    });
  });

  it('shows hostile names harmlessly', async () => {
    const a = writeTemporary(HOSTILE_ENTRIES);
    const b = write('b.safetensors', { x: f32([1], 1) });
    for (const options of [[], ['--json']]) {
      const { stdout } = await call(['diff', a, b, ...options]);
      expect(UNSAFE_OUTPUT.exec(stdout)).toBeNull();
    }
  });

  it('is wrong use with --quick and --values, and an error for what has no tensors', async () => {
    expect((await call(['diff', ...pair(), '--quick', '--values'])).code).toBe(2);
    const [a] = pair();
    expect((await call(['diff', a, `${a}.missing`])).code).toBe(1);
  });
});

describe('diff of some tensors', () => {
  it('--filter compares only these; none is a failure', async () => {
    const { code, stdout } = await call(['diff', ...pair(), '--filter', 'sa*', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ same: true, unchanged: 1 });
    const all = await call(['diff', ...pair(), '--filter', 'values', '--filter', 'new', '--json']);
    expect(JSON.parse(all.stdout)).toMatchObject({ added: ['new'], changed: [{ name: 'values' }] });
    const none = await call(['diff', ...pair(), '--filter', 'x']);
    expect([none.code, none.stdout]).toEqual([1, 'no name matches --filter x\n']);
  });

  it('--sort relative puts the greatest error first, and needs --values', async () => {
    const a = write('a.safetensors', { x: f32([1], 100), y: f32([1], 1), z: f32([1], 2) });
    const b = write('b.safetensors', { x: f32([1], 101), y: f32([1], 3), z: f32([1], 3) });
    const { stdout } = await call(['diff', a, b, '--values', '--sort', 'relative', '--json']);
    const names = JSON.parse(stdout).changed.map(({ name }: { name: string }) => name);
    expect(names).toEqual(['y', 'z', 'x']);
    expect(await call(['diff', a, b, '--sort', 'relative'])).toMatchObject({ code: 2 });
  });

  it('--tree counts the differences of each layer', async () => {
    const a = write('a.safetensors', {
      'model.layers.0.q': f32([1], 1),
      'model.layers.0.k': f32([1], 1),
      'model.layers.1.q': f32([1], 2),
      'model.layers.10.q': f32([1], 2),
      'model.norm': f32([1], 1),
    });
    const b = write('b.safetensors', {
      'model.layers.0.q': f32([1], 1.5),
      'model.layers.0.k': f32([1], 3),
      'model.layers.1.q': f32([1], 2),
      'model.layers.10.v': f32([1], 2),
      'model.norm': f32([1], 2),
    });
    const { stdout } = await call(['diff', a, b, '--values', '--tree', '--json']);
    const { layers } = JSON.parse(stdout);
    const none = { added: 0, removed: 0, changed: 0 };
    const byName = new Map(layers.map((one: { name: string }) => [one.name, one]));
    expect(byName).toEqual(
      new Map<string, object>([
        ['model.layers.0', { ...none, name: 'model.layers.0', changed: 2, relative: 2 }],
        ['model', { ...none, name: 'model', changed: 1, relative: 1 }],
        ['model.layers.10', { ...none, name: 'model.layers.10', added: 1, removed: 1 }],
      ]),
    );
  });

  it('--base shows which of both changed a tensor, and what they changed alike', async () => {
    const base = write('c.safetensors', {
      ...{ kept: f32([1], 1), a: f32([1], 1), b: f32([1], 1), both: f32([1], 1) },
      ...{ alike: f32([1], 1), gone: f32([1], 1) },
    });
    const a = write('a.safetensors', {
      ...{ kept: f32([1], 1), a: f32([1], 2), b: f32([1], 1), both: f32([1], 2) },
      alike: f32([1], 3),
    });
    const b = write('b.safetensors', {
      ...{ kept: f32([1], 1), a: f32([1], 1), b: f32([1], 1.5), both: f32([1], 4) },
      alike: f32([1], 3),
    });
    const args = ['diff', a, b, '--base', base, '--values'];
    const { code, stdout } = await call([...args, '--json']);
    const found = JSON.parse(stdout);
    expect([code, found.base, found.unchanged]).toEqual([1, base, 2]);
    const from = Object.fromEntries(
      found.changed.map((one: { name: string; fromBase: unknown }) => [one.name, one.fromBase]),
    );
    expect(from).toEqual({
      a: [{ changed: 'bytes', relative: 1 }, null],
      b: [null, { changed: 'bytes', relative: 0.5 }],
      both: [
        { changed: 'bytes', relative: 1 },
        { changed: 'bytes', relative: 3 },
      ],
    });
    expect(found.changedAlike.sort()).toEqual(['alike', 'gone']);
    const text = (await call(args)).stdout;
    expect(text).toContain('A 1, B 3');
    expect(text).toContain('2 changed alike since the base');
  });

  describe('--base with --values compares the directions of the changes', () => {
    const write3 = (name: string, values: readonly number[], more: Tensors): string =>
      write(name, { w: f32([4], ...values), ...more });
    const base = (): string =>
      write3('c.safetensors', [1, 2, 3, 4], {
        ...{ of_a: f32([2], 1, 1), alike: f32([1], 1), odd: f32([1], 1), nan: f32([2], 0, 0) },
      });
    const a = (): string =>
      write3('a.safetensors', [2, 2, 5, 3], {
        ...{ of_a: f32([2], 1, 4), alike: f32([1], 3), odd: f32([1], 2) },
        nan: f32([2], Number.NaN, 2),
      });
    const b = (): string =>
      write3('b.safetensors', [1.5, 3, 4, 4], {
        ...{ of_a: f32([2], 1, 1), alike: f32([1], 3), odd: f32([2], 2, 2) },
        nan: f32([2], 1, -1),
      });

    it('of each tensor, and of all', async () => {
      const args = ['diff', a(), b(), '--base', base(), '--values'];
      const found = JSON.parse((await call([...args, '--json'])).stdout);
      const cosines = Object.fromEntries(
        found.changed.map((one: { name: string; cosineOfChanges?: number | null }) => [
          one.name,
          one.cosineOfChanges,
        ]),
      );
      // Changes (1, 0, 2, -1) and (0.5, 1, 1, 0): 2.5 / (√6 · 1.5).
      expect(cosines).toEqual({
        w: expect.closeTo(2.5 / (Math.sqrt(6) * 1.5), 15),
        of_a: null,
        odd: undefined,
        nan: -1,
      });
      // With (0, 3) and (0, 0), 2 and 2, and of `nan` 2 and -1.
      const [dot, squaresA, squaresB] = [2.5 + 4 - 2, 6 + 9 + 4 + 4, 2.25 + 4 + 1];
      const ofAll = dot / Math.sqrt(squaresA * squaresB);
      expect(found.cosineOfChanges).toBeCloseTo(ofAll, 15);
      const text = (await call(args)).stdout;
      expect(text).toMatch(/^changed +what +from base +change cosine +differing/m);
      expect(text).toMatch(/^w +bytes +A 0\.4472, B 0\.2739 +0\.6804 /m);
      expect(text).toMatch(/^of_a +bytes +A 2\.121 +– /m);
      expect(text).toMatch(/^odd +\[1\] → \[2\] +A 1, B$/m);
      expect(text).toContain(
        `\ncosine of all changes from the base: ${Number(ofAll.toPrecision(4))}\n`,
      );
    });

    it('of the models of a pipeline, each by its folder', async () => {
      const pipeline = (name: string, models: Readonly<Record<string, readonly number[]>>) => {
        const folder = temporaryPath(name);
        writeBelow(folder, 'model_index.json', MODEL_INDEX);
        for (const [model, values] of Object.entries(models)) {
          writeBelow(folder, `${model}/config.json`, '{}');
          const path = join(folder, model, 'diffusion_pytorch_model.safetensors');
          writeTensors(path, { w: f32([2], ...values) } as Parameters<typeof writeTensors>[1]);
        }
        return folder;
      };
      const [from, left, right] = [
        pipeline('c', { text_encoder: [0, 0], unet: [1, 1], vae: [1, 1] }),
        pipeline('a', { text_encoder: [1, 0], unet: [2, 1], vae: [2, 2] }),
        pipeline('b', { text_encoder: [-3, 0], unet: [1, 2] }),
      ];
      const args = ['diff', left, right, '--base', from, '--values', '--json'];
      const { stdout, stderr } = await call(args);
      expect(stderr).toBe('');
      const found = JSON.parse(stdout);
      const cosines = found.changed.map(
        ({ name, cosineOfChanges }: { name: string; cosineOfChanges?: number | null }) => [
          name,
          cosineOfChanges,
        ],
      );
      expect(Object.fromEntries(cosines)).toEqual({ 'text_encoder/w': -1, 'unet/w': 0 });
      // Changes (1, 0, 1, 0) and (-3, 0, 0, 1).
      expect(found.cosineOfChanges).toBeCloseTo(-3 / Math.sqrt(2 * 10), 15);
    });

    it('in a column only where it fits', async () => {
      const args = ['diff', a(), b(), '--base', base(), '--values'];
      const narrow = (await call(args, { columns: 80 })).stdout;
      expect(narrow).not.toContain('change cosine');
      expect(narrow).toContain('\ncosine of all changes from the base: 0.');
      const wide = (await call(args, { columns: 110 })).stdout;
      expect(wide).toContain('change cosine');
      expect(Math.max(...wide.split('\n').map((line) => line.length))).toBeLessThanOrEqual(110);
    });

    it('not without --values', async () => {
      const args = ['diff', a(), b(), '--base', base(), '--json'];
      expect((await call(args)).stdout).not.toContain('cosineOfChanges');
    });

    it('of a base without a change on one side', async () => {
      const args = ['diff', a(), base(), '--base', base(), '--values'];
      expect((await call(args)).stdout).toContain('\ncosine of all changes from the base: –\n');
      const found = JSON.parse((await call([...args, '--json'])).stdout);
      expect(found.cosineOfChanges).toBe(null);
    });
  });

  it('--base needs a tensor name of A or B, whatever the filter', async () => {
    const a = write('a.safetensors', { x: f32([1], 1), y: f32([1], 1) });
    const b = write('b.safetensors', { x: f32([1], 2), y: f32([1], 1) });
    const base = write('c.safetensors', { other: f32([1], 1) });
    const args = ['diff', a, b, '--base', base];
    const problem = `${base}: no tensor in common with A or B; pass the model that both come from as --base`;
    for (const more of [[], ['--values'], ['--quick'], ['--filter', 'x']]) {
      const { code, stdout, stderr } = await call([...args, ...more]);
      expect([code, stdout, stderr]).toEqual([1, '', `safetensors-mmap: ${problem}\n`]);
    }
    const { stderr } = await call([...args, '--json']);
    expect(JSON.parse(stderr)).toEqual({ code: 'UNRELATED_BASE', message: problem });
    // One name of one side is enough, also one that the filter leaves out.
    const near = write('d.safetensors', { y: f32([1], 1) });
    const { code, stdout } = await call(['diff', a, b, '--base', near, '--filter', 'x', '--json']);
    expect([code, JSON.parse(stdout).changed[0].fromBase]).toEqual([
      1,
      [{ changed: 'added' }, { changed: 'added' }],
    ]);
  });

  it('--base is wrong use with --tree', async () => {
    const [a, b] = pair();
    const { code, stderr } = await call(['diff', a, b, '--base', a, '--tree']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--tree cannot be combined with')]);
  });
});
