import { describe, expect, it } from 'vitest';
import { type Dtype, fromFloat32 } from '../../support/api.js';
import { type Entry, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { writeTensors } from '../../support/write-tensors.js';
import { call, golden, printed } from '../call.js';
import { UNSAFE_OUTPUT } from '../hostile.js';

function floats(...values: readonly number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer);
}

const MIXED: readonly Entry[] = [
  { name: 'w', dtype: 'F32', shape: [2, 3], bytes: floats(1, 2.5, 3, Number.NaN, -Infinity, 0) },
  {
    name: 'count',
    dtype: 'I64',
    shape: [3],
    bytes: new Uint8Array(BigInt64Array.of(1n, -5n, 7n).buffer),
  },
  { name: 'mask', dtype: 'BOOL', shape: [2], bytes: Uint8Array.of(1, 0) },
  { name: 'scale', dtype: 'F32', shape: [], bytes: floats(0.1) },
  { name: 'nothing', dtype: 'F32', shape: [2, 0] },
  { name: 'nan', dtype: 'F32', shape: [1], bytes: floats(Number.NaN) },
  { name: 'packed', dtype: 'F4', shape: [40, 40] },
  { name: 'c', dtype: 'C64', shape: [1], bytes: floats(1, -2) },
  { name: 'deep', dtype: 'U8', shape: Array(100_000).fill(1) },
  { name: 'i', dtype: 'C64', shape: [], bytes: floats(0, 1.5) },
];

async function shown(...args: readonly string[]): Promise<string> {
  const path = writeTemporary(MIXED);
  return await printed(['show', path, ...args], { columns: 80 });
}

describe('show', () => {
  it.each([
    [['w'], 'w  F32  [2, 3]  24 B\n[[ 1.   2.5  3. ]\n [ nan -inf  0. ]]\n'],
    [['count'], 'count  I64  [3]  24 B\n[ 1 -5  7]\n'],
    [['mask'], 'mask  BOOL  [2]  2 B\n[ True False]\n'],
    [['scale'], 'scale  F32  []  4 B\n0.1\n'],
    [['nothing'], 'nothing  F32  [2, 0]  0 B\n[]\n'],
    [['c'], 'c  C64  [1]  8 B\n[1.-2.j]\n'],
    [['c', '--slice', '0'], 'c  C64  []  8 B\n(1-2j)\n'],
    [['i'], 'i  C64  []  8 B\n1.5j\n'],
    [['w', '--slice', '-1, ::2'], 'w  F32  [2]  8 B\n[nan  0.]\n'],
    [['packed', '--slice', '0, :4'], 'packed  F4  [4]  2 B\n[0.5 0.  1.  0. ]\n'],
  ])('%j prints what numpy prints', async (args, text) => {
    expect(await shown(...args)).toBe(text);
  });

  it('prints statistics and a histogram', async () => {
    await expect(await shown('w', '--stats', '--histogram')).toMatchFileSnapshot(golden('show'));
    const path = writeTemporary(MIXED);
    const args = ['show', path, 'w', '--stats', '--histogram', '--json'];
    const result = JSON.parse(await printed(args));
    expect(result).toMatchObject({ source: path, name: 'w', dtype: 'F32', byteLength: 24 });
    expect(result.stats).toEqual({
      ...{ elements: 6, min: 0, max: 3, mean: 1.625, std: Math.sqrt(1.421875) },
      ...{ nan: 1, infinite: 1, zero: 1, subnormal: 0 },
    });
    expect(result.histogram.counts).toHaveLength(20);
    expect(result.histogram.counts.reduce((a: number, b: number) => a + b)).toBe(4);
  });

  it('prints one range when all values are the same', async () => {
    expect((await shown('mask', '--slice', '0', '--histogram')).split('\n').slice(3)).toEqual([
      `1  ${'█'.repeat(40)}  1`,
      '',
    ]);
  });

  it('has statistics of what has no numbers', async () => {
    const path = writeTemporary(MIXED);
    for (const name of ['nothing', 'nan']) {
      const args = ['show', path, name, '--stats', '--histogram', '--json'];
      expect(JSON.parse(await printed(args))).toMatchObject({
        stats: { min: null, max: null, mean: null, std: null },
        histogram: null,
      });
    }
  });

  it('shows the edges of a large tensor, and reads no more', async () => {
    const path = temporaryPath('large.safetensors');
    const data = Uint32Array.from({ length: 60 * 70 }, (_, i) => i);
    writeTensors(path, { t: { dtype: 'U32', shape: [60, 70], data } });
    const text = await printed(['show', path, 't'], { columns: 80 });
    await expect(text).toMatchFileSnapshot(golden('show-large'));
    const { stats } = JSON.parse(await printed(['show', path, 't', '--stats', '--json']));
    expect(stats).toMatchObject({ min: 0, max: 4199, mean: 2099.5, zero: 1 });
  });

  it('says what it cannot do', async () => {
    const path = writeTemporary(MIXED);
    for (const [args, code, message] of [
      [['x'], 1, 'SAFETENSORS_TENSOR_NOT_FOUND'],
      [['w', '--slice', '5'], 1, 'SAFETENSORS_SLICE_OUT_OF_RANGE'],
      [['w', '--slice', 'a'], 2, 'ERR_OUT_OF_RANGE'],
      [['packed'], 2, 'pass a --slice'],
      [['deep'], 2, 'found 100,000 dimensions: pass a --slice'],
      [['c', '--stats'], 2, 'C64 has no order'],
    ] as const) {
      const called = await call(['show', path, ...args]);
      expect([called.code, called.stdout]).toEqual([code, '']);
      expect(called.stderr).toContain(message);
    }
  });

  it('shows a hostile name harmlessly', async () => {
    const name = 'w\x1b[2J\u202e';
    const path = writeTemporary([{ name, dtype: 'U8', shape: [1] }]);
    for (const options of [[], ['--json'], ['--stats', '--histogram']]) {
      const text = await printed(['show', path, name, ...options]);
      expect(UNSAFE_OUTPUT.exec(text)).toBeNull();
    }
  });

  it('shows small floats as the float32 that they become', async () => {
    const path = temporaryPath('bf16.safetensors');
    const data = fromFloat32(Float32Array.of(0.1, 1, 100), 'BF16');
    writeTensors(path, { t: { dtype: 'BF16', shape: [3], data } });
    expect(await printed(['show', path, 't'])).toContain(
      '\n[  0.10009766   1.         100.        ]\n',
    );
  });
});

