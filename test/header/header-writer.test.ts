import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  encodeMetadata,
  type HeaderOptions,
  layOut,
  requireDataByteLength,
} from '../../src/header/header-writer.js';
import { type NamedTensorSpec, readSpec } from '../../src/header/tensor-spec.js';
import { anyText } from '../support/any-text.js';
import { type Dtype, InvalidTensorError, parse } from '../support/api.js';
import { thrownBy } from './header-files.js';

const LIMIT = 100_000_000;

function spec(name: string, dtype = 'U8', shape: readonly number[] = [1]): NamedTensorSpec {
  return readSpec(name, { dtype: dtype as Dtype, shape });
}

/** The JSON with its padding. */
function headerOf(specs: readonly NamedTensorSpec[], options?: HeaderOptions): string {
  const { header } = layOut(specs, options);
  const length = Number(new DataView(header.buffer).getBigUint64(0, true));
  expect(length).toBe(header.length - 8);
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(header.subarray(8));
}

describe('layOut', () => {
  test('gives header, places and length', () => {
    const specs = [spec('a', 'U8', [3]), spec('b', 'F64', [2]), spec('z', 'F64', [0])];
    const { header, placed, byteLength } = layOut(specs);
    expect(placed.map(({ spec: { name }, begin, end }) => [name, begin, end])).toEqual([
      ['b', 0, 16],
      ['z', 16, 16],
      ['a', 16, 19],
    ]);
    expect(placed[2]?.spec).toBe(specs[0]);
    expect(byteLength).toBe(header.length + 19);
    expect(headerOf(specs)).toBe(
      '{"b":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},' +
        '"z":{"dtype":"F64","shape":[0],"data_offsets":[16,16]},' +
        '"a":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}}    ',
    );
  });

  test('puts tensors of a dtype into the order of their names, by their bytes', () => {
    for (const names of [
      ['c', 'a', 'b', ''],
      ['\ufb01', '\u{1f600}', 'a'],
    ]) {
      const { placed } = layOut(names.map((name) => spec(name)));
      const expected = names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      expect(placed.map(({ spec: { name } }) => name)).toEqual(expected);
    }
  });

  test('of nothing is an empty object', () => {
    expect(headerOf([])).toBe('{}      ');
    expect(headerOf([], { metadata: new Map() })).toBe('{"__metadata__":{}}     ');
  });

  test('writes a negative zero as zero', () => {
    expect(headerOf([spec('a', 'U8', [-0])])).toContain('"shape":[0],"data_offsets":[0,0]');
  });

  test('does not change what it is given', () => {
    const specs = Object.freeze([spec('b'), spec('a')]);
    layOut(specs);
    expect(specs.map(({ name }) => name)).toEqual(['b', 'a']);
  });

  test('takes sizes up to 2^53 - 1 bytes with the longest header, and no more', () => {
    const largest = Number.MAX_SAFE_INTEGER - 8 - LIMIT;
    const { placed, byteLength, header } = layOut([spec('a', 'U8', [largest])]);
    expect(placed[0]?.end).toBe(largest);
    expect(byteLength).toBe(header.length + largest);
    const error = thrownBy(() => layOut([spec('a', 'U8', [largest]), spec('b', 'U8', [1])]));
    expect(error).toBeInstanceOf(InvalidTensorError);
    expect(error).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'b',
      message: expect.stringContaining(`at most ${largest} bytes of tensor data`),
    });
  });

  test('more tensors than a call has arguments make a header that can be read', () => {
    const names = Array.from({ length: 150_000 }, (_, i) => `t${(i * 7919) % 150_000}`);
    const { header, byteLength } = layOut(names.map((name) => spec(name, 'U8', [0])));
    expect(byteLength).toBe(header.length);
    const file = parse(header);
    expect(file.size).toBe(150_000);
    expect(file.has('t149999')).toBe(true);
  });
});

