import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Header } from '../../src/header/header.js';
import {
  changeMetadata,
  fileStart,
  grownByteLength,
  type MetadataChanges,
  spareByteLength,
  withMetadata,
} from '../../src/header/metadata-changes.js';
import { anyText } from '../support/any-text.js';
import { fileOf, parseFile, thrownBy } from './header-files.js';

const TENSOR = '"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}';

function headerOf(json: string, data = 2): Header {
  return parseFile(fileOf(json, new Uint8Array(data)));
}

function edited(json: string, metadata: Record<string, string>, data?: number): string {
  const changed = withMetadata(headerOf(json, data), new Map(Object.entries(metadata)));
  return new TextDecoder().decode(changed);
}

describe('changes', () => {
  const old = new Map([
    ['b', '1'],
    ['a', '2'],
  ]);

  test.each<[string, MetadataChanges, Record<string, string> | undefined]>([
    ['set and delete, as an object', { c: '3', b: null }, { a: '2', c: '3' }],
    ['as a Map', new Map([['a', '']]), { b: '1', a: '' }],
    ['as pairs', [['a', null] as const, ['b', null] as const], {}],
    ['nothing', {}, undefined],
    ['what is there already', { a: '2' }, undefined],
    ['the deletion of what is not there', { c: null }, undefined],
    [
      'names of the prototype',
      Object.fromEntries([['constructor', 'x']]),
      { ...Object.fromEntries(old), constructor: 'x' },
    ],
  ])('%s', (_, changes, expected) => {
    const changed = changeMetadata(old, changes);
    expect(changed === undefined ? undefined : Object.fromEntries(changed)).toEqual(expected);
    expect([...old]).toEqual([
      ['b', '1'],
      ['a', '2'],
    ]);
  });

  test('of a file without metadata', () => {
    expect(changeMetadata(null, { a: null })).toBeUndefined();
    expect(changeMetadata(null, { a: '' })).toEqual(new Map([['a', '']]));
  });

  test.each([1, undefined, true, {}])('refuse the value %j, naming the key', (value) => {
    const changes = { key: value } as unknown as MetadataChanges;
    expect(thrownBy(() => changeMetadata(old, changes))).toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringMatching(/^metadata "key" must be a string, or null to delete it, but/),
    });
  });

  test('refuse a key given twice, and what is not named values', () => {
    const twice: [string, null][] = [
      ['key', null],
      ['key', null],
    ];
    expect(thrownBy(() => changeMetadata(old, twice))).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      message: 'metadata "key": duplicate key',
    });
    expect(thrownBy(() => changeMetadata(old, 'a' as never))).toBeInstanceOf(TypeError);
  });
});

describe('the rest of the JSON stays', () => {
  test.each([
    ['in front', `{"__metadata__":{"x":"y"},${TENSOR}}`, `{"__metadata__":{"k":"v"},${TENSOR}}`],
    ['behind', `{${TENSOR},"__metadata__":{}}`, `{${TENSOR},"__metadata__":{"k":"v"}}`],
    ['null', `{"__metadata__":null,${TENSOR}}`, `{"__metadata__":{"k":"v"},${TENSOR}}`],
    ['none', `{${TENSOR}}`, `{"__metadata__":{"k":"v"},${TENSOR}}`],
    [
      'spaces, and braces in strings',
      `{ "__metadata__" : { "}" : "}{\\"" } ,\n${TENSOR}\t} \n `,
      `{ "__metadata__" : {"k":"v"} ,\n${TENSOR}\t}`,
    ],
    [
      'an escaped key',
      `{"__meta\\u0064ata__":{"x":"y"},${TENSOR}}`,
      `{"__meta\\u0064ata__":{"k":"v"},${TENSOR}}`,
    ],
    [
      'fields of others',
      '{"a":{"extra":{"__metadata__":[1e2]},"dtype":"U8","shape":[ 2 ],"data_offsets":[0,2]}}',
      '{"__metadata__":{"k":"v"},"a":{"extra":{"__metadata__":[1e2]},"dtype":"U8","shape":[ 2 ],"data_offsets":[0,2]}}',
    ],
  ])('metadata %s', (_, before, after) => {
    expect(edited(before, { k: 'v' })).toBe(after);
  });

  test.each([
    ['{}', '{"__metadata__":{"k":"v"}}'],
    ['{ }  ', '{"__metadata__":{"k":"v"} }'],
    ['{"__metadata__":null}', '{"__metadata__":{"k":"v"}}'],
    ['{"__metadata__":{"x":"y"} }', '{"__metadata__":{"k":"v"} }'],
  ])('without tensors: %s', (before, after) => {
    expect(edited(before, { k: 'v' }, 0)).toBe(after);
  });

  test('keys are sorted by code points, nothing is {}', () => {
    const metadata = { b: '', a: '', '\u{1f600}': '', '\ufb01': '' };
    expect(edited('{}', metadata, 0)).toBe(
      '{"__metadata__":{"a":"","b":"","\ufb01":"","\u{1f600}":""}}',
    );
    expect(edited('{"__metadata__":{"a":"b"}}', {}, 0)).toBe('{"__metadata__":{}}');
  });

  test('whatever the metadata are, they are read back', () => {
    const text = anyText({ maxLength: 8 });
    fc.assert(
      fc.property(
        fc.option(fc.dictionary(text, text)),
        fc.dictionary(text, text),
        fc.boolean(),
        (old, metadata, hasTensor) => {
          const members = old === null ? [] : [`"__metadata__" : ${JSON.stringify(old)}`];
          if (hasTensor) members.push(TENSOR);
          const changed = edited(`{${members.join(' , ')}}`, metadata, hasTensor ? 2 : 0);
          const header = headerOf(changed, hasTensor ? 2 : 0);
          expect(header.metadata).toEqual(new Map(Object.entries(metadata)));
          expect(header.size).toBe(hasTensor ? 1 : 0);
        },
      ),
    );
  });
});

describe('length', () => {
  test.each([
    // [of the old header, needed, new]
    [56, 56, 56],
    [57, 3, 57],
    [57, 57, 57], // not aligned, but long enough
    [56, 57, 120], // the data begins at a multiple of 64 again
    [48, 49, 56], // 56 = 8 * 7
    [57, 58, 64], // 65: of 8 from now on
    [4088, 4089, 8184],
    [2 ** 22 - 8, 2 ** 22 - 7, 2 ** 22 + 2 ** 21 - 8], // of 2 MiB at most
    [99_999_984, 100_000_000, 100_000_000],
  ])('of %d, with %d needed, becomes %d', (byteLength, needed, expected) => {
    expect(grownByteLength(byteLength, needed, 'file')).toBe(expected);
  });

  test.each([
    [99_999_992, 100_000_001],
    [2 ** 22 - 8, 99_999_000], // as aligned as it was, it is too long
  ])('of %d, with %d needed, is above the limit', (byteLength, needed) => {
    expect(thrownBy(() => grownByteLength(byteLength, needed, 'file'))).toMatchObject({
      code: 'SAFETENSORS_HEADER_TOO_LARGE',
      path: 'file',
    });
  });

  test('what is spare is the whitespace at the end', () => {
    expect(spareByteLength(headerOf(`{${TENSOR}} \n\t `).json)).toBe(4);
    expect(spareByteLength(headerOf(`{${TENSOR}}`).json)).toBe(0);
  });

  test('spaces fill it', () => {
    const start = fileStart(new TextEncoder().encode('{}'), 4);
    expect(Buffer.from(start).toString('latin1')).toBe('\x04\0\0\0\0\0\0\0{}  ');
  });
});
