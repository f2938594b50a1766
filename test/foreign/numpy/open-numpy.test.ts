/** openNumpy with broken files, wrong options and large arrays. */
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { openNumpy } from '../../../src/foreign/numpy/open-numpy.js';
import { fileBytes } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { writeArchive } from '../generated-archive.js';
import { manyArrays } from '../hostile-files.js';
import { fixturePath } from '../torch/fixtures.js';
import { headerOf, npy, written } from './arrays.js';

function codeOf(open: () => unknown): string {
  try {
    open();
  } catch (error) {
    if (error instanceof FormatError) return error.code;
    throw error;
  }
  return 'none';
}

const open = (bytes: Uint8Array) => (): unknown => openNumpy(written(bytes));
const INVALID = 'SAFETENSORS_INVALID_NUMPY';

describe('the data', () => {
  test.each([23, 25])('of %i bytes instead of 24 is refused', (length) => {
    expect(codeOf(open(npy(headerOf('<f4', '(2, 3)'), Buffer.alloc(length))))).toBe(INVALID);
  });

  test('cut short anywhere is refused', () => {
    const bytes = npy(headerOf('<f4', '(2, 3)'), Buffer.alloc(24));
    for (let length = 8; length < bytes.length; length++) {
      expect(codeOf(open(bytes.subarray(0, length))), `${length}`).toBe(INVALID);
    }
  });

  test('of one dimension of no items takes none', () => {
    using file = openNumpy(
      written(npy(headerOf('<f8', '(0, 9007199254740991)'), Buffer.alloc(0))),
      {},
    );
    expect(file.getTensor('').bytes.length).toBe(0);
  });

  test('in C order is a view of the mapped file', () => {
    using file = openNumpy(written(npy(headerOf('<i2', '(3,)'), Buffer.from([1, 0, 2, 0, 3, 0]))));
    const tensor = file.getTensor('').expectDtype('I16');
    expect([...tensor.data]).toEqual([1, 2, 3]);
    expect(file.storage).toBe('mmap');
    expect(tensor.buffer).toBe(file.getTensor('').buffer);
  });
});