describe('the padding', () => {
  test.each([
    [undefined, 8],
    [1, 8],
    [2, 8],
    [4, 8],
    [8, 8],
    [64, 64],
    [4096, 4096],
  ])('alignment %s: the data begins at a multiple of %i', (alignment, multiple) => {
    for (let length = 0; length < 70; length++) {
      const { header } = layOut([spec('n'.repeat(length))], { alignment });
      const json = headerOf([spec('n'.repeat(length))], { alignment }).trimEnd();
      expect(header.length % multiple).toBe(0);
      expect(header.length - 8 - json.length).toBeLessThan(multiple);
    }
  });

  test('reserve leaves at least as many bytes', () => {
    for (let reserve = 0; reserve < 70; reserve++) {
      const text = headerOf([spec('a')], { reserve, alignment: 16 });
      const padding = text.length - text.trimEnd().length;
      expect((8 + text.length) % 16).toBe(0);
      expect(padding).toBeGreaterThanOrEqual(reserve);
      expect(padding).toBeLessThan(reserve + 16);
    }
  });

  test.each([0, -8, 3, 12, 1.5, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 27, 2 ** 32 + 8])(
    'alignment %d is refused',
    (alignment) => {
      expect(() => layOut([], { alignment })).toThrow(
        expect.objectContaining({
          code: 'ERR_OUT_OF_RANGE',
          message: expect.stringMatching(/^alignment must be a power of two up to 67108864/),
        }),
      );
    },
  );

  test('the largest alignment works', () => {
    expect(layOut([spec('a')], { alignment: 2 ** 26 }).header.length).toBe(2 ** 26);
  });

  test.each([-1, 1.5, Number.NaN, 2 ** 53])('reserve %d is refused', (reserve) => {
    expect(() => layOut([], { reserve })).toThrow(
      expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }),
    );
  });

  test.each([{ alignment: '8' }, { reserve: '8' }, { reserve: 8n }])(
    'options %o are refused',
    (options) => {
      expect(() => layOut([], options as never)).toThrow(
        expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' }),
      );
    },
  );
});

describe('names', () => {
  test.each([
    ['__metadata__', /stands for the metadata/],
    ['\ud800', /found a lone surrogate/],
    ['a\udc00b', /found a lone surrogate/],
    ['\udc00\ud800', /found a lone surrogate/],
  ])('%j is refused', (name, message) => {
    const error = thrownBy(() => layOut([spec('a'), spec(name)]));
    expect(error).toBeInstanceOf(InvalidTensorError);
    expect(error).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: name,
      message: expect.stringMatching(message),
    });
  });

  test('given twice are refused, also with another dtype', () => {
    expect(thrownBy(() => layOut([spec('a'), spec('b'), spec('a', 'F32')]))).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'a',
      message: 'tensor "a": duplicate tensor name',
    });
  });

  test('are strings', () => {
    expect(() => layOut([spec(3 as never)])).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
    );
  });
});

describe('a header above the limit', () => {
  const tooLarge = { name: 'InvalidTensorError', code: 'SAFETENSORS_HEADER_TOO_LARGE' };

  test('is refused at the first byte too many, the padding included', () => {
    const text = headerOf([spec('')]);
    expect(text.length).toBe(56);
    const free = LIMIT - text.trimEnd().length;
    expect(layOut([spec('')], { reserve: free }).header.length).toBe(LIMIT + 8);
    expect(() => layOut([spec('')], { reserve: free + 1 })).toThrow(
      expect.objectContaining(tooLarge),
    );
    expect(() => layOut([], { reserve: Number.MAX_SAFE_INTEGER })).toThrow(
      expect.objectContaining(tooLarge),
    );
  });

  test.each([
    ['a long name', () => layOut([spec('x'.repeat(LIMIT))])],
    ['names of two bytes each', () => layOut([spec('é'.repeat(LIMIT / 2))])],
    ['a long value', () => layOut([], { metadata: { key: 'x'.repeat(LIMIT) } })],
    ['a long key', () => layOut([], { metadata: { ['x'.repeat(LIMIT)]: '' } })],
  ])('%s', (_, action) => {
    expect(action).toThrow(expect.objectContaining(tooLarge));
  });

  test('names and shapes are counted before they are compared and written', () => {
    let taken = 0;
    const long = 'x'.repeat(4_000_000);
    function* endless(shape: readonly number[]): Generator<NamedTensorSpec> {
      for (;;) yield spec(`${long}${taken++}`, 'U8', shape);
    }
    expect(() => layOut(endless([]))).toThrow(expect.objectContaining(tooLarge));
    expect(taken).toBe(25);
    taken = 0;
    expect(() => layOut(endless(Array(500_000).fill(1)))).toThrow(
      expect.objectContaining(tooLarge),
    );
    expect(taken).toBe(20);
  });

  test('metadata are counted before they are sorted', () => {
    const endless = function* (): Generator<[string, string]> {
      for (let i = 0; ; i++) yield [`${i}`, 'x'.repeat(1_000_000)];
    };
    expect(() => encodeMetadata(endless())).toThrow(expect.objectContaining(tooLarge));
  });

  test('what escaping adds counts too, before the rest is written', () => {
    const reads = Array(20).fill(0);
    const specs = Array.from({ length: 20 }, (_, i) => ({
      name: `${'\u0001'.repeat(1_000_000)}${String(i).padStart(2)}`,
      dtype: 'U8' as const,
      byteLength: 1,
      get shape(): number[] {
        reads[i]++;
        return [];
      },
    }));
    expect(() => layOut(specs)).toThrow(expect.objectContaining(tooLarge));
    expect(reads[0]).toBeGreaterThan(reads[19]);
  });
});

