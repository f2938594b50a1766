import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import {
  type CanonicalHeader,
  MAX_CANONICAL_BYTE_LENGTH,
  readCanonicalHeader,
} from '../../src/header/canonical-header.js';
import { Header, scanHeader } from '../../src/header/header.js';
import { JsonReader } from '../../src/header/json/reader.js';
import { runSync } from '../../src/work/work.js';
import { nightly } from '../support/nightly.js';
import { thrownBy } from './header-files.js';

const CHILD = fileURLToPath(new URL('children/compare-header-readers.mjs', import.meta.url));
const BASE = '"dtype":"U8","shape":[2],"data_offsets":[0,2]';
const EMPTY = '{"dtype":"U8","shape":[0],"data_offsets":[2,2]}';

function isTaken(header: string, dataByteLength = 2): boolean {
  return runSync(readCanonicalHeader(new TextEncoder().encode(header), dataByteLength)) !== null;
}

/** A header of one tensor of two bytes, with other fields. */
const one = (fields: string): string => `{"t":{${fields}}}`;

/** Tensors of the most bytes whose bits a number counts, and one of the rest up to 2^53 - 1. */
const LARGEST = Array.from({ length: 9 }, (_, i) => {
  const most = 2 ** 50 - 1;
  const end = Math.min((i + 1) * most, Number.MAX_SAFE_INTEGER);
  const fields = `"dtype":"U8","shape":[${end - i * most}],"data_offsets":[${i * most},${end}]`;
  return `"${i}":{${fields}}`;
}).join();

/** The whole contents of a header. */
function factsOf(header: Header): unknown {
  const { metadata, metadataAt, metadataEnd, size } = header;
  const tensors = Array.from({ length: size }, (_, entry) => ({
    name: header.name(entry),
    found: header.find(header.name(entry)),
    nameAt: header.nameAt(entry),
    dtype: header.dtype(entry),
    shape: header.shape(entry),
    shapeAt: header.shapeAt(entry),
    offsets: [header.begin(entry), header.end(entry)],
  }));
  return { metadata, metadataAt, metadataEnd, tensors };
}

describe('headers as writers spell them are taken', () => {
  test.each([
    ['one tensor', one(BASE), 2],
    ['padding of every kind', `${one(BASE)} \t\n\r`, 2],
    ['metadata', `{"__metadata__":{"format":"pt","":""},"t":{${BASE}}}`, 2],
    ['no pairs of metadata', `{"__metadata__":{},"t":{${BASE}}}`, 2],
    ['JSON as a value of the metadata', `{"__metadata__":{"a":"{\\"b\\":\\n}"},"t":{${BASE}}}`, 2],
    ['empty tensors at one offset', `{"b":{${BASE}},"c":${EMPTY},"a":${EMPTY}}`, 2],
    [
      'names of the language',
      `{"__proto__":{${BASE}},"constructor":${EMPTY},"10":${EMPTY},"9":${EMPTY}}`,
      2,
    ],
    ['a scalar', one('"dtype":"F64","shape":[],"data_offsets":[0,8]'), 8],
    ['five dimensions', one('"dtype":"F4","shape":[1,2,1,2,1],"data_offsets":[0,2]'), 2],
    ['nine dimensions', one('"dtype":"U8","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,2]'), 2],
    ['the largest size', one('"dtype":"U8","shape":[0,9007199254740991],"data_offsets":[0,0]'), 0],
    ['the largest end', `{${LARGEST}}`, Number.MAX_SAFE_INTEGER],
  ])('%s', (_, header, dataByteLength) => {
    expect(isTaken(header, dataByteLength)).toBe(true);
    const json = new TextEncoder().encode(header);
    const usual = runSync(readCanonicalHeader(json, dataByteLength)) as CanonicalHeader;
    const read = new Header(new JsonReader(json), usual, usual.names, dataByteLength);
    const scanned = runSync(scanHeader(json, dataByteLength, {}));
    expect(factsOf(read)).toEqual(factsOf(scanned));
    for (let entry = 0; entry < read.size; entry++) expect(read.isCanonical(entry)).toBe(true);
  });
});

