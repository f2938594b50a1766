import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../src/errors/errors.js';
import { DTYPE_NAMES, DTYPES, type Dtype } from '../../src/header/dtype.js';
import { PREFIX_BYTE_LENGTH, readHeaderLength } from '../../src/header/header.js';
import { JsonReader } from '../../src/header/json/reader.js';
import { anyText } from '../support/any-text.js';
import { nightly } from '../support/nightly.js';
import { bytesOf, cases } from './header-cases.js';
import {
  concatenate,
  dataBytes,
  fileOf,
  keysOf,
  offsetKeysOf,
  parseFile,
  thrownBy,
} from './header-files.js';

describe('header-cases.json', () => {
  test('there are as many as in the collection', () => {
    expect(cases.length).toBe(446);
  });

  test.each(cases.filter(({ accept }) => !accept))('$name is refused', (headerCase) => {
    const error = thrownBy(() => parseFile(bytesOf(headerCase)));
    expect(error).toBeInstanceOf(FormatError);
    expect((error as FormatError).code, String(error)).toBe(`SAFETENSORS_${headerCase.code}`);
  });

  test.each(cases.filter(({ accept }) => accept))('$name is accepted', (headerCase) => {
    const file = bytesOf(headerCase);
    const header = parseFile(file);
    const expected = headerCase.expect;
    if (expected === undefined) return expect.fail('an accepted case says what to expect');
    expect(header.dataStart).toBe(expected.data_start);
    expect(header.dataByteLength).toBe(file.length - expected.data_start);
    if (expected.keys !== undefined) expect(keysOf(header)).toEqual(expected.keys);
    if (expected.offset_keys) expect(offsetKeysOf(header)).toEqual(expected.offset_keys);
    if (expected.metadata !== undefined) {
      const { metadata } = header;
      expect(metadata && [...metadata]).toEqual(
        expected.metadata && Object.entries(expected.metadata),
      );
    }
    for (const [name, tensor] of Object.entries(expected.tensors ?? {})) {
      const entry = header.find(name);
      const data = file.subarray(
        header.dataStart + header.begin(entry),
        header.dataStart + header.end(entry),
      );
      const sha256 = createHash('sha256').update(data).digest('hex').slice(0, 16);
      expect([header.dtype(entry), header.shape(entry), data.length, sha256]).toEqual(tensor);
    }
    if (expected.tensor_count !== undefined) expect(header.size).toBe(expected.tensor_count);
    if (expected.max_name_len !== undefined) {
      const lengths = offsetKeysOf(header).map((name) => name.length);
      expect(Math.max(0, ...lengths)).toBe(expected.max_name_len);
    }
  });
});

interface ModelTensor {
  name: string;
  dtype: Dtype;
  shape: number[];
}

const uniqueTensors = fc.uniqueArray(
  fc.record({
    name: fc.oneof(
      anyText({ maxLength: 12 }).filter((name) => name !== '__metadata__'),
      fc.constantFrom('__proto__', 'constructor', 'toString', '0', '10', '', '\ufb01', '\u{1f600}'),
    ),
    dtype: fc.constantFrom(...DTYPE_NAMES),
    // Multiples of four make whole bytes of every dtype.
    shape: fc.array(fc.constantFrom(0, 4, 8, 12), { minLength: 1, maxLength: 3 }),
  }),
  { selector: ({ name }) => name, maxLength: 12 },
);

const metadataOrNull = fc.option(
  fc.array(fc.tuple(anyText(), anyText()), {
    maxLength: 4,
  }),
);

/** Whether each of a header's free choices (spaces, escapes, order) is taken: an endless list. */
const choices = fc.infiniteStream(fc.nat(7));

interface ModelHeader {
  file: Uint8Array;
  tensors: ModelTensor[];
  metadata: Map<string, string> | null;
}