/** An array of NumPy: its bytes in base64, and the result of `str`. */
interface NumpyCase {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: string;
  readonly text: string;
}

const MAKE_CASES = `
import base64, json, sys
import numpy as np
rng = np.random.default_rng(int(sys.argv[1]))
names = {'float32': 'F32', 'float64': 'F64', 'float16': 'F16', 'complex64': 'C64', 'int64': 'I64', 'uint8': 'U8', 'bool': 'BOOL'}
cases = []
def add(a):
    a = np.asarray(a)
    cases.append({'dtype': names[str(a.dtype)], 'shape': list(a.shape), 'text': str(a),
                  'bytes': base64.b64encode(a.tobytes()).decode()})
for _ in range(int(sys.argv[2])):
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(0, 4)))
    shape = [shape, (int(rng.integers(1001, 1100)),), (30, 65), (12, 11, 10)][rng.choice(4, p=[.85, .05, .05, .05])]
    n = int(np.prod(shape))
    v = rng.standard_normal(n)
    kind = rng.integers(0, 5)
    if kind == 1: v = v * 10.0 ** rng.integers(-12, 12)
    if kind == 2: v = np.round(v * 4) / 4
    if kind == 3: v = np.round(v * 100)
    if kind == 4: v = v * 10.0 ** rng.integers(-6, 6, n)
    if rng.random() < .3: v[rng.random(n) < .2] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
    with np.errstate(all='ignore'):
        add(v.astype(rng.choice(['float32', 'float64', 'float16'])).reshape(shape))
        add(np.nan_to_num(v * 10).astype(rng.choice(['int64', 'uint8', 'bool'])).reshape(shape))
        add((v + 1j * np.round(v[::-1] * 3) / 4).astype('complex64').reshape(shape))
json.dump(cases, sys.stdout)
`;

const ROUNDS = nightly(300, 100);

const python = findPython('numpy');

describe.skipIf(isSkipped(python))(titleWith(python, 'show, beside numpy'), () => {
  it.each([1, 2])('prints the same of random arrays, seed %i', async (seed) => {
    const stdout = runPython(python, ['-c', MAKE_CASES, String(seed), String(ROUNDS)]);
    const cases = JSON.parse(stdout) as readonly NumpyCase[];
    expect(cases.length).toBe(3 * ROUNDS);
    // In files of a few tensors: every call reads a header.
    for (let begin = 0; begin < cases.length; begin += 30) {
      const some = cases.slice(begin, begin + 30);
      const path = temporaryPath('arrays.safetensors');
      const tensors = some.map(({ dtype, shape, bytes }, i) => {
        const data = Uint8Array.from(Buffer.from(bytes, 'base64'));
        return [String(i), { dtype, shape, data }] as const;
      });
      writeTensors(path, new Map(tensors));
      for (const [i, { text, dtype }] of some.entries()) {
        const result = JSON.parse(await printed(['show', path, String(i), '--json']));
        expect(result.text, `case ${begin + i}, ${dtype}`).toBe(text);
      }
    }
  });
});