describe('all others are left to the scanner', () => {
  const fields = (dtype: string, shape: string, offsets: string): string =>
    one(`"dtype":${dtype},"shape":${shape},"data_offsets":${offsets}`);
  test.each([
    ['nothing', ''],
    ['no tensors', '{}'],
    ['another first byte', ` ${one(BASE)}`],
    ['another first byte, and a quote behind it', `x"t":{${BASE}}}`],
    ['a byte order mark', `\ufeff${one(BASE)}`],
    ['a no-break space as padding', `${one(BASE)}\u00a0`],
    ['a byte order mark as padding', `${one(BASE)}\ufeff`],
    ['a vertical tab as padding', `${one(BASE)}\v`],
    ['a form feed as padding', `${one(BASE)}\f`],
    ['a zero as padding', `${one(BASE)}\0`],
    ['whitespace between', `{ "t":{${BASE}}}`],
    ['a name that is not ASCII', `{"\u00e9":{${BASE}}}`],
    ['a name with an escape', `{"\\u0061":{${BASE}}}`],
    ['a name with a control character', `{"\x01":{${BASE}}}`],
    ['20 000 nested arrays', `{"t":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
    ['a dtype in an array', fields('["U8"]', '[2]', '[0,2]')],
    ['an unknown dtype', fields('"U9"', '[2]', '[0,2]')],
    ['a dtype that objects have', fields('"constructor"', '[2]', '[0,2]')],
    ['a product above 2^53 in between', fields('"U8"', '[4294967296,4294967296,0]', '[0,0]'), 0],
    ['a dimension above 2^53', fields('"U8"', '[0,9007199254740992]', '[0,0]'), 0],
    ['bits above 2^53', fields('"U8"', '[1125899906842624]', '[0,1125899906842624]'), 2 ** 50],
    ['minus zero', fields('"U8"', '[-0]', '[0,0]'), 0],
    ['an exponent', fields('"U8"', '[2e0]', '[0,2]')],
    ['a fraction', fields('"U8"', '[2.0]', '[0,2]')],
    ['a leading zero', fields('"U8"', '[02]', '[0,2]')],
    ['a leading zero in the begin', fields('"U8"', '[2]', '[00,2]')],
    ['a leading zero in the end', fields('"U8"', '[2]', '[0,02]')],
    ['an empty dimension', fields('"U8"', '[2,,1]', '[0,2]')],
    ['a comma behind the dimensions', fields('"U8"', '[2,]', '[0,2]')],
    ['a comma for a shape', fields('"U8"', '[,]', '[0,0]'), 0],
    ['an end above 2^53', `{"t":{${BASE}},"u":${EMPTY.replace('[2,2]', '[2,9007199254740993]')}}`],
    ['an end before the begin', fields('"U8"', '[2]', '[2,0]'), 0],
    ['a hole', fields('"U8"', '[2]', '[1,3]'), 3],
    ['three offsets', fields('"U8"', '[2]', '[0,2,4]')],
    ['another size', fields('"U8"', '[3]', '[0,2]')],
    ['half a byte', fields('"F4"', '[3]', '[0,2]')],
    ['bytes behind the last tensor', one(BASE), 3],
    ['another order of the fields', one('"shape":[2],"dtype":"U8","data_offsets":[0,2]')],
    ['another field', one(`${BASE},"x":1`)],
    ['a field twice', one(`"dtype":"U8",${BASE}`)],
    ['a missing field', one('"dtype":"U8","shape":[2]')],
    ['fields that the prototype has', one('"__proto__":{}')],
    ['a name twice', `{"t":{${BASE}},"t":${EMPTY}}`],
    ['another order of the tensors', `{"u":${EMPTY},"t":{${BASE}}}`],
    ['metadata behind a tensor', `{"t":{${BASE}},"__metadata__":{}}`],
    ['metadata that describe a tensor', `{"t":{${BASE}},"__metadata__":${EMPTY}}`],
    ['metadata without tensors', '{"__metadata__":{}}', 0],
    ['no comma behind the metadata', `{"__metadata__":{} "t":{${BASE}}}`],
    ['no metadata', `{"__metadata__":null,"t":{${BASE}}}`],
    ['metadata between other brackets', `{"__metadata__":["a":"b"},"t":{${BASE}}}`],
    ['metadata in an array', `{"__metadata__":["a"],"t":{${BASE}}}`],
    ['metadata of numbers', `{"__metadata__":{"a":1},"t":{${BASE}}}`],
    ['a key of metadata twice', `{"__metadata__":{"a":"b","a":"b"},"t":{${BASE}}}`],
    ['an escape in a key of metadata', `{"__metadata__":{"\\n":"b"},"t":{${BASE}}}`],
    ['a surrogate in the metadata', `{"__metadata__":{"a":"\\ud800"},"t":{${BASE}}}`],
    ['metadata that are not ASCII', `{"__metadata__":{"a":"\u00e9"},"t":{${BASE}}}`],
    ['text behind the end', `${one(BASE)}}`],
  ])('%s', (_, header, dataByteLength = 2) => {
    expect(isTaken(header, dataByteLength)).toBe(false);
  });

  test('bytes that are not UTF-8', () => {
    const json = new TextEncoder().encode(one(BASE));
    json[2] = 0xff;
    expect(runSync(readCanonicalHeader(json, 2))).toBe(null);
  });

  test('a header above the limit', () => {
    const header = one(BASE);
    expect(isTaken(header.padEnd(MAX_CANONICAL_BYTE_LENGTH))).toBe(true);
    expect(isTaken(header.padEnd(MAX_CANONICAL_BYTE_LENGTH + 1))).toBe(false);
  });

  test('fields of a polluted prototype', () => {
    const prototype = Object.prototype as Record<string, unknown>;
    Object.assign(prototype, { dtype: 'U8', shape: [2], data_offsets: [0, 2] });
    try {
      expect(isTaken('{"t":{}}')).toBe(false);
    } finally {
      for (const key of ['dtype', 'shape', 'data_offsets']) delete prototype[key];
    }
  });
});

test('one name or value may fill the header', () => {
  const letters = 'a'.repeat(MAX_CANONICAL_BYTE_LENGTH - 100);
  expect(isTaken(`{"${letters}":{${BASE}}}`)).toBe(true);
  expect(isTaken(`{"${letters}`)).toBe(false);
  expect(isTaken(`{"__metadata__":{"a":"${letters}"},"t":{${BASE}}}`)).toBe(true);
  const escapes = '\\n'.repeat(MAX_CANONICAL_BYTE_LENGTH / 2 - 100);
  expect(isTaken(`{"__metadata__":{"a":"${escapes}"},"t":{${BASE}}}`)).toBe(true);
  expect(isTaken(`{"__metadata__":{"a":"${escapes}`)).toBe(false);
});

test("what is left gets the scanner's verdict", () => {
  const json = new TextEncoder().encode(one('"dtype":["U8"],"shape":[2],"data_offsets":[0,2]'));
  const code = 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION';
  expect(thrownBy(() => runSync(scanHeader(json, 2, {})))).toMatchObject({ code });
});

const ROUNDS = nightly(30_000, 8000);

describe('generated headers: what is taken is valid, and the scanner says the same about it', () => {
  test.each([['plain'], ['polluted']])('%s', async (kind) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const { stdout } = await promisify(execFile)(process.execPath, [
      CHILD,
      `${seed}`,
      `${ROUNDS}`,
      kind,
    ]).catch((error) => expect.fail(`seed ${seed}: ${error.stdout || error}`));
    const { taken, scanned, refused } = JSON.parse(stdout) as Record<string, number>;
    for (const count of [taken, scanned, refused]) expect(count).toBeGreaterThan(ROUNDS / 10);
  });
});