/** A valid file, written with any whitespace, escapes, order of entries and fields. */
const validFile: fc.Arbitrary<ModelHeader> = fc
  .tuple(uniqueTensors, metadataOrNull, choices)
  .map(([tensors, metadataEntries, stream]) => {
    const choose = (): number => stream.next().value as number;
    const space = (): string => ['', '', '', '', ' ', '\n', '\t\r', '  '][choose()] as string;
    const quote = (text: string): string => {
      const characters = [...text].map((character) =>
        choose() === 0
          ? Array.from({ length: character.length }, (_, i) => escapeUnit(character.charCodeAt(i)))
          : JSON.stringify(character).slice(1, -1),
      );
      return `"${characters.flat().join('')}"`;
    };
    const join = (open: string, parts: string[], close: string): string =>
      `${open}${space()}${parts.join(`${space()},${space()}`)}${space()}${close}`;
    const member = (key: string, value: string): string =>
      `${quote(key)}${space()}:${space()}${value}`;
    const shuffle = <T>(items: T[]): T[] =>
      items
        .map((item) => ({ item, place: choose() }))
        .sort((a, b) => a.place - b.place)
        .map(({ item }) => item);

    let end = 0;
    const entries = tensors.map(({ name, dtype, shape }) => {
      const begin = end;
      end +=
        (shape.reduce((product, dimension) => product * dimension, 1) * DTYPES[dtype].bits) / 8;
      const fields = [
        member('dtype', quote(dtype)),
        member('shape', join('[', shape.map(String), ']')),
        member('data_offsets', join('[', [`${begin}`, `${end}`], ']')),
        ...(choose() === 0 ? [member('extra', '{"scale": [0.5, null]}')] : []),
      ];
      return member(name, join('{', shuffle(fields), '}'));
    });
    const metadata = metadataEntries && new Map(metadataEntries);
    if (metadata !== null) {
      const pairs = [...metadata].map(([key, value]) => member(key, quote(value)));
      entries.push(member('__metadata__', join('{', pairs, '}')));
    }
    const file = fileOf(`${join('{', shuffle(entries), '}')}${space()}`, dataBytes(end));
    return { file, tensors, metadata };
  });

