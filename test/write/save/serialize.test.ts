import { constants } from 'node:buffer';
import { readFileSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { thrownBy } from '../../header/header-files.js';
import { anyText } from '../../support/any-text.js';
import {
  type Checkpoint,
  DTYPES,
  type Dtype,
  InvalidTensorError,
  type NewTensor,
  parse,
  safeOpen,
  serialize,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { arbitraryTensor, arbitraryTensors } from './arbitrary-tensors.js';

interface SerializerCase {
  readonly name: string;
  readonly tensors: readonly {
    readonly name: string;
    readonly dtype: Dtype;
    readonly shape: readonly number[];
    readonly data_hex: string;
  }[];
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly byte_exact: boolean;
  readonly output_len?: number;
  readonly output_hex: string | null;
  readonly error: string | null;
  readonly reread: string | null;
}

const { cases } = JSON.parse(
  readFileSync(new URL('../../fixtures/serializer-cases.json', import.meta.url), 'utf8'),
) as { cases: SerializerCase[] };

function tensorsOf({ tensors }: SerializerCase): [string, NewTensor<Dtype, never>][] {
  return tensors.map(({ name, dtype, shape, data_hex }) => [
    name,
    { dtype, shape, data: Buffer.from(data_hex, 'hex') },
  ]);
}

/** The contents of a file, in file order. */
function contentsOf(file: Checkpoint): unknown {
  return {
    metadata: file.metadata === null ? null : [...file.metadata],
    tensors: Array.from(file, ([name, tensor]) => [
      name,
      tensor.dtype,
      tensor.shape,
      Buffer.from(tensor.bytes).toString('hex'),
    ]),
  };
}

describe('serializer-cases.json', () => {
  test('all cases of the collection are there', () => {
    expect(cases.length).toBe(42);
  });

  const good = cases.filter(({ reread }) => reread === 'ok');
  const refused = cases.filter(({ error }) => error !== null);
  const unreadable = cases.filter((each) => !good.includes(each) && !refused.includes(each));

  test.each(good.map((each) => [each.name, each] as const))('%s', (_, each) => {
    const bytes = serialize(tensorsOf(each), { metadata: each.metadata });
    expect(bytes.length).toBe(each.output_len);
    if (each.byte_exact) expect(Buffer.from(bytes).toString('hex')).toBe(each.output_hex);
    const file = parse(bytes);
    expect(Object.fromEntries(file.metadata ?? [])).toEqual(each.metadata ?? {});
    expect(file.size).toBe(each.tensors.length);
    for (const { name, dtype, shape, data_hex } of each.tensors) {
      const tensor = file.getTensor(name);
      expect([tensor.dtype, tensor.shape]).toEqual([dtype, shape]);
      expect(Buffer.from(tensor.bytes).toString('hex')).toBe(data_hex);
    }
  });

  test.each(refused.map((each) => [each.name, each] as const))('%s is refused', (_, each) => {
    expect(() => serialize(tensorsOf(each), { metadata: each.metadata })).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_INVALID_TENSOR_VIEW', tensor: 'x' }),
    );
  });

  test('what the reference cannot reread are its known defects', () => {
    expect(unreadable.map(({ name }) => name.replace(/ \(.*/, ''))).toEqual([
      'no-tensors-empty-metadata',
      'reserved-name __metadata__',
      'reserved-name with metadata',
    ]);
  });
});

describe('defects of the reference', () => {
  test('empty metadata without tensors is a file that can be read', () => {
    const bytes = serialize({}, { metadata: {} });
    expect(new TextDecoder().decode(bytes.subarray(8)).trimEnd()).toBe('{"__metadata__":{}}');
    const file = parse(bytes);
    expect(file.size).toBe(0);
    expect(file.metadata).toEqual(new Map());
  });

  test.each([null, { a: 'b' }])(
    'a tensor called __metadata__ is refused, metadata %o',
    (metadata) => {
      const tensor = { dtype: 'U8', shape: [1], data: new Uint8Array(1) } as const;
      const error = thrownBy(() => serialize({ __metadata__: tensor }, { metadata }));
      expect(error).toBeInstanceOf(InvalidTensorError);
      expect(error).toMatchObject({ tensor: '__metadata__' });
    },
  );

  test('values come in the order of the logical shape, also those of a transposed slice', () => {
    const file = parse(
      serialize({ m: { dtype: 'U8', shape: [2, 3], data: Uint8Array.of(1, 2, 3, 4, 5, 6) } }),
    );
    const column = file.getSlice('m', null, [1, 3]);
    const again = parse(serialize({ column, reversed: file.getSlice('m', [0, 2], 2) }));
    expect(again.getTensor('column').shape).toEqual([2, 2]);
    expect([...again.getTensor('column').bytes]).toEqual([2, 3, 5, 6]);
    expect([...again.getTensor('reversed').bytes]).toEqual([3, 6]);
  });

  test('the given metadata stays as it was', () => {
    const metadata = Object.freeze({ b: '1', a: '2' });
    const map = new Map(Object.entries(metadata));
    serialize({}, { metadata });
    serialize({}, { metadata: map });
    expect([...map]).toEqual(Object.entries(metadata));
  });

  test('equal metadata in any order gives equal bytes', () => {
    const keys = Array.from({ length: 8 }, (_, i) => [`key${i}`, String(i)] as const);
    const bytes = serialize({}, { metadata: keys });
    expect(serialize({}, { metadata: keys.toReversed() })).toEqual(bytes);
    expect([...(parse(bytes).metadata ?? [])]).toEqual(keys);
  });
});

const HOSTILE_NAMES = [
  '',
  '10',
  '9',
  '__proto__',
  'constructor',
  '😀',
  'ﬁ',
  '\0',
  '"',
  '\\',
  '\u2028',
  '\ufeff',
  '\u007f',
  '__metadata__ ',
];

const text = fc.oneof(fc.constantFrom(...HOSTILE_NAMES), anyText());

const tensors = arbitraryTensors(30, arbitraryTensor(), text);

const metadata = fc.option(fc.uniqueArray(fc.tuple(text, text), { selector: ([key]) => key }));

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

describe('serialize', () => {
  test('gives what parse reads, sorted as the reference sorts', () => {
    const ranks = Object.keys(DTYPES);
    fc.assert(
      fc.property(tensors, metadata, (pairs, entries) => {
        const file = parse(serialize(pairs, { metadata: entries }));
        const sorted = pairs.toSorted(
          ([a, { dtype: dtypeA }], [b, { dtype: dtypeB }]) =>
            ranks.indexOf(dtypeB) - ranks.indexOf(dtypeA) || compareBytes(a, b),
        );
        expect(contentsOf(file)).toEqual({
          metadata: entries?.toSorted(([a], [b]) => compareBytes(a, b)) ?? null,
          tensors: sorted.map(([name, { dtype, shape, data }]) => [
            name,
            dtype,
            shape,
            Buffer.from(data).toString('hex'),
          ]),
        });
        for (const [name, { dtype }] of pairs) {
          const [begin] = file.info(name).dataOffsets;
          expect(begin % Math.max(1, DTYPES[dtype].bits / 8)).toBe(0);
        }
      }),
    );
  });

  test('equal input in any order and form gives equal bytes', () => {
    fc.assert(
      fc.property(tensors, metadata, fc.infiniteStream(fc.nat()), (pairs, entries, random) => {
        const bytes = serialize(pairs, { metadata: entries });
        const shuffled = pairs
          .map((pair) => ({ pair, key: random.next().value as number }))
          .sort((a, b) => a.key - b.key)
          .map(({ pair }) => pair);
        const again = { metadata: entries?.toReversed() ?? null };
        expect(serialize(shuffled, again)).toEqual(bytes);
        expect(serialize(new Map(shuffled), again)).toEqual(bytes);
        const object = Object.create(null);
        for (const [name, each] of shuffled) object[name] = each;
        expect(serialize(object, again)).toEqual(bytes);
        // A file as it is.
        const file = parse(bytes);
        expect(serialize(file, { metadata: file.metadata })).toEqual(bytes);
      }),
    );
  });

  test('alignment and reserve change the padding only', () => {
    const data = Uint8Array.of(1, 2, 3);
    const bytes = serialize({ a: { dtype: 'U8', shape: [3], data } }, { alignment: 256 });
    expect(bytes.length).toBe(256 + 3);
    expect(parse(bytes).getTensor('a').byteOffset).toBe(256);
    const reserved = serialize({ a: { dtype: 'U8', shape: [3], data } }, { reserve: 1000 });
    expect(new TextDecoder().decode(reserved.subarray(8, -3))).toMatch(/[^ ] {1000,1007}$/);
    expect(contentsOf(parse(reserved))).toEqual(contentsOf(parse(bytes)));
  });

  test('the result has a buffer of its own', () => {
    const data = new Float32Array([1, 2]);
    const bytes = serialize({ a: { dtype: 'F32', shape: [2], data } });
    expect(bytes.byteOffset).toBe(0);
    expect(bytes.buffer.byteLength).toBe(bytes.length);
    data[0] = 3;
    expect(parse(bytes).getTensor('a').data).toEqual(new Float32Array([1, 2]));
  });

  test.each(['mmap', 'read'] as const)('takes tensors of an open file (%s)', (storage) => {
    const tensors = {
      a: { dtype: 'F32', shape: [3], data: Float32Array.of(1, 2, 3) },
      b: { dtype: 'U8', shape: [5], data: Uint8Array.of(4, 5, 6, 7, 8) },
    } as const;
    const path = temporaryPath('model.safetensors');
    writeFileSync(path, serialize(tensors));
    using file = safeOpen(path, { storage });
    expect(serialize(file)).toEqual(serialize(tensors));
    // One from memory, one from the file.
    file.getTensor('a').data;
    expect(serialize(file)).toEqual(serialize(tensors));
  });

  test('more bytes than one buffer or the address space holds are an error', () => {
    // No address space has 2^48 bytes.
    const count = Math.min(constants.MAX_LENGTH, 2 ** 48) / 2 ** 32 + 1;
    const data = new ArrayBuffer(2 ** 32);
    const pairs = Array.from({ length: count }, (_, i): [string, NewTensor<Dtype, never>] => [
      String(i),
      { dtype: 'U8', shape: [2 ** 32], data },
    ]);
    // Node 22 and later set no limit that is lower.
    const error =
      constants.MAX_LENGTH < 2 ** 48
        ? {
            name: 'RangeError',
            code: 'ERR_OUT_OF_RANGE',
            message: expect.stringMatching(/^the result must be at most \d+ bytes, as one buffer/),
          }
        : {
            code: 'SAFETENSORS_OUT_OF_MEMORY',
            message: expect.stringMatching(/^not enough memory for a copy of \d{15} bytes$/),
          };
    expect(() => serialize(pairs)).toThrow(expect.objectContaining(error));
  });

  test.each([undefined, null, 'text', 3, new Uint8Array(3)])('%o is refused', (value) => {
    expect(() => serialize(value as never)).toThrow(
      expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' }),
    );
  });
});
