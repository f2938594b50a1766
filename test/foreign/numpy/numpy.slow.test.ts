/** Next to numpy: arrays that it wrote have the same bytes, and headers that are read mean the same to it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { parseNpyHeader } from '../../../src/foreign/numpy/npy-header.js';
import { openNumpy } from '../../../src/foreign/numpy/open-numpy.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { npy } from './arrays.js';

const python = findPython('numpy', 'ml_dtypes');
if (isSkipped(python)) process.stderr.write(`foreign/numpy: skipped: ${python.missing}\n`);

const WRITE = `
import json, os, sys, warnings
import numpy as np, ml_dtypes
rng = np.random.default_rng(14)
kinds = 'f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1 c8'.split()
shapes = [(), (1,), (0,), (7,), (2, 3), (3, 0, 2), (4, 1, 5), (2, 3, 4, 5), (1,) * 8, (3, 2, 1, 2, 2)]
files, arrays, compressed = [], {}, {}
def add(name, array):
    path = os.path.join(sys.argv[1], name + '.npy')
    np.save(path, array)
    plain = np.ascontiguousarray(array).reshape(array.shape).astype(array.dtype.newbyteorder('<'))
    files.append({'path': path, 'shape': array.shape, 'bytes': plain.tobytes().hex()})
    (arrays if len(files) % 2 else compressed)[name] = array
for kind in kinds:
    for order in '<>':
        dtype = np.dtype(order + kind)
        for index, shape in enumerate(shapes):
            raw = rng.bytes(int(np.prod(shape, dtype=int)) * dtype.itemsize)
            if kind == 'b1': raw = bytes(byte & 1 for byte in raw)
            array = np.frombuffer(raw, dtype).reshape(shape)
            letter = 'b' if order == '>' else 'l'
            add(f'{kind}{letter}{index}', array)
            add(f'{kind}{letter}{index}F', np.asfortranarray(array))
np.savez(os.path.join(sys.argv[1], 'stored.npz'), **arrays)
np.savez_compressed(os.path.join(sys.argv[1], 'deflated.npz'), **compressed)
np.save(os.path.join(sys.argv[1], 'bf16.npy'), np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16))
np.save(os.path.join(sys.argv[1], 'f8.npy'), np.arange(6).astype(ml_dtypes.float8_e4m3fn))
json.dump(files, open(os.path.join(sys.argv[1], 'files.json'), 'w'))
`;

const READ = `
import io, json, sys, warnings
from numpy.lib import _format_impl as reader
warnings.simplefilter('ignore')
answers = []
for text in json.load(open(sys.argv[1])):
    data = bytes.fromhex(text)
    try:
        file = io.BytesIO(data)
        version = reader.read_magic(file)
        shape, fortran, dtype = reader._read_array_header(file, version, max_header_size=70000)
        answers.append({'shape': [str(n) for n in shape], 'fortran': fortran, 'dtype': dtype.str, 'at': file.tell()})
    except Exception as error:
        answers.append(str(error)[:200])
print(json.dumps(answers))
`;

interface Written {
  readonly path: string;
  readonly shape: readonly number[];
  readonly bytes: string;
}

describe.skipIf(isSkipped(python))(titleWith(python, 'numpy'), () => {
  test('arrays of every dtype, order and rank have the same shapes and bytes', () => {
    const folder = dirname(temporaryPath('arrays'));
    runPython(python, ['-c', WRITE, folder]);
    const files: readonly Written[] = JSON.parse(readFileSync(`${folder}/files.json`, 'utf8'));
    expect(files.length).toBe(13 * 2 * 10 * 2);
    const stored = openNumpy(`${folder}/stored.npz`);
    const deflated = openNumpy(`${folder}/deflated.npz`);
    for (const [index, { path, shape, bytes }] of files.entries()) {
      const name = path.slice(folder.length + 1, -'.npy'.length);
      using file = openNumpy(path, { storage: index % 3 === 0 ? 'read' : undefined });
      for (const tensor of [file.getTensor(''), (index % 2 ? deflated : stored).getTensor(name)]) {
        expect(tensor.shape, name).toEqual(shape);
        expect(Buffer.from(tensor.bytes).toString('hex'), name).toBe(bytes);
      }
    }
    stored.close();
    deflated.close();
    using bf16 = openNumpy(`${folder}/bf16.npy`, { voidDtype: 'BF16' });
    expect([...bf16.getTensor('').toFloat32()]).toEqual([0, 1, 2, 3, 4, 5]);
    using f8 = openNumpy(`${folder}/f8.npy`, { voidDtype: 'F8_E4M3' });
    expect([...f8.getTensor('').toFloat32()]).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('headers that are read mean the same to numpy', () => {
    const blank = fc.constantFrom('', '', ' ', '\n', '  ', '\t');
    const integer = fc.oneof(
      fc.nat(12).map(String),
      fc.constantFrom(
        '03',
        '3L',
        '-1',
        '+2',
        '1_0',
        '0x3',
        '2.0',
        '00',
        '1e3',
        'True',
        '"3"',
        '(1,)',
      ),
    );
    const tuple = fc
      .tuple(fc.array(integer, { maxLength: 4 }), blank, fc.constantFrom('', ',', ',,'))
      .map(([items, space, end]) => `(${items.join(`,${space}`)}${end})`);
    const usualTuple = fc
      .array(fc.nat(9), { maxLength: 4 })
      .map((items) => (items.length === 1 ? `(${items},)` : `(${items.join(', ')})`));
    const value = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.constantFrom(
          "'<f4'",
          "'>i8'",
          "'|u1'",
          '"<c8"',
          "'|b1'",
          "'=f2'",
          "'f4'",
          "'<f16'",
        ),
      },
      { weight: 4, arbitrary: fc.constantFrom('True', 'False') },
      { weight: 6, arbitrary: usualTuple },
      { weight: 2, arbitrary: tuple },
      {
        weight: 1,
        arbitrary: fc.constantFrom(
          'None',
          '1',
          "'<f' '4'",
          '[]',
          'true',
          "b'<f4'",
          "'\\x3cf4'",
          'u"<f4"',
        ),
      },
    );
    const pair = (key: string, usual: fc.Arbitrary<string>) =>
      fc
        .tuple(
          fc.oneof({ weight: 15, arbitrary: usual }, { weight: 1, arbitrary: value }),
          blank,
          blank,
        )
        .map(([text, a, b]) => `'${key}'${a}:${b}${text}`);
    const dictionary = fc
      .tuple(
        pair('descr', fc.constantFrom("'<f4'", "'>i8'", "'|u1'", '"<c8"', "'=f2'")),
        pair('fortran_order', fc.constantFrom('True', 'False')),
        pair('shape', fc.oneof(usualTuple, tuple)),
        fc.oneof(
          { weight: 12, arbitrary: fc.constant('') },
          { weight: 1, arbitrary: fc.constantFrom("'x': 1", "'descr': '<f8'") },
        ),
        fc.nat(5),
        fc.array(blank, { minLength: 4, maxLength: 4 }),
        fc.constantFrom('', ',', ', '),
        fc.oneof(
          { weight: 12, arbitrary: fc.constantFrom('', '   \n') },
          { weight: 1, arbitrary: fc.constantFrom('#', '\0', '}', '\\\n', '\u00a0') },
        ),
      )
      .map(([descr, order, shape, more, turn, [a, b, c, d], last, end]) => {
        const pairs = [descr, order, shape, more].filter((text) => text !== '');
        const turned = [
          ...pairs.slice(turn % pairs.length),
          ...pairs.slice(0, turn % pairs.length),
        ];
        return `${a}{${b}${turned.join(`,${c}`)}${last}${d}}${end}`;
      });
    const mutated = fc
      .tuple(
        dictionary,
        fc.nat(),
        fc.constantFrom(
          '',
          '(',
          ')',
          ',',
          "'",
          '"',
          ' ',
          '\n',
          'L',
          '0',
          ':',
          '-',
          '\t',
          '\r',
          '\f',
          '#',
        ),
      )
      .map(([text, at, inserted]) => {
        const begin = at % (text.length + 1);
        return text.slice(0, begin) + inserted + text.slice(begin + (at % 2));
      });
    const headers = fc.sample(
      fc.tuple(
        fc.oneof(dictionary, mutated),
        fc.constantFrom<[number, number]>([1, 0], [2, 0], [3, 0]),
      ),
      { numRuns: 4000, seed: 14 },
    );
    const bytes = headers.map(([text, version]) =>
      npy(Buffer.from(text, version[0] === 3 ? 'utf8' : 'latin1'), Buffer.alloc(0), version),
    );
    const path = temporaryPath('headers.json');
    writeFileSync(path, JSON.stringify(bytes.map((one) => one.toString('hex'))));
    const answers: readonly unknown[] = JSON.parse(runPython(python, ['-c', READ, path]));
    let read = 0;
    for (const [index, one] of bytes.entries()) {
      let header: ReturnType<typeof parseNpyHeader>;
      try {
        header = parseNpyHeader(one, undefined, {});
      } catch (error) {
        if (!(error instanceof FormatError)) throw error;
        continue;
      }
      if (header instanceof FormatError) continue;
      read++;
      const { shape, isBigEndian, strides, dataBegin } = header;
      expect({ shape: shape.map(String), at: dataBegin, text: headers[index] }).toEqual({
        ...pick(answers[index]),
        text: headers[index],
      });
      const { dtype, fortran } = answers[index] as { dtype: string; fortran: boolean };
      expect(dtype.startsWith('>')).toBe(isBigEndian && header.itemByteLength > 1);
      const isFortran =
        shape.length > 1 && shape.every((size) => size > 1) ? strides[0] === 1 : fortran;
      expect(fortran).toBe(isFortran);
    }
    expect(read).toBeGreaterThan(500);
  });
});

function pick(answer: unknown): object {
  if (typeof answer === 'string') return { refused: answer };
  const { shape, at } = answer as { shape: readonly string[]; at: number };
  return { shape, at };
}
