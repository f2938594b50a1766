import { describe, expect, it } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { allPickleLimits, type PickleLimits } from '../../../src/foreign/pickle/limits.js';
import { readPickle } from '../../../src/foreign/pickle/machine.js';
import {
  PickleBytes,
  PickleFloat,
  type PickleList,
  type PickleMap,
  type PickleSet,
  type PickleValue,
  Placeholder,
} from '../../../src/foreign/pickle/values.js';
import { Called, host, pickle, pickle2, unicode } from './pickle-bytes.js';

function read(bytes: Uint8Array, limits: PickleLimits = {}): PickleValue {
  const { value, end } = readPickle(bytes, 0, host, allPickleLimits(limits), { path: 'x.pt' });
  expect(end).toBe(bytes.length);
  return value;
}

function refusal(bytes: Uint8Array, limits: PickleLimits = {}): FormatError {
  try {
    read(bytes, limits);
  } catch (error) {
    if (error instanceof FormatError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('readPickle', () => {
  it('reads numbers, texts and bytes of every form', () => {
    expect(read(pickle2('N.'))).toBe(null);
    expect(read(pickle2('\x88.'))).toBe(true);
    expect(read(pickle2('J\xfe\xff\xff\xff.'))).toBe(-2);
    expect(read(pickle2('K\xff.'))).toBe(255);
    expect(read(pickle2('M\x01\x02.'))).toBe(513);
    expect(read(pickle2('\x8a\x00.'))).toBe(0);
    expect(read(pickle2('\x8a\x03\x00\x00\x80.'))).toBe(-8388608);
    expect(read(pickle2('\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.'))).toBe(2n ** 63n - 1n);
    expect(read(pickle2('\x8a\x08\x01\x00\x00\x00\x00\x00\x10\x00.'))).toBe(2 ** 52 + 1);
    expect(read(pickle2('G\x3f\xf8\0\0\0\0\0\0.'))).toEqual(new PickleFloat(1.5));
    expect(read(pickle2('X\x03\0\0\0\xe5\xb1\x82.'))).toBe('层');
    expect(read(pickle2('X\x03\0\0\0\xef\xbb\xbf.'))).toBe('\ufeff');
    expect(read(pickle2('U\x02ab.'))).toBe('ab');
    expect(read(pickle('\x80\x04\x8c\x02ab.'))).toBe('ab');
    expect(read(pickle('\x80\x04\x8d\x02\0\0\0\0\0\0\0ab.'))).toBe('ab');
    expect(read(pickle('\x80\x03C\x02\x00\xff.'))).toEqual(new PickleBytes(Uint8Array.of(0, 255)));
  });

  it('reads containers, and keeps the order of keys', () => {
    expect(read(pickle2('(K\x01\x85K\x02K\x03\x86t.'))).toEqual([[1], [2, 3]]);
    const list = read(pickle2(']K\x01a(K\x02K\x03e.')) as PickleList;
    expect(list.items).toEqual([1, 2, 3]);
    const map = read(
      pickle2(
        '}',
        unicode('10'),
        'K\x01s(',
        unicode('2'),
        'K\x02',
        unicode('__proto__'),
        'K\x03u.',
      ),
    );
    expect([...(map as PickleMap)]).toEqual([
      ['10', 1],
      ['2', 2],
      ['__proto__', 3],
    ]);
    const set = read(pickle('\x80\x04\x8f(K\x01K\x02K\x01\x90.')) as PickleSet;
    expect([...set]).toEqual([1, 2]);
  });

  it('takes 1, 1.0 and True for one key, and equal tuples', () => {
    const map = read(
      pickle2(
        '}(K\x01K\x07\x88K\x08G\x3f\xf0\0\0\0\0\0\0K\x09K\x01K\x02\x86K\x01K\x01K\x02\x86K\x05u.',
      ),
    ) as PickleMap;
    expect([...map]).toEqual([
      [1, 9],
      [[1, 2], 5],
    ]);
    expect(map.get(1)).toBe(9);
  });

  it('recalls what was memoized, by any number', () => {
    expect(read(pickle2(unicode('a'), 'q\x00r\x09\0\0\0h\x00j\x09\0\0\0\x87.'))).toEqual([
      'a',
      'a',
      'a',
    ]);
    expect(read(pickle('\x80\x04N\x94h\x00\x86.'))).toEqual([null, null]);
  });

  it('calls nothing itself: the host makes what calls give', () => {
    const made = read(pickle2('cgood\nfn\nK\x01\x85R.'));
    expect(made).toEqual(new Called('good.fn', [1]));
    expect(read(pickle('\x80\x04\x8c\x04good\x8c\x02fn\x93)\x81.'))).toEqual(
      new Called('good.fn', []),
    );
    expect(read(pickle2(unicode('a'), 'Q.'))).toEqual(new Called('persistent', ['a']));
  });

  it('keeps what unknown globals would have made as data', () => {
    const made = read(
      pickle2('clater\nThing\nK\x01\x85R(', unicode('k'), 'K\x02uK\x03aK\x04b.'),
    ) as Placeholder;
    expect(made).toBeInstanceOf(Placeholder);
    expect([made.global.path, made.args, made.state]).toEqual(['later.Thing', [1], 4]);
    expect([[...made.entries], made.items.items]).toEqual([[['k', 2]], [3]]);
  });

  it('refuses a forbidden global, and names all others of the pickle', () => {
    const error = refusal(
      pickle2('cgood\nfn\ncos\nsystem\n', unicode('x'), '\x85Rcbuiltins\neval\n\x86.'),
    );
    expect(error.code).toBe('SAFETENSORS_FORBIDDEN_GLOBAL');
    expect(error.message).toContain('"os.system" (byte 11), "builtins.eval" (byte 30)');
  });

  it.each([
    ['no protocol', 'N.'],
    ['protocol 1', '\x80\x01N.'],
    ['protocol 99', '\x80\x63N.'],
    ['a second protocol', '\x80\x02\x80\x02N.'],
    ['no end', '\x80\x02N'],
    ['nothing', ''],
    ['two values', '\x80\x02NN.'],
    ['no value', '\x80\x02.'],
    ['an open mark', '\x80\x02(N.'],
    ['a tuple without its mark', '\x80\x02Nt.'],
    ['a tuple across a mark', '\x80\x02N(\x85.'],
    ['an append to None', '\x80\x02NNa.'],
    ['an item for a list', '\x80\x02]NNs.'],
    ['a key without a value', '\x80\x02}(Nu.'],
    ['a list as a key', '\x80\x02}]Ns.'],
    ['a call of a text', '\x80\x02U\x01a)R.'],
    ['a call without a tuple', '\x80\x02cgood\nfn\nNR.'],
    ['a value that was not memoized', '\x80\x02h\x05.'],
    ['bytes that are no UTF-8', '\x80\x02X\x01\0\0\0\xff.'],
    ['a text beyond the end', '\x80\x02X\xff\xff\xff\xff.'],
    ['a text of 2^60 bytes', '\x80\x04\x8d\0\0\0\0\0\0\0\x10.'],
    ['a frame beyond the end', '\x80\x04\x95\xff\0\0\0\0\0\0\0N.'],
    ['OBJ', '\x80\x02(cgood\nfn\no.'],
    ['INST', '\x80\x02(igood\nfn\n.'],
    ['EXT1', '\x80\x02\x82\x01.'],
    ['NEXT_BUFFER', '\x80\x05\x97.'],
    ['PERSID', '\x80\x02Pa\n.'],
    ['INT', '\x80\x02I1\n.'],
    ['LONG4', '\x80\x02\x8b\x01\0\0\0\x01.'],
    ['no opcode', '\x80\x02\xff.'],
    ['a name without an end', '\x80\x02cgood'],
  ])('refuses %s', (_, text) => {
    expect(refusal(pickle(text)).code).toBe('SAFETENSORS_INVALID_PICKLE');
  });

  it('refuses what asks for too much, by the name of the limit', () => {
    const limitOf = (bytes: Uint8Array, limits?: PickleLimits): string => {
      const error = refusal(bytes, limits);
      expect(error.code).toBe('SAFETENSORS_FOREIGN_LIMIT');
      return error.message;
    };
    expect(limitOf(pickle2('('.repeat(501)))).toContain('maxDepth');
    expect(limitOf(pickle2('N0'.repeat(99), 'N.'), { maxOpcodes: 100 })).toContain('maxOpcodes');
    expect(limitOf(pickle2('N0'.repeat(99), 'N.'), { maxPickleByteLength: 100 })).toContain(
      'maxPickleByteLength',
    );
    expect(limitOf(pickle2('Nr\xff\xff\xff\xff.'))).toContain('memo');
    const pairs = pickle2(']0'.repeat(30_000), 'N.');
    const limits = { maxPickleMemoryByteLength: 1_000_000 };
    expect(limitOf(pairs, limits)).toContain('maxPickleMemoryByteLength');
  });

  it('counts an entry of a dict as what it takes while the dict grows', () => {
    const dict = pickle2('}', 'U\x01aNs'.repeat(1000), '.');
    const limits = { maxPickleMemoryByteLength: 150_000 };
    expect(refusal(dict, limits).message).toContain('maxPickleMemoryByteLength');
    expect(read(dict, { maxPickleMemoryByteLength: 160_000 })).toHaveProperty('size', 1);
  });
});