describe('encodeMetadata', () => {
  const key = anyText();

  test('sorts keys by their UTF-8 bytes, and is what JSON reads', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(key, key), { selector: ([name]) => name }), (pairs) => {
        const text = encodeMetadata(pairs);
        const sorted = pairs.toSorted(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
        const expected = sorted.map((pair) => pair.map((part) => JSON.stringify(part)).join(':'));
        expect(text).toBe(`{${expected.join(',')}}`);
        expect(encodeMetadata(new Map(pairs.toReversed()))).toBe(text);
      }),
    );
  });

  test('takes a Map, pairs and a plain object', () => {
    const text = '{"10":"b","9":"a","__proto__":"c"}';
    const pairs = [
      ['9', 'a'],
      ['10', 'b'],
      ['__proto__', 'c'],
    ] as const;
    expect(encodeMetadata(pairs)).toBe(text);
    expect(encodeMetadata(new Map(pairs))).toBe(text);
    expect(encodeMetadata(JSON.parse(text))).toBe(text);
  });

  test.each([null, undefined])('%s is no metadata', (metadata) => {
    expect(headerOf([spec('a')], { metadata })).not.toContain('__metadata__');
  });

  test.each([[1], [null], [undefined], [{}], [['a']]])('a value %j is refused', (value) => {
    expect(() => encodeMetadata({ format: 'pt', step: value as never })).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringMatching(/^metadata "step" must be a string, but is /),
      }),
    );
  });

  test.each([
    ['key', [['bad\ud800', '']]],
    ['value', [['bad\ud800'.slice(0, 3), '\udfff']]],
  ] as const)('a lone surrogate in a %s is refused', (_, pairs) => {
    const error = thrownBy(() => encodeMetadata(pairs));
    expect(error).toBeInstanceOf(InvalidTensorError);
    expect(error).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      message: expect.stringMatching(/^metadata "bad.*": expected Unicode text, found a lone/),
    });
  });

  test('a key given twice is refused', () => {
    const pairs = [
      ['a', '1'],
      ['a', '1'],
    ] as const;
    expect(() => encodeMetadata(pairs)).toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
        message: 'metadata "a": duplicate key',
      }),
    );
  });

  test.each(['text', 3, new ArrayBuffer(2)])('%o is no metadata', (metadata) => {
    expect(() => encodeMetadata(metadata as never)).toThrow(/^metadata must be a Map, an iterable/);
  });
});

describe('requireDataByteLength', () => {
  const most = Number.MAX_SAFE_INTEGER - 8 - LIMIT;

  test('takes the most and refuses more', () => {
    requireDataByteLength(most);
    const error = thrownBy(() => requireDataByteLength(most + 1));
    expect(error).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      message: `expected at most ${most} bytes of tensor data, found more`,
    });
    expect((error as InvalidTensorError).tensor).toBeUndefined();
  });

  test('names the tensor that is too much', () => {
    expect(thrownBy(() => requireDataByteLength(most + 1, spec('b', 'U8', [7])))).toMatchObject({
      tensor: 'b',
      message: expect.stringMatching(
        / bytes of tensor data, found more at this tensor of 7 bytes$/,
      ),
    });
  });
});