function escapeUnit(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`;
}

/** Header bytes of the file of one tensor, with `field` put in place of the one of its name. */
function describeOne(fields: Record<string, string>): string {
  const all = { dtype: '"F32"', shape: '[2]', data_offsets: '[0,8]', ...fields };
  return `{"t":{${Object.entries(all)
    .filter(([, value]) => value !== '')
    .map(([key, value]) => `"${key}":${value}`)
    .join(',')}}}`;
}

describe('any valid file', () => {
  test('is read as a plain JSON.parse model reads it', () => {
    fc.assert(
      fc.property(validFile, ({ file, tensors, metadata }) => {
        const header = parseFile(file);
        const json = JSON.parse(new TextDecoder().decode(header.json));
        expect(header.size).toBe(tensors.length);
        expect(header.metadata).toEqual(metadata);
        expect(header.metadata).toBe(header.metadata);
        for (const { name, dtype, shape } of tensors) {
          const entry = header.find(name);
          expect(header.name(entry)).toBe(name);
          expect(header.dtype(entry)).toBe(dtype);
          expect(header.shape(entry)).toEqual(shape);
          const offsets = new Map(Object.entries(json)).get(name) as { data_offsets: number[] };
          expect([header.begin(entry), header.end(entry)]).toEqual(offsets.data_offsets);
        }
        const byUtf8 = tensors
          .map(({ name }) => name)
          .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
        expect(keysOf(header)).toEqual(byUtf8);
        for (let entry = 1; entry < header.size; entry++) {
          expect(header.begin(entry)).toBe(header.end(entry - 1));
        }
      }),
    );
  });

  test('is refused when it is cut anywhere or grows by one byte', () => {
    fc.assert(
      fc.property(validFile, fc.nat(), fc.nat(255), ({ file }, cut, byte) => {
        const prefix = file.subarray(0, cut % file.length);
        expect(thrownBy(() => parseFile(prefix))).toBeInstanceOf(FormatError);
        const longer = concatenate([file, Uint8Array.of(byte)]);
        expect(thrownBy(() => parseFile(longer))).toBeInstanceOf(FormatError);
      }),
    );
  });

  test('with any bytes changed is read, or refused with a FormatError', () => {
    const changes = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(validFile, changes, ({ file }, places) => {
        for (const [place, byte] of places) file[place % file.length] = byte;
        try {
          const header = parseFile(file);
          for (const name of keysOf(header)) expect(header.find(name)).not.toBe(-1);
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError);
        }
      }),
      { numRuns: nightly(3000, 1000) },
    );
  });

  test('has no tensor of a name that is not Unicode text', () => {
    const header = parseFile(fileOf(`{"\ufffd":${EMPTY_TENSOR}}`, new Uint8Array(0)));
    expect(header.find('\ufffd')).toBe(0);
    expect(header.find('\ud800')).toBe(-1);
    expect(header.find('')).toBe(-1);
  });
});

const EMPTY_TENSOR = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}';

describe('shape', () => {
  test('is a new frozen array for each caller', () => {
    const header = parseFile(fileOf(describeOne({}), dataBytes(8)));
    expect(Object.isFrozen(header.shape(0))).toBe(true);
    expect(header.shape(0)).not.toBe(header.shape(0));
  });

  test('may have more dimensions and elements than fit an argument list', () => {
    const shape = Array(500_000).fill(1);
    const header = parseFile(fileOf(describeOne({ shape: `[2,${shape}]` }), dataBytes(8)));
    expect(header.shape(0).length).toBe(500_001);
  });
});

describe('what only this project refuses comes after what the reference refuses', () => {
  const oversized = { dtype: '"U8"', shape: '[0,9007199254740992]', data_offsets: '[0,0]' };
  test.each([
    ['an empty tensor with a dimension of 2^53', oversized, 0, 'VALIDATION_OVERFLOW'],
    ['the same with bytes behind it', oversized, 1, 'METADATA_INCOMPLETE_BUFFER'],
    [
      'an overflow before a zero, which the reference refuses too',
      { ...oversized, shape: '[1099511627776,1099511627776,0]' },
      0,
      'VALIDATION_OVERFLOW',
    ],
    [
      'a zero before an overflow',
      { ...oversized, shape: '[1099511627776,0,1099511627776]' },
      0,
      null,
    ],
    ['the largest safe dimension', { ...oversized, shape: '[0,9007199254740991]' }, 0, null],
    [
      'a size whose bits only seem whole when they are rounded',
      { dtype: '"F6_E3M2"', shape: '[6004799503160663]', data_offsets: '[0,4503599627370497]' },
      0,
      'MISALIGNED_SLICE',
    ],
    ['two equal unknown fields', { 'x":1,"x': '1' }, 8, 'DUPLICATE_KEY'],
    ['the same with a wrong size', { 'x":1,"x': '1' }, 9, 'METADATA_INCOMPLETE_BUFFER'],
    ['equal fields by escapes', { 'x":1,"\\u0078': '1' }, 8, 'DUPLICATE_KEY'],
    ['two different unknown fields', { 'x":1,"y': '1' }, 8, null],
  ])('%s', (_, fields, dataByteLength, code) => {
    const file = fileOf(describeOne(fields), dataBytes(dataByteLength));
    if (code === null) expect(parseFile(file).size).toBe(1);
    else expect(thrownBy(() => parseFile(file))).toMatchObject({ code: `SAFETENSORS_${code}` });
  });
});

describe('messages', () => {
  const messageOf = (file: Uint8Array): string => String(thrownBy(() => parseFile(file)));
  test.each([
    ['an old dtype', { dtype: '"float16"' }, /"t".*"float16", as in the oldest draft/],
    ['old offsets', { data_offsets: '', offsets: '[0,8]' }, /"data_offsets".*"offsets", as in the/],
    ['no offsets', { data_offsets: '' }, /expected "data_offsets" in .*, found none$/],
    [
      'no shape but both offsets',
      { shape: '', offsets: '[0,8]' },
      /expected "shape" .* found none$/,
    ],
    ['one offset', { data_offsets: '[0]' }, /expected a second offset at .*, found/],
    [
      'half an offset',
      { data_offsets: '[0,]' },
      /expected an integer from 0 to 2\^64 - 1 at .*, found "]"$/,
    ],
    ['another dtype', { dtype: '"F33"' }, /expected one of the dtypes .*found "F33"$/],
    [
      'a wrong size',
      { shape: '[3]' },
      /expected 12 bytes for 3 elements of F32.*\[0, 8\], 8 bytes/,
    ],
    [
      'a hole',
      { data_offsets: '[4,12]' },
      /expected to begin .* at 0, but data_offsets is \[4, 12\]/,
    ],
    ['a half byte', { dtype: '"F4"', shape: '[3]' }, /3 elements of F4 take 12 bits/],
  ])('of %s', (_, fields, message) => {
    expect(messageOf(fileOf(describeOne(fields), dataBytes(8)))).toMatch(message);
  });

  test('of an incomplete file say how much is missing', () => {
    expect(messageOf(fileOf(describeOne({}), dataBytes(3)))).toMatch(
      'expected 8 bytes of tensor data after the header, found 3: the file is incomplete',
    );
  });

  test('of other formats say what they look like, wherever they fail', () => {
    const lfs = new TextEncoder().encode('version https://git-lfs.github.com/spec/v1\n');
    expect(messageOf(lfs)).toMatch(/looks like .*`git lfs pull`.*; expected a safetensors file$/);
    const gzip = new Uint8Array(600_000);
    gzip.set([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0xff]);
    expect(messageOf(gzip)).toMatch(/^FormatError: looks like a gzip archive.*expected UTF-8/);
    expect(messageOf(new Uint8Array(64))).toMatch(
      /^FormatError: looks like a run of zeros.*begin with "{"/,
    );
    expect(messageOf(new Uint8Array(0))).toMatch('found an empty file');
    // The name of its first member is a header's length, and its mark is behind that.
    const tar = new Uint8Array(1024);
    tar.set([0x58, 0x02]);
    tar.set(new TextEncoder().encode('ustar'), 257);
    expect(messageOf(tar)).toMatch(/looks like a tar archive.*begin with "{"/);
  });

  test('of other formats tell programs the format, and no wrong length', () => {
    const heads: readonly (readonly [string, string])[] = [
      ['version https://git-lfs.github.com/spec/v1\n', 'git-lfs-pointer'],
      ['<!DOCTYPE html><html>', 'html'],
      ['{"error":"not found"}', 'json'],
      ['PK\x03\x04\0\0\x08\x08\0\0\0\0', 'zip'],
      ['PK\x05\x06\0\0\0\0\0\0\0\0', 'zip'],
      ['\x80\x02}q\0.', 'pickle'],
      ['GGUF\x03\0\0\0\0\0\0\0', 'gguf'],
      ['\x1f\x8b\x08\0\0\0\0\0\xff', 'gzip'],
      ['\0'.repeat(64), 'zeros'],
      ['GGUF', 'gguf'],
    ];
    for (const [head, foundFormat] of heads) {
      const bytes = Uint8Array.from(head, (character) => character.charCodeAt(0));
      const error = thrownBy(() => parseFile(bytes));
      expect(error).toMatchObject({ foundFormat });
      expect(String(error)).not.toMatch(/\d{9}/);
    }
    expect(thrownBy(() => parseFile(new Uint8Array(3).fill(7)))).not.toHaveProperty('foundFormat');
  });

  test('name the file', () => {
    const error = thrownBy(() => readHeaderLength(new Uint8Array(3), 3, { path: 'm.safetensors' }));
    expect(error).toMatchObject({ path: 'm.safetensors' });
    expect(String(error)).toMatch('m.safetensors: expected at least 8 bytes, found 3');
  });
});

describe('maxHeaderByteLength', () => {
  const file = fileOf(describeOne({}), dataBytes(8));
  const length = file.length - PREFIX_BYTE_LENGTH - 8;
  test('bounds the header, itself included', () => {
    expect(readHeaderLength(file, file.length, { maxHeaderByteLength: length })).toBe(length);
    expect(
      thrownBy(() => readHeaderLength(file, file.length, { maxHeaderByteLength: length - 1 })),
    ).toMatchObject({ code: 'SAFETENSORS_HEADER_TOO_LARGE' });
  });

  test.each([[-1], [1.5], [2 ** 32], [Number.NaN]])('%s is out of range', (limit) => {
    const options = { maxHeaderByteLength: limit };
    expect(() => readHeaderLength(file, file.length, options)).toThrow(RangeError);
  });

  test('must be a number', () => {
    const options = { maxHeaderByteLength: '1' as unknown as number };
    expect(() => readHeaderLength(file, file.length, options)).toThrow(TypeError);
  });
});

describe('behind the last tensor', () => {
  const description = '"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}';
  test.each([
    ['read at once', `{${description}}`],
    ['scanned', `{ ${description}}`],
  ])('no entry has a name, not even that of the first brace: %s', (_, json) => {
    const header = parseFile(fileOf(json, dataBytes(1)));
    const namedLike = (name: string, entry: number): boolean => {
      const reader = new JsonReader(new TextEncoder().encode(JSON.stringify(name)));
      return header.isNamed(entry, reader, reader.readString());
    };
    expect(namedLike('t', 0)).toBe(true);
    expect(namedLike('{', 1)).toBe(false);
    expect(namedLike('{ ', 1)).toBe(false);
  });
});