describe('the header', () => {
  test.each<[string, string]>([
    ['an expression', "{'descr': '<f4', 'fortran_order': False, 'shape': (2*3,), }"],
    ['a call', "{'descr': '<f4', 'fortran_order': False, 'shape': tuple([6]), }"],
    ['a name', "{'descr': '<f4', 'fortran_order': false, 'shape': (6,), }"],
    [
      'a duplicate key',
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,), }",
    ],
    ['an escape', "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (6,), }"],
    ['a number in brackets', "{'descr': '<f4', 'fortran_order': False, 'shape': (6), }"],
    [
      'a number with a zero before it',
      "{'descr': '<f4', 'fortran_order': False, 'shape': (06,), }",
    ],
    ['a number with underscores', "{'descr': '<f4', 'fortran_order': False, 'shape': (0_6,), }"],
    ['a fraction', "{'descr': '<f4', 'fortran_order': False, 'shape': (6.0,), }"],
    ['a comment', "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } # six"],
    ['a second dictionary', "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } {}"],
    ['two commas', "{'descr': '<f4',, 'fortran_order': False, 'shape': (6,), }"],
    [
      'a number of a thousand digits',
      `{'descr': '<f4', 'fortran_order': False, 'shape': (${'9'.repeat(1000)},), }`,
    ],
    ['nothing', ''],
  ])('with %s is refused', (_, header) => {
    expect(codeOf(open(npy(header, Buffer.alloc(24))))).toBe(INVALID);
  });

  test.each<[string, string]>([
    [
      'other quotes, order and blanks',
      `{"shape":(6 , ),\n "descr" :"<f4", 'fortran_order':False}   \n`,
    ],
    ['long integers of Python 2', "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }"],
  ])('with %s is read', (_, header) => {
    expect(codeOf(open(npy(header, Buffer.alloc(24))))).toBe('none');
  });

  test('of version 3 is UTF-8, without long integers', () => {
    const header = headerOf('<f4', '(6,)');
    expect(codeOf(open(npy(header, Buffer.alloc(24), [3, 0])))).toBe('none');
    expect(codeOf(open(npy(header.replace('6,', '6L,'), Buffer.alloc(24), [3, 0])))).toBe(INVALID);
    const broken = Buffer.concat([Buffer.from(header), Buffer.of(0xff)]);
    expect(codeOf(open(npy(broken, Buffer.alloc(24), [3, 0])))).toBe(INVALID);
    expect(codeOf(open(npy(header, Buffer.alloc(24), [1, 1])))).toBe(INVALID);
  });

  test('is refused above 10 000 bytes, as by NumPy; below it is read in whatever window', () => {
    const header = (length: number): string => headerOf('<f4', '(6,)').padEnd(length);
    expect(codeOf(open(npy(header(10_000), Buffer.alloc(24), [2, 0])))).toBe('none');
    expect(codeOf(open(npy(header(10_001), Buffer.alloc(24), [2, 0])))).toBe(
      'SAFETENSORS_FOREIGN_LIMIT',
    );
    const lie = npy('', Buffer.alloc(24), [2, 0]);
    lie.writeUInt32LE(0xffffffff, 8);
    expect(codeOf(open(lie))).toBe('SAFETENSORS_FOREIGN_LIMIT');
  });

  test('is refused when all those of an archive are longer than arrays need', () => {
    const archive = (length: number, count: number): Buffer => {
      const data = npy(headerOf('<f4', '(1,)').padEnd(length), Buffer.alloc(4));
      const files = Array.from({ length: count }, (_, i) => {
        return { name: `a${i}.npy`, data, isDeflated: i % 2 === 0 };
      });
      return writeArchive(files, new Random(1, 0));
    };
    const opened = (length: number, count: number, maxEntries?: number): unknown => {
      const path = written(archive(length, count), 'a.npz');
      return codeOf(() => openNumpy(path, { limits: { maxEntries } }).close());
    };
    expect(opened(9000, 100)).toBe('none');
    expect(opened(9000, 200, 200)).toBe('SAFETENSORS_FOREIGN_LIMIT');
    expect(opened(9000, 200, 10_000)).toBe('none');
  });

  test('of items that safetensors has no dtype for says what was found', () => {
    const opened = (descr: string): unknown =>
      open(npy(headerOf(descr, '(1,)'), Buffer.alloc(16)))();
    expect(() => opened('|O')).toThrow('a pickle');
    expect(() => opened('<c16')).toThrow('"<c16"');
    expect(() => opened('<V2')).toThrow('voidDtype');
    for (const descr of [
      '|f4',
      'f4',
      '<f3',
      '<f1',
      '>U4',
      '<M8[ns]',
      '__proto__',
      '<constructor',
    ]) {
      expect(() => opened(descr)).toThrow(FormatError);
    }
  });
});

describe('a file', () => {
  test.each<[string, Uint8Array]>([
    ['an empty file', new Uint8Array(0)],
    ['a safetensors file', fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }])],
    ['a Python pickle', Buffer.from('\x80\x04K\x01.', 'latin1')],
    ['a gzip archive', Buffer.from('\x1f\x8b\x08\0\0\0', 'latin1')],
  ])('that is %s is refused as such', (what, bytes) => {
    expect(open(bytes)).toThrow(what);
    expect(codeOf(open(bytes))).toBe('SAFETENSORS_FOREIGN_FORMAT');
  });

  test('is named in errors, and the array too', () => {
    expect(open(npy(headerOf('|O', '(1,)'), Buffer.alloc(8)))).toThrow(/array\.npy: tensor "": /);
  });
});

test('an archive of no arrays is refused as what it is', () => {
  const path = written(Buffer.from(`PK\x05\x06${'\0'.repeat(18)}`, 'latin1'), 'empty.npz');
  expect(codeOf(() => openNumpy(path))).toBe('SAFETENSORS_FOREIGN_FORMAT');
  expect(() => openNumpy(path)).toThrow('an empty zip archive');
});

