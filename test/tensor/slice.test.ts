import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { elementCountOf } from '../../src/header/tensor-spec.js';
import { gather } from '../../src/tensor/gather.js';
import { parseIndices, parseSlice, planSlice, type SliceIndex } from '../../src/tensor/slice.js';
import { naivePositions, shapeAndIndex } from './slice-oracle.js';

interface NumpyCase {
  readonly shape: number[];
  readonly index: SliceIndex[];
  readonly text: string;
  readonly message?: string;
  readonly result?: { readonly shape: number[]; readonly values: number[] };
}

const fixture = fileURLToPath(new URL('../fixtures/numpy-slices.json', import.meta.url));
const cases: NumpyCase[] = JSON.parse(readFileSync(fixture, 'utf8')).cases;
const python = process.env['SAFETENSORS_PYTHON'];

const CODES_OF_NUMPY_MESSAGES: readonly (readonly [RegExp, string])[] = [
  [/out of bounds/, 'SAFETENSORS_SLICE_OUT_OF_RANGE'],
  [/too many indices/, 'SAFETENSORS_TOO_MANY_INDICES'],
  [/step cannot be zero|single ellipsis/, 'ERR_OUT_OF_RANGE'],
];

/** The source elements that a plan selects, in order, by gathering their numbers. */
function selected(shape: readonly number[], index: readonly SliceIndex[]): Uint32Array {
  const source = Uint32Array.from({ length: elementCountOf(shape) }, (_, i) => i);
  const plan = planSlice(shape, index, 32);
  const result = new Uint32Array(plan.elementCount);
  gather(plan, new Uint8Array(source.buffer), 0, new Uint8Array(result.buffer));
  return result;
}

function codeOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
  return undefined;
}

function notationOf(item: SliceIndex): string {
  if (item === null) return ':';
  if (!Array.isArray(item)) return String(item);
  return item.map((part) => part ?? '').join(':');
}

describe('numpy', () => {
  it('has results and errors among the cases', () => {
    expect(cases.filter(({ result }) => result !== undefined).length).toBeGreaterThan(500);
    expect(cases.filter(({ message }) => message !== undefined).length).toBeGreaterThan(10);
  });

  it.each(cases)(
    'gives the same for [$text] of shape $shape',
    ({ shape, index, message, result }) => {
      if (result === undefined) {
        const code = CODES_OF_NUMPY_MESSAGES.find(([pattern]) => pattern.test(message ?? ''))?.[1];
        expect(code).toBeDefined();
        expect(codeOf(() => planSlice(shape, index, 32))).toBe(code);
      } else {
        expect(planSlice(shape, index, 32).shape).toEqual(result.shape);
        expect([...selected(shape, index)]).toEqual(result.values);
      }
    },
  );

  it.skipIf(python === undefined)(
    'still agrees with the cases (skipped unless SAFETENSORS_PYTHON names a python with numpy)',
    () => {
      const script = fileURLToPath(
        new URL('../../scripts/fixtures/numpy_slices.py', import.meta.url),
      );
      const output = execFileSync(python as string, [script, '--check', fixture], {
        encoding: 'utf8',
      });
      expect(output).toMatch(`${cases.length} cases equal`);
    },
  );
});

