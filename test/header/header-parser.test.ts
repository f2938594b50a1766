/** Descriptions of the usual spelling are read faster, and must get the same verdict as others. */
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { quoteName } from '../../src/errors/errors.js';
import { DTYPE_NAMES, DTYPES } from '../../src/header/dtype.js';
import { type Header, scanHeader } from '../../src/header/header.js';
import { runSync } from '../../src/work/work.js';
import { anyText } from '../support/any-text.js';
import { thrownBy } from './header-files.js';

/** The scanner's result for a header. */
function scan(json: string, dataByteLength: number): Header {
  return runSync(scanHeader(new TextEncoder().encode(json), dataByteLength, {}));
}

function errorOf(json: string, dataByteLength = 0): unknown {
  return thrownBy(() => scan(json, dataByteLength));
}

/** The description of a tensor of bytes [begin, end). */
function description(begin: number, end: number): string {
  return `{"dtype":"U8","shape":[${end - begin}],"data_offsets":[${begin},${end}]}`;
}

describe('descriptions are known to be of the usual spelling', () => {
  test('with every dtype, number of dimensions and offset', () => {
    let end = 0;
    const tensors: string[] = [];
    for (const dtype of [...DTYPE_NAMES, ...DTYPE_NAMES]) {
      for (const shape of [[1], [8], [8, 1], [1, 1, 8], [16, 0]]) {
        const bits = shape.reduce((product, dimension) => product * dimension, DTYPES[dtype].bits);
        if (bits % 8 !== 0) continue;
        const begin = end;
        end += bits / 8;
        const fields = `"dtype":"${dtype}","shape":[${shape}],"data_offsets":[${begin},${end}]`;
        tensors.push(`"${tensors.length}":{${fields}}`);
      }
    }
    const scalar = `"s":{"dtype":"U8","shape":[],"data_offsets":[${end},${end + 1}]}`;
    const header = scan(`{${tensors},${scalar}}`, end + 1);
    expect(header.size).toBe(tensors.length + 1);
    for (let entry = 0; entry < header.size; entry++) {
      expect(header.isCanonical(entry), header.name(entry)).toBe(true);
    }
  });

  test('but not in the fifteen behind another spelling, nor with an escape in the name', () => {
    const spellings = Array.from({ length: 40 }, (_, i) => {
      const name = i === 30 ? '\\u0061' : `${i}`;
      const space = i === 3 || i === 25 ? ' ' : '';
      return `"${name}":${space}${description(i, i + 1)}`;
    });
    const header = scan(`{${spellings}}`, 40);
    const usual = spellings.map((_, entry) => header.isCanonical(entry));
    const expected = spellings.map((_, i) => (i < 3 || i > 18) && (i < 25 || i > 40));
    // A space before a description is skipped with it: the fast path tries the rest and refuses it.
    expect(usual).toEqual(expected);
  });

  test('behind a name with an escape', () => {
    const header = scan(`{"\\u0061":${description(0, 1)},"b":${description(1, 2)}}`, 2);
    expect([header.isCanonical(0), header.isCanonical(1)]).toEqual([false, true]);
  });
});

