import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { listGguf } from '../../../src/cli/sources/gguf.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';

function uint(value: number, byteLength: 4 | 8): Buffer {
  const bytes = Buffer.alloc(byteLength);
  if (byteLength === 4) bytes.writeUInt32LE(value);
  else bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function text(value: string): Buffer {
  return Buffer.concat([uint(Buffer.byteLength(value), 8), Buffer.from(value)]);
}

function tensor(name: string, dims: readonly number[], type: number, offset: number): Buffer {
  const shape = dims.map((dim) => uint(dim, 8));
  return Buffer.concat([
    text(name),
    uint(dims.length, 4),
    ...shape,
    uint(type, 4),
    uint(offset, 8),
  ]);
}

const VALUES = [
  Buffer.concat([text('general.architecture'), uint(8, 4), text('llama')]),
  Buffer.concat([text('general.alignment'), uint(4, 4), uint(64, 4)]),
  Buffer.concat([text('tokens'), uint(9, 4), uint(8, 4), uint(2, 8), text('a'), text('b')]),
  Buffer.concat([text('scores'), uint(9, 4), uint(6, 4), uint(3, 8), Buffer.alloc(12)]),
];
const TENSORS = [tensor('norm', [8], 0, 18 * 64), tensor('w', [64, 32], 2, 0)];

function header(
  version = 3,
  tensors: readonly Buffer[] = TENSORS,
  values: readonly Buffer[] = VALUES,
): Buffer {
  return Buffer.concat([
    Buffer.from('GGUF'),
    uint(version, 4),
    uint(tensors.length, 8),
    uint(values.length, 8),
    ...values,
    ...tensors,
  ]);
}

function listed(bytes: Uint8Array) {
  const path = temporaryPath('model.gguf');
  writeFileSync(path, bytes);
  return listGguf(path);
}

/** `GGMLQuantizationType` and `GGML_QUANT_SIZES` of gguf 0.19.0: number, name, elements and bytes of a block. */
const TYPES = JSON.parse(
  readFileSync(join(root, 'test/fixtures/gguf/types.json'), 'utf8'),
) as readonly [number, string, number, number][];

describe('a tensor of a GGUF file', () => {
  it.each(TYPES)('of type %i is %s', (number, name, elements, bytes) => {
    const { tensors } = listed(header(3, [tensor('w', [3 * elements, 5], number, 0)]));
    // Two numbers of 16 bits since 2024, before of 32, which the package still has.
    const blockByteLength = name === 'Q8_1' ? 36 : bytes;
    expect(tensors[0]).toMatchObject({
      ...{ dtype: name, shape: [5, 3 * elements], byteLength: 15 * blockByteLength },
    });
  });

  it('of a type that is not known has a number, and no bytes', () => {
    for (const number of [4, 5, 31, 32, 33, 36, 37, 38, 42]) {
      const { tensors } = listed(header(3, [tensor('w', [8], number, 0)]));
      expect(tensors[0]).toMatchObject({ dtype: `type ${number}`, byteLength: 0 });
    }
  });
});

describe('a GGUF file', () => {
  it('is listed by its header', () => {
    const start = header();
    const dataStart = Math.ceil(start.length / 64) * 64;
    const { tensors, metadata, dtypes, parameters, files } = listed(start);
    expect(tensors).toEqual([
      {
        ...{ name: 'w', dtype: 'Q4_0', shape: [32, 64], byteLength: 18 * 64 },
        ...{ offset: dataStart, file: 'model.gguf' },
      },
      {
        ...{ name: 'norm', dtype: 'F32', shape: [8], byteLength: 32 },
        ...{ offset: dataStart + 18 * 64, file: 'model.gguf' },
      },
    ]);
    expect(parameters).toBe(2056);
    expect(dtypes.get('Q4_0')).toEqual({ tensors: 1, parameters: 2048, byteLength: 1152 });
    expect([...(metadata ?? [])]).toEqual([
      ['general.architecture', 'llama'],
      ['general.alignment', '64'],
      ['tokens', '[2 items]'],
      ['scores', '[3 items]'],
    ]);
    expect(files).toEqual([
      { name: 'model.gguf', byteLength: start.length, tensors: 2, parameters: 2056 },
    ]);
  });

  it('that is cut short anywhere is an error', () => {
    const start = header();
    for (let length = 4; length < start.length; length++) {
      expect(() => listed(start.subarray(0, length)), String(length)).toThrow(/GGUF: /);
    }
  });

  it.each([
    ['version', header(1), /expected version 2 or 3, found 1/],
    [
      'count',
      Buffer.concat([Buffer.from('GGUF'), uint(3, 4), uint(2 ** 30, 8), uint(0, 8)]),
      /count of at most 1048576, found 1073741824/,
    ],
    ['rank', header(3, [tensor('w', Array(9).fill(1), 0, 0)]), /at most 8 dimensions/],
    ['elements', header(3, [tensor('w', [2 ** 40, 2 ** 40], 0, 0)]), /fewer elements/],
    [
      'row',
      header(3, [tensor('w', [33, 32], 2, 0)]),
      /whole blocks of 32, found the dimensions 32, 33/,
    ],
    ['type', header(3, [], [Buffer.concat([text('k'), uint(99, 4)])]), /type of values, found 99/],
    ['text', header(3, [], [uint(2 ** 40, 8)]), /a text of at most/],
    [
      'alignment',
      header(3, [], [Buffer.concat([text('general.alignment'), uint(4, 4), uint(0, 4)])]),
      /alignment in bytes, found 0/,
    ],
  ])('with a wrong %s is refused', (_, bytes, message) => {
    expect(() => listed(bytes)).toThrow(message);
  });
});
