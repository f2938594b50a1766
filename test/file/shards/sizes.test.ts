import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseByteSize } from '../../../src/file/shards/sizes.js';
import { findPython, isSkipped, titleWith } from '../../support/python.js';
import { askHub, shardingCases } from './sharding-cases.js';

const python = findPython('huggingface_hub');

const REFUSAL = expect.objectContaining({ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' });

/** Texts that Python refuses and that mean a size here: separate units names. */
const MORE_UNITS = new Map([
  ['5B', 5],
  ['5KiB', 5 * 2 ** 10],
  ['5GiB', 5 * 2 ** 30],
]);

const UNIT_OF_OURS = /([^kmgt]b|[kmgt])\W*$/i;

/** Texts that Python accepts but nobody means: zero, negative sizes, digits of other scripts. */
const UNSUPPORTED = ['0KB', '-5KB', '\uff15KB'];

describe('parseByteSize', () => {
  it.each(shardingCases.parse_size)('$input: as huggingface_hub, or as it should', (item) => {
    const { input, expected } = item;
    const more = MORE_UNITS.get(input);
    if (more !== undefined) {
      expect(expected).toBeUndefined();
      expect(parseByteSize(input, 'size')).toBe(more);
    } else if (expected === undefined || UNSUPPORTED.includes(input)) {
      expect(() => parseByteSize(input, 'size')).toThrow(REFUSAL);
    } else {
      const number = typeof expected === 'number' ? expected : Number(expected.bigint);
      expect(parseByteSize(input, 'size')).toBe(number);
    }
  });

  it.each([
    ['1kib', 1024],
    ['20M', 20e6],
    ['1.5 g', 1.5e9],
    ['7k', 7000],
    ['2T', 2e12],
    ['1.5MiB', 1.5 * 2 ** 20],
    ['2 TiB', 2 * 2 ** 40],
    [' 7 b ', 7],
    ['1e3B', 1000],
    ['1.9B', 1],
    ['0.4B', 0],
    ['\x1c5KB\x1f', 5000],
    ['5\x1fKB', 5000],
    ['1_0.0_1e1_0KB', 10.01e13],
  ])('%j is %d', (text, size) => {
    expect(parseByteSize(text, 'size')).toBe(size);
  });

  it.each([
    '5',
    'B',
    'M',
    '0K',
    '5MM',
    '5 bytes',
    '1__0KB',
    '_1KB',
    '1_KB',
    '.KB',
    '1e KB',
    '1eKB',
    '0.0KB',
    '+0MB',
    '-0KB',
    '5KB\u00a0',
    '٣GB',
    '5\u212aB',
    '5 K iB',
    '5EB',
    'Infinity KB',
    '1e308TB',
    '0b1KB',
  ])('refuses %j', (text) => {
    expect(() => parseByteSize(text, 'size')).toThrow(REFUSAL);
  });

  it('takes numbers from 0 on, without parts of a byte', () => {
    const numbers = [0, 1, 1.5, 2 ** 53, Number.POSITIVE_INFINITY];
    expect(numbers.map((number) => parseByteSize(number, 'size'))).toEqual([
      0,
      1,
      1,
      2 ** 53,
      Number.POSITIVE_INFINITY,
    ]);
    for (const number of [-1, -0.5, Number.NEGATIVE_INFINITY, Number.NaN]) {
      expect(() => parseByteSize(number, 'size')).toThrow(REFUSAL);
    }
  });

  it('shows what it was given and what it takes', () => {
    expect(() => parseByteSize('5PB', 'maxShardSize')).toThrow(
      "maxShardSize must be a number of bytes from 0, or a text such as '5GB' with a number above 0 " +
        'and one of the units B, K, M, G, T, KB, MB, GB, TB, KiB, MiB, GiB, TiB, but is "5PB"',
    );
    expect(() => parseByteSize(5n as unknown as number, 'maxShardSize')).toThrow(
      expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' }),
    );
  });

  it('spends no time on long texts', () => {
    const long = 30_000_000;
    for (const text of ['1'.repeat(long), `${' '.repeat(long)}5KB`, `${'1_'.repeat(long)}KB`]) {
      expect(() => parseByteSize(text, 'size')).toThrow(REFUSAL);
    }
    for (const part of ['1', '1_', '1e', '.', ' ', '1.', 'k']) {
      expect(() => parseByteSize(`${part.repeat(400)}x`, 'size')).toThrow(REFUSAL);
    }
    expect(parseByteSize(`${'0'.repeat(900)}5KB`, 'size')).toBe(5000);
  });

  it.skipIf(isSkipped(python))(titleWith(python, 'agrees with Python on random texts'), () => {
    const digits = fc.stringMatching(/^[0-9]{1,5}(_[0-9]{1,3})?$/);
    const number = fc
      .tuple(
        fc.constantFrom('', '', '+', '-'),
        fc.oneof(digits, fc.constantFrom('', '0')),
        fc.oneof(
          fc.constant(''),
          digits.map((text) => `.${text}`),
          fc.constant('.'),
        ),
        fc.constantFrom('', '', 'e1', 'E-3', 'e+2', 'e', 'e400', 'e-400'),
      )
      .map((parts) => parts.join(''));
    const blank = fc.constantFrom('', '', ' ', '\t', '\n ', '\x1e');
    const unit = fc.constantFrom('KB', 'kB', 'mb', 'GB', 'Tb', 'PB', 'K', 'G B', '');
    const text = fc
      .tuple(blank, fc.oneof(number, fc.string({ unit: 'binary-ascii' })), blank, unit, blank)
      .map((parts) => parts.join(''));
    const texts = fc.sample(text, 3_000);
    const answers = askHub<number>(python, 'sizes', texts);
    let agreed = 0;
    texts.forEach((input, i) => {
      const size = answers[i]?.result;
      if (size !== undefined && size > 0) {
        expect(parseByteSize(input, 'size'), JSON.stringify(input)).toBe(size);
        agreed++;
      } else if (size === undefined && !UNIT_OF_OURS.test(input)) {
        expect(() => parseByteSize(input, 'size'), JSON.stringify(input)).toThrow(REFUSAL);
      }
    });
    expect(agreed).toBeGreaterThan(100);
  });
});