describe('what is nearly of the usual spelling is refused', () => {
  test.each([
    '[x5]',
    '[ x5]',
    '[,5]',
    '[0 5]',
    '[0;5]',
    '[0,5',
    '[0,5}',
    '[0,x]',
    '[0,5]]',
    '[0,5,]',
  ])('offsets %s', (offsets) => {
    const json = `{"t":{"dtype":"U8","shape":[5],"data_offsets":${offsets}}}`;
    expect(errorOf(json, 5)).toMatchObject({ code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION' });
  });

  test.each(['[5', '[5 5]', '[x]', '[5,]', '[,5]'])('shape %s', (shape) => {
    const json = `{"t":{"dtype":"U8","shape":${shape},"data_offsets":[0,5]}}`;
    expect(errorOf(json, 5)).toMatchObject({
      code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
      tensor: 't',
    });
  });
});

describe('sizes that disagree are noticed in every spelling', () => {
  test.each([
    ['twice as many bytes', 'U8', '[2]', 4],
    ['a byte instead of 512 elements', 'F64', '[512]', 1],
    ['eight bytes of nine', 'U8', '[9]', 8],
    ['a byte more than none', 'U8', '[0]', 1],
    ['a byte less', 'U8', '[6]', 5],
    ['64 bytes instead of one', 'U8', '[1]', 64],
  ])('%s', (_, dtype, shape, end) => {
    const offsets = `"data_offsets":[0,${end}]`;
    for (const fields of [
      `"dtype":"${dtype}","shape":${shape},${offsets}`,
      `"shape":${shape},"dtype":"${dtype}",${offsets}`,
    ]) {
      expect(errorOf(`{"t":{${fields}}}`, end)).toMatchObject({
        code: 'SAFETENSORS_TENSOR_INVALID_INFO',
        tensor: 't',
      });
    }
  });
});

describe('messages say', () => {
  const fields = { dtype: '"U8"', shape: '[1]', data_offsets: '[0,1]' };
  const withFields = (others: Record<string, string>): string =>
    `{"t":{${Object.entries({ ...fields, ...others })
      .filter(([, value]) => value !== '')
      .map(([key, value]) => `"${key}":${value}`)}}}`;
  test.each([
    ['that a description is no object', '{"t":1}', 'an object that describes the tensor', '"1"'],
    ['that metadata are no object', '{"__metadata__":1}', 'an object or null as metadata', '"1"'],
    [
      'that metadata come twice',
      '{"__metadata__":{},"__metadata__":null}',
      'no second "__metadata__"',
      '"_"',
    ],
    ['that a key is no string', '{1:2}', 'a key in double quotes', '"1"'],
    ['that a dtype is no string', withFields({ dtype: '1' }), 'a dtype in double quotes', '"1"'],
    ['that a shape is no array', withFields({ shape: '1' }), 'an array of dimensions', '"1"'],
    [
      'that offsets are no array',
      withFields({ data_offsets: '1' }),
      'an array of two offsets',
      '"1"',
    ],
    [
      'which field comes twice: dtype',
      '{"t":{"dtype":"U8","dtype":"U8"}}',
      'no second "dtype"',
      '"""',
    ],
    [
      'which field comes twice: shape',
      '{"t":{"shape":[1],"shape":[1]}}',
      'no second "shape"',
      '"""',
    ],
    [
      'which field comes twice: offsets',
      '{"t":{"data_offsets":[0,1],"data_offsets":[0,1]}}',
      'no second "data_offsets"',
      '"""',
    ],
    [
      'that all fields are missing',
      '{"t":{}}',
      '"dtype" and "shape" and "data_offsets" in the tensor\'s description',
      'none',
    ],
    [
      'that two are missing',
      '{"t":{"dtype":"F4"}}',
      '"shape" and "data_offsets" in the tensor\'s description',
      'none',
    ],
    [
      'that the shape is missing',
      withFields({ shape: '' }),
      '"shape" in the tensor\'s description',
      'none',
    ],
    [
      'that the dtype is missing',
      withFields({ dtype: '' }),
      '"dtype" in the tensor\'s description',
      'none',
    ],
  ])('%s', (_, json, expected, found) => {
    const { message } = errorOf(json, 1) as Error;
    expect(message).toMatch(/ at header byte \d+, found /);
    const [before, behind] = message.split(/ at header byte \d+, found /);
    expect(before?.replace(/^.*?expected /, '')).toBe(expected);
    expect(behind).toBe(found);
  });

  test('the tensor only while it is read', () => {
    expect(errorOf('{"t":1}')).toMatchObject({ tensor: 't' });
    const behind = errorOf(`{"t":${description(0, 1)},"__metadata__":1}`);
    expect(behind).toMatchObject({ code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION' });
    expect((behind as { tensor?: string }).tensor).toBeUndefined();
  });
});

describe('repeated keys', () => {
  const unknown = (begin: number, fields: string): string =>
    description(begin, begin + 1).replace('}', `,${fields}}`);

  test('are those of one object', () => {
    const json =
      `{"a":${unknown(0, '"x":1,"y":2')},"b":${unknown(1, '"y":1')},"c":${unknown(2, '"x":2')},` +
      '"__metadata__":{"x":"1","y":"2"}}';
    expect(scan(json, 3).metadata).toEqual(new Map(Object.entries({ x: '1', y: '2' })));
  });

  test('the first of them is named', () => {
    const json = `{"a":${unknown(0, '"x":1,"x":2')},"b":${unknown(1, '"y":1,"y":2')}}`;
    expect(errorOf(json, 2)).toMatchObject({
      code: 'SAFETENSORS_DUPLICATE_KEY',
      message: expect.stringContaining('duplicate key "x"'),
    });
  });
});

test.each([
  ['{}', -1, -1],
  [`{"t":${description(0, 0)}}`, -1, -1],
  ['{"__metadata__":{}}', 16, 18],
  ['{"__metadata__": null }', 17, 21],
])('the place of the metadata in %s', (json, metadataAt, metadataEnd) => {
  expect(scan(json, 0)).toMatchObject({ metadataAt, metadataEnd });
});

describe('a wrong value in the metadata is named by its key', () => {
  const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
  const WRONG: readonly (readonly [value: string | Uint8Array, what: string])[] = [
    ['1', 'expected a string at header byte AT, found a number'],
    ['-0.5e3', 'expected a string at header byte AT, found a number'],
    ['null', 'expected a string at header byte AT, found null'],
    ['true', 'expected a string at header byte AT, found true'],
    ['false', 'expected a string at header byte AT, found false'],
    ['{"a":"b"}', 'expected a string at header byte AT, found an object'],
    ['["a"]', 'expected a string at header byte AT, found an array'],
    ['nil', 'expected a string at header byte AT, found "n"'],
    ['', 'expected a string at header byte AT, found "'],
    ['"\\ud800"', 'expected a low surrogate'],
    ['"\\x"', 'expected a valid escape sequence'],
    ['"a\nb"', 'expected control characters to be escaped'],
    [Uint8Array.of(0x22, 0xff, 0x22), 'expected UTF-8, found byte 0xff'],
  ];

  test('of random keys, at random places', () => {
    const keys = fc.uniqueArray(anyText({ maxLength: 8 }), { minLength: 1, maxLength: 6 });
    const property = fc.property(
      keys,
      fc.nat(),
      fc.constantFrom(...WRONG),
      fc.constantFrom('', ' ', '\n\t'),
      (names, chosen, [value, what], space) => {
        const wrong = chosen % names.length;
        const encoder = new TextEncoder();
        const parts: Uint8Array[] = [encoder.encode('{"__metadata__":{')];
        let at = 0;
        for (const [i, name] of names.entries()) {
          parts.push(encoder.encode(`${i === 0 ? '' : ','}${JSON.stringify(name)}:${space}`));
          if (i === wrong) at = Buffer.concat(parts).length;
          const bytes = typeof value === 'string' ? encoder.encode(value) : value;
          parts.push(i === wrong ? bytes : encoder.encode('"x"'));
        }
        parts.push(encoder.encode('}}'));
        const error = thrownBy(() => runSync(scanHeader(Buffer.concat(parts), 0, {}))) as Error;
        const start = `metadata key ${quoteName(names[wrong] as string)}: `;
        expect(error.message).toContain(start + what.replace('AT', `${at}`));
      },
    );
    fc.assert(property, { seed: SEED, numRuns: 500 });
  });

  test('but not another key, nor a later fault', () => {
    const open = (json: string | Uint8Array): string =>
      (thrownBy(() => runSync(scanHeader(Buffer.from(json), 0, {}))) as Error).message;
    expect(open('{"__metadata__":{"a":"b"},"t":1}')).not.toContain('metadata key');
    expect(open('{"__metadata__":{"a":"b" "c":"d"}}')).not.toContain('metadata key');
    // Bytes that are not UTF-8 are reported first, wherever they are.
    const later = Buffer.concat([Buffer.from('{"__metadata__":{"a":1},"'), Buffer.of(0xff)]);
    expect(open(later)).toBe('expected UTF-8, found byte 0xff at header byte 25');
  });
});
