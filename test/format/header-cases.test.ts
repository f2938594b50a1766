import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../src/errors/errors.js';
import {
  concatenate,
  dataBytes,
  fileOf,
  keysOf,
  offsetKeysOf,
  parseFile,
  thrownBy,
} from './header-files.js';

type ExpectedTensor = [dtype: string, shape: number[], byteLength: number, sha256Prefix: string];

interface HeaderCase {
  name: string;
  header_text?: string;
  buffer_len?: number;
  bytes_hex?: string;
  parts?: ([kind: 'hex' | 'text', content: string, times: number] | [kind: 'buffer', n: number])[];
  accept: boolean;
  code?: string;
  expect?: {
    data_start: number;
    keys?: string[];
    /** Null where the reference gives tensors of equal offsets in any order. */
    offset_keys?: string[] | null;
    metadata?: Record<string, string> | null;
    tensors?: Record<string, ExpectedTensor>;
    tensor_count?: number;
    max_name_len?: number;
  };
}

const { cases } = JSON.parse(
  readFileSync(new URL('../fixtures/header-cases.json', import.meta.url), 'utf8'),
) as { cases: HeaderCase[] };

function bytesOf(headerCase: HeaderCase): Uint8Array {
  if (headerCase.header_text !== undefined) {
    return fileOf(headerCase.header_text, dataBytes(headerCase.buffer_len ?? 0));
  }
  if (headerCase.bytes_hex !== undefined) return Buffer.from(headerCase.bytes_hex, 'hex');
  return concatenate(
    (headerCase.parts ?? []).map((part) => {
      if (part[0] === 'buffer') return dataBytes(part[1]);
      const unit = Buffer.from(part[1], part[0] === 'hex' ? 'hex' : 'utf8');
      return unit.length === 1
        ? Buffer.alloc(part[2], unit)
        : Buffer.concat(Array(part[2]).fill(unit));
    }),
  );
}

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