describe('planSlice', () => {
  it('selects what a loop over all positions selects, in any rank up to 5', () => {
    fc.assert(
      fc.property(shapeAndIndex(5), ([shape, index]) => {
        const positions = naivePositions(shape, index);
        const plan = planSlice(shape, index, 32);
        expect(plan.elementCount).toBe(positions.length);
        expect(elementCountOf(plan.shape)).toBe(positions.length);
        expect([...selected(shape, index)]).toEqual(positions);
      }),
      { numRuns: 2000 },
    );
  });

  it('calls exactly those results contiguous whose elements follow each other', () => {
    fc.assert(
      fc.property(shapeAndIndex(5), ([shape, index]) => {
        const positions = naivePositions(shape, index);
        const first = positions[0] ?? 0;
        const plan = planSlice(shape, index, 16);
        expect(plan.contiguous).toBe(positions.every((position, i) => position === first + i));
        expect(plan.contiguous).toBe(plan.loops.length === 0);
        if (plan.contiguous) expect(plan.byteOffset).toBe(first * 2);
      }),
      { numRuns: 2000 },
    );
  });

  it.each<[SliceIndex[], boolean]>([
    [[], true],
    [[1], true],
    [[[1, 3]], true],
    [[0, 0, 0], true],
    [[1, [1, 3]], true],
    [
      [
        [2, 3, -7],
        [0, 1, 5],
      ],
      true,
    ],
    [[[0, 0], null, [null, null, 2]], true],
    [[null, 0], false],
    [[[null, null, -1]], false],
    [['...', [0, 3]], false],
    [[[null, null, 2]], false],
  ])('%j of shape [4, 3, 5]: contiguous is %s', (index, contiguous) => {
    expect(planSlice([4, 3, 5], index, 8).contiguous).toBe(contiguous);
  });

  it('copies the largest runs there are', () => {
    const { runByteLength, loops, byteOffset } = planSlice([8, 4, 6, 2], [null, [1, 3]], 32);
    expect(runByteLength).toBe(2 * 6 * 2 * 4);
    expect(loops).toEqual([{ count: 8, from: 4 * 6 * 2 * 4, to: 2 * 6 * 2 * 4 }]);
    expect(byteOffset).toBe(6 * 2 * 4);
  });

  it('works at rank 1000 and on dimensions near 2^53', () => {
    const shape = new Array<number>(1000).fill(1);
    shape[0] = 2;
    shape[999] = 3;
    expect([...selected(shape, ['...', [null, null, -2]])]).toEqual([2, 0, 5, 3]);
    expect(planSlice(shape, new Array(1000).fill(0), 32).shape).toEqual([]);

    const vast = [0, ...new Array<number>(999).fill(Number.MAX_SAFE_INTEGER)];
    const plan = planSlice(vast, ['...', [null, null, -2], -1], 64);
    expect(plan).toMatchObject({ elementCount: 0, byteLength: 0, byteOffset: 0, contiguous: true });
    expect(plan.shape.at(-1)).toBe((Number.MAX_SAFE_INTEGER + 1) / 2);
    expect(planSlice(vast.toReversed(), [], 64)).toMatchObject({ elementCount: 0, byteLength: 0 });
    expect(planSlice([2 ** 53 - 1], [[null, null, 3]], 8).shape).toEqual([3002399751580331]);
    expect(planSlice([2 ** 53 - 1], [[null, null, -(2 ** 53) + 2]], 8).shape).toEqual([2]);
  });

  // Neither recursion nor quadratic work: either would end this test by its stack or its time-out.
  it('plans a rank of 200 000', () => {
    const shape = new Array<number>(200_000).fill(1);
    const plan = planSlice(shape, new Array(200_000).fill([null, null, -1]), 8);
    expect(plan).toMatchObject({ elementCount: 1, contiguous: true });
    expect(plan.shape.length).toBe(200_000);
  });

  it.each<[string, unknown[], string]>([
    [
      'TypeError',
      [1.5],
      "index[0] must be an integer, null, '...', [start, stop] or [start, stop, step], or all one text, such as '0:2, -1', but is 1.5",
    ],
    ['TypeError', [0, Number.NaN], 'index[1] must be an integer'],
    ['TypeError', [true], 'index[0] must be an integer'],
    ['TypeError', [1n], 'index[0] must be an integer'],
    ['TypeError', ['1', 0], 'index[0] must be an integer'],
    ['RangeError', ['a'], "slice must be in numpy's notation"],
    ['TypeError', [undefined], 'index[0] must be an integer'],
    ['TypeError', [{}], 'index[0] must be an integer'],
    ['TypeError', [[]], 'index[0] must be an integer'],
    ['TypeError', [[1]], 'index[0] must be an integer'],
    ['TypeError', [[1, 2, 3, 4]], 'index[0] must be an integer'],
    ['TypeError', [[undefined, 2]], 'start of index[0] must be an integer or null'],
    ['TypeError', [[0, Number.POSITIVE_INFINITY]], 'stop of index[0] must be an integer or null'],
    ['TypeError', [[0, 2, 0.5]], 'step of index[0] must be an integer or null'],
    ['RangeError', [[0, 2, 0]], 'step of index[0] must be different from 0, but is 0'],
    ['RangeError', ['...', '...'], "index[1] must be no second '...'"],
    ['SafetensorsError', [2], 'index[0] is 2, out of range for dimension 0 of size 2'],
    ['SafetensorsError', [0, -4], 'index[1] is -4, out of range for dimension 1 of size 3'],
    ['SafetensorsError', ['...', 3], 'index[1] is 3, out of range for dimension 1 of size 3'],
    ['SafetensorsError', [0, 0, 0], '3 indices for a tensor of 2 dimensions'],
  ])('throws a %s for %o', (name, index, message) => {
    const action = () => planSlice([2, 3], index as SliceIndex[], 8, { tensor: 'a.weight' });
    expect(action).toThrow(message);
    expect(action).toThrow(expect.objectContaining({ name }));
    if (name === 'SafetensorsError') expect(action).toThrow('tensor "a.weight": ');
  });

  it('shows that a dimension is empty', () => {
    expect(() => planSlice([0], [0], 8)).toThrow(
      'index[0] is 0, out of range for dimension 0 of size 0',
    );
  });
});

