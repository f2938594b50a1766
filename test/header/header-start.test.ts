/** The length before a header, its first byte, and in which slices it is read. */
import { describe, expect, test } from 'vitest';
import { readCanonicalHeader } from '../../src/header/canonical-header.js';
import {
  Header,
  PREFIX_BYTE_LENGTH,
  parseHeader,
  parseStart,
  readHeaderLength,
  scanHeader,
} from '../../src/header/header.js';
import { JsonReader } from '../../src/header/json/reader.js';
import { runSync, type Work } from '../../src/work/work.js';
import { fileOf, thrownBy } from './header-files.js';

/** The first bytes of a file that say this length. */
function startOf(length: bigint): Uint8Array {
  const head = new Uint8Array(16).fill(0x61);
  new DataView(head.buffer).setBigUint64(0, length, true);
  return head;
}

describe('the length of a header', () => {
  test.each([
    [3, 100],
    [16, 3],
    [7, 7],
    [0, 8],
  ])('is not in %i bytes of a file of %i', (headLength, fileByteLength) => {
    const head = startOf(1n).subarray(0, headLength);
    expect(thrownBy(() => readHeaderLength(head, fileByteLength))).toMatchObject({
      code: 'SAFETENSORS_HEADER_TOO_SMALL',
      message: `expected at least 8 bytes, found ${fileByteLength}`,
    });
  });

  test.each([100_000_001n, 2n ** 32n, 2n ** 40n + 5n, 2n ** 64n - 1n])(
    'is told when it is too large: %i',
    (length) => {
      const expected = `expected a header of at most 100000000 bytes, found a length of ${length}`;
      expect(thrownBy(() => readHeaderLength(startOf(length), 2 ** 50))).toMatchObject({
        code: 'SAFETENSORS_HEADER_TOO_LARGE',
        message: expected,
      });
    },
  );

  test('is told when the file ends before', () => {
    expect(readHeaderLength(startOf(92n), 100)).toBe(92);
    expect(thrownBy(() => readHeaderLength(startOf(93n), 100))).toMatchObject({
      code: 'SAFETENSORS_INVALID_HEADER_LENGTH',
      message:
        'expected a header of 93 bytes, found 92 before the end of the file: it is incomplete',
    });
  });

  test('may be limited to nothing', () => {
    const options = { maxHeaderByteLength: 0 };
    expect(readHeaderLength(startOf(0n), 16, options)).toBe(0);
    expect(thrownBy(() => readHeaderLength(startOf(1n), 16, options))).toMatchObject({
      message: expect.stringContaining('at most 0 bytes, found a length of 1'),
    });
  });
});

describe('parseStart', () => {
  const file = fileOf('{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', Uint8Array.of(7));
  const start = file.subarray(0, -1);

  test('reads a header with its length before it', () => {
    const header = runSync(parseStart(start, file.length, {}));
    expect([header.name(0), header.dataStart]).toEqual(['t', start.length]);
  });

  test.each([
    ['shorter', start.subarray(0, -1)],
    ['longer', file],
  ])('tells that the file has changed when what was read is %s', (_, other) => {
    const path = 'model.safetensors';
    expect(thrownBy(() => runSync(parseStart(other, file.length, { path })))).toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path,
      message: expect.stringContaining('the file was rewritten while its header was read'),
    });
  });
});

test.each(['x{', ' {', '"{'])('a header begins with a brace, not with %j', (text) => {
  const json = new TextEncoder().encode(text);
  const found = text[0] === ' ' ? 'byte 0x20' : `"${text[0]}"`;
  expect(thrownBy(() => parseHeader(json, PREFIX_BYTE_LENGTH + json.length))).toMatchObject({
    code: 'SAFETENSORS_INVALID_HEADER_START',
    message: `expected the header to begin with "{", found ${found}`,
  });
});

describe('slices', () => {
  /** A header of that many tensors of a byte, the first of which may stand last. */
  function jsonOf(count: number, isSorted = true): Uint8Array {
    const tensors = Array.from(
      { length: count },
      (_, i) => `"${i}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`,
    );
    if (!isSorted) tensors.push(tensors.shift() as string);
    return new TextEncoder().encode(`{${tensors}}`);
  }

  const countOf = (work: Work<unknown>): number => [...work].length;

  // Names and sizes begin a slice each 256 tensors; reading ends one there when others follow.
  test.each([
    [1, 2],
    [256, 2],
    [257, 5],
    [512, 5],
    [513, 8],
  ])('of a header of %i tensors are %i', (count, slices) => {
    const json = jsonOf(count);
    expect(countOf(scanHeader(json, count, {}))).toBe(slices);
    expect(countOf(readCanonicalHeader(json, count))).toBe(Math.ceil(count / 256));
  });

  test('are sixteen more where tensors must be sorted: eight digits, eight columns', () => {
    expect(countOf(scanHeader(jsonOf(100, false), 100, {}))).toBe(2 + 16);
  });

  test('notice a name that is repeated in any of them', () => {
    const names = Array.from({ length: 600 }, (_, i) => `"${i}"`);
    for (const place of [1, 255, 256, 599]) {
      const tensors = names
        .with(place, '"0"')
        .map((name) => `${name}:{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`);
      const text = `{${tensors}}`;
      const json = new TextEncoder().encode(text);
      expect(thrownBy(() => runSync(scanHeader(json, 0, {})))).toMatchObject({
        code: 'SAFETENSORS_DUPLICATE_KEY',
        message: expect.stringContaining(`(header byte ${text.lastIndexOf('"0":') + 1})`),
      });
    }
  });
});

test('behind the last entry none has a name, whatever stands in its row', () => {
  const json = new TextEncoder().encode('{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}');
  const usual = runSync(readCanonicalHeader(json, 1));
  if (usual === null) return expect.fail('it is usual');
  const header = new Header(new JsonReader(json), usual, usual.names, 1);
  const reader = new JsonReader(new TextEncoder().encode('"{"'));
  expect(usual.columns.nameAt[1]).toBe(0);
  expect(header.isNamed(1, reader, reader.readString())).toBe(false);
});