test.each([
  ['w', 'w.npy'],
  ['w.npy', 'w'],
  ['w.npy', 'w.npy.npy'],
  ['w.npy.npy', 'v', 'w.npy'],
])('an archive of %s and %s is refused: NumPy finds two arrays by one name', (...names) => {
  const data = npy(headerOf('<f4', '(6,)'), Buffer.alloc(24));
  const files = names.map((name) => ({ name, data, isDeflated: false }));
  const path = written(writeArchive(files, new Random(1, 0)), 'names.npz');
  expect(() => openNumpy(path)).toThrow(
    expect.objectContaining({
      code: 'SAFETENSORS_INVALID_ARCHIVE',
      message: expect.stringContaining('with and without .npy'),
    }),
  );
});

test('an array whose own name ends so is called so', () => {
  const data = npy(headerOf('<f4', '(6,)'), Buffer.alloc(24));
  const files = [{ name: 'w.npy.npy', data, isDeflated: false }];
  using file = openNumpy(written(writeArchive(files, new Random(1, 0)), 'name.npz'));
  expect(file.keys()).toEqual(['w.npy']);
});

test('of an archive of torch the error names its function', () => {
  expect(() => openNumpy(fixturePath('zip-state-dict.pt'))).toThrow(
    expect.objectContaining({
      code: 'SAFETENSORS_FOREIGN_FORMAT',
      message: expect.stringContaining('found a PyTorch file, which open() reads by its path'),
    }),
  );
});

describe('options', () => {
  const path = (): string => written(npy(headerOf('<f4', '(6,)'), Buffer.alloc(24)));

  test('that do not exist, or are of the wrong kind, are refused', () => {
    expect(() => openNumpy(path(), { allowPickle: true } as never)).toThrow('allowPickle');
    expect(() => openNumpy(path(), { voidDtype: 'F32' as never })).toThrow(RangeError);
    expect(() => openNumpy(path(), { limits: { maxEntries: 0 } })).toThrow(RangeError);
    expect(() => openNumpy(path(), { maxEntries: 3 } as never)).toThrow(
      '; it is limits.maxEntries',
    );
    // A limit of torch files.
    expect(() => openNumpy(path(), { maxDepth: 3 } as never)).toThrow(
      'unknown option "maxDepth"; the options are ',
    );

    expect(() => openNumpy(path(), { limits: { maxTensorByteLength: '9' as never } })).toThrow(
      TypeError,
    );
    expect(() => openNumpy(path(), { storage: 'memory' as never })).toThrow(RangeError);
  });

  test('limit the arrays of an archive', () => {
    const bytes = manyArrays(3);
    const path = written(bytes, 'arrays.npz');
    expect(codeOf(() => openNumpy(path, { limits: { maxEntries: 2 } }))).toBe(
      'SAFETENSORS_FOREIGN_LIMIT',
    );
    expect(() => openNumpy(path, { limits: { maxEntries: 2 } })).toThrow('limits.maxEntries');
    expect(openNumpy(path, { limits: { maxEntries: 3 } }).size).toBe(3);
    // The number of entries, as the archive's end says.
    const end = bytes.length - 22;
    for (const at of [8, 10]) bytes.writeUInt16LE(40_001, end + at);
    const many = written(bytes, 'many.npz');
    expect(() => openNumpy(many)).toThrow('at most 40000 entries (limits.maxEntries), found 40001');
    const larger = { limits: { maxEntries: 40_001 } };
    expect(codeOf(() => openNumpy(many, larger))).toBe('SAFETENSORS_INVALID_ARCHIVE');
  });

  test('limit what an array may take', () => {
    expect(codeOf(() => openNumpy(path(), { limits: { maxTensorByteLength: 23 } }))).toBe(
      'SAFETENSORS_FOREIGN_LIMIT',
    );
    expect(() => openNumpy(path(), { limits: { maxTensorByteLength: 23 } })).toThrow(
      'limits.maxTensorByteLength',
    );
  });
});