describe('sub-byte dtypes', () => {
  /** Lengths and starts of the longest runs of neighbours. */
  function runBounds(positions: readonly number[]): number[] {
    return positions.flatMap((position, i) => [
      ...(positions[i - 1] === position - 1 ? [] : [position]),
      ...(positions[i + 1] === position + 1 ? [] : [position + 1]),
    ]);
  }

  function bitsOf(bytes: Uint8Array, position: number, bits: number): number {
    let value = 0;
    for (let bit = 0; bit < bits; bit++) {
      const at = position * bits + bit;
      value |= (((bytes[at >> 3] as number) >> (at & 7)) & 1) << bit;
    }
    return value;
  }

  it.each([
    [4, 2],
    [6, 4],
  ])('of %i bits are sliced exactly where every run is made of whole bytes', (bits, group) => {
    let allowed = 0;
    fc.assert(
      fc.property(shapeAndIndex(4, [0, 1, 2, 3, 4, 8, 12]), ([shape, index]) => {
        fc.pre((elementCountOf(shape) * bits) % 8 === 0);
        const positions = naivePositions(shape, index);
        const whole = runBounds(positions).every((bound) => bound % group === 0);
        if (!whole) {
          const code = codeOf(() => planSlice(shape, index, bits));
          expect(code).toBe('SAFETENSORS_MISALIGNED_SLICE');
          return;
        }
        allowed++;
        const source = Uint8Array.from(
          { length: (elementCountOf(shape) * bits) / 8 },
          (_, i) => (i * 151 + 7) & 255,
        );
        const plan = planSlice(shape, index, bits);
        const result = new Uint8Array(plan.byteLength);
        gather(plan, source, 0, result);
        expect(result.length * 8).toBe(positions.length * bits);
        expect(positions.map((_, i) => bitsOf(result, i, bits))).toEqual(
          positions.map((position) => bitsOf(source, position, bits)),
        );
      }),
      { numRuns: 3000 },
    );
    expect(allowed).toBeGreaterThan(300);
  });

  it('says what is allowed', () => {
    expect(() => planSlice([4, 4], [0, 1], 4, { tensor: 't' })).toThrow(
      'tensor "t": elements of 4 bits can only be sliced on whole bytes: runs must start at a ' +
        'multiple of 2 elements and be a multiple of 2 long',
    );
    expect(() => planSlice([4, 4], [0, 1], 6)).toThrow(
      'runs must start at a multiple of 4 elements and be a multiple of 4 long',
    );
  });
});

it('two numbers too many point to a range', () => {
  expect(() => planSlice([8], [2, 4], 8)).toThrow(
    '2 indices for a tensor of 1 dimensions; a range is one index: [2, 4]',
  );
  expect(() => planSlice([8], [2, 4, 6], 8)).toThrow(/of 1 dimensions$/);
  expect(() => planSlice([8], [4, 4], 8)).toThrow(/of 1 dimensions$/);
  expect(() => planSlice([8], [4, 0], 8)).toThrow(/of 1 dimensions$/);
  expect(() => planSlice([8, 4], [2, 4], 8)).toThrow(
    /^index\[1\] is 4, .* of size 4; a range is one index: \[2, 4\]$/,
  );
  expect(() => planSlice([8, 4], [9, 1], 8)).toThrow(/^index\[0\] is 9, .* of size 8$/);
});

describe('parseIndices', () => {
  it.each(['0:\u00a02', '\ufeff0', '0\v', '\u20031'])('takes no blanks but ASCII: %j', (text) => {
    expect(() => parseIndices(text)).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }));
  });

  it('names the part that it cannot read', () => {
    expect(() => parseIndices('0:2, 1:a')).toThrow('but is "a" in "0:2, 1:a"');
    expect(() => parseIndices('1, 0:1:2:3')).toThrow('but is "0:1:2:3" in "1, 0:1:2:3"');
  });

  it.each<[string, SliceIndex[]]>([
    ['', []],
    ['  ', []],
    [
      '0:10, ::2',
      [
        [0, 10],
        [null, null, 2],
      ],
    ],
    ['...', ['...']],
    ['-1', [-1]],
    ['-1,', [-1]],
    ['+3', [3]],
    ['007', [7]],
    [':, ::, : :', [null, null, null]],
    [
      ':5, 5:, 5::',
      [
        [null, 5],
        [5, null],
        [5, null],
      ],
    ],
    ['1 : 9 : -3', [[1, 9, -3]]],
    [' ... , 0 ', ['...', 0]],
    ['99999999999999999999:', [[1e20, null]]],
  ])('reads %j', (text, index) => {
    expect(parseIndices(text)).toEqual(index);
  });

  it('reads -0 as 0', () => {
    expect(Object.is(parseIndices('-0')[0], 0)).toBe(true);
  });

  it.each([
    ',',
    ',1',
    '1,,2',
    'a',
    '1.5',
    '1e3',
    '0x10',
    '1_0',
    '1:2:3:4',
    '..',
    '....',
    '. . .',
    'None',
    '[1]',
    '(1)',
    '1 2',
    '- 1',
    '--1',
    '1:a',
    '...:1',
    '١',
    '1;2',
  ])('refuses %j', (text) => {
    expect(() => parseIndices(text)).toThrow(
      expect.objectContaining({ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' }),
    );
  });

  it('shows the notation', () => {
    expect(() => parseIndices('0;1')).toThrow(
      /^slice must be in numpy's notation, such as '0:10, ::2, \.\.\., -1', but is "0;1"$/,
    );
  });

  it('means what Python means by the same text', () => {
    for (const { shape, index, text, result } of cases) {
      if (result === undefined) continue;
      expect(planSlice(shape, [text], 8)).toEqual(planSlice(shape, index, 8));
    }
  });

  it('reads back every index', () => {
    const bound = fc.option(fc.integer());
    const item: fc.Arbitrary<SliceIndex> = fc.oneof(
      fc.integer(),
      fc.constant(null),
      fc.constant('...' as const),
      fc.tuple(bound, bound).filter(([start, stop]) => start !== null || stop !== null),
      fc.tuple(bound, bound, fc.integer()),
    );
    fc.assert(
      fc.property(fc.array(item), fc.constantFrom(',', ', ', ' ,\t'), (index, comma) => {
        expect(parseIndices(index.map(notationOf).join(comma))).toEqual(index);
      }),
    );
  });
});

describe('parseSlice', () => {
  it('returns what a slice takes from each dimension', () => {
    expect(parseSlice('-1, ..., 8:0:-3', [4, 2, 10])).toEqual([
      { start: 3, step: 1, count: 1, kept: false },
      { start: 0, step: 1, count: 2, kept: true },
      { start: 8, step: -3, count: 3, kept: true },
    ]);
    expect(parseSlice('', [])).toEqual([]);
  });

  it.each(['3:1', '9:', ':-9', '-9::-1', '1:1'])('takes nothing at 0: %s', (text) => {
    expect(parseSlice(text, [3])).toEqual([{ start: 0, step: 1, count: 0, kept: true }]);
  });

  it('takes the elements that planSlice takes', () => {
    for (const { shape, text, result } of cases) {
      if (result === undefined) continue;
      const axes = parseSlice(text, shape);
      expect(axes.filter(({ kept }) => kept).map(({ count }) => count)).toEqual(result.shape);
      const ranges = axes.map(({ start, step, count, kept }): SliceIndex => {
        const stop = start + step * count;
        return kept ? [start, stop < 0 ? null : stop, step] : start;
      });
      expect([...selected(shape, ranges)]).toEqual(result.values);
    }
  });

  it.each([
    [1, [3], 'text must be a string'],
    [[0], [3], 'text must be a string'],
    ['0', 3, 'shape must be an array of integers from 0, but is 3'],
    ['0', [-1], 'shape must be'],
    ['0', [1.5], 'shape must be'],
    ['0', ['3'], 'shape must be'],
  ])('rejects the arguments %j, %j', (text, shape, message) => {
    const action = () => parseSlice(text as never, shape as never);
    expect(action).toThrow(message);
    expect(action).toThrow(
      expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' }),
    );
  });
});
