import { types } from 'node:util';
import { describe, expect, test } from 'vitest';
import {
  isAbortSignal,
  isAnyArrayBuffer,
  isAsyncIterable,
  isFloat32Array,
  isIterable,
  isSharedArrayBuffer,
  isTypedArray,
  isUint8Array,
  isUrl,
  memoryOf,
  plainBytes,
  plainFloat32Array,
  tagOf,
} from '../../src/errors/brand-checks.js';
import { foreign, foreignAbort, foreignUrl } from '../support/other-realm.js';

const KINDS = [
  'Uint8Array',
  'Uint8ClampedArray',
  'Int8Array',
  'Uint16Array',
  'Int16Array',
  'Uint32Array',
  'Int32Array',
  'Float32Array',
  'Float64Array',
  'BigInt64Array',
  'BigUint64Array',
  'ArrayBuffer',
  'SharedArrayBuffer',
];

const VALUES = [
  undefined,
  null,
  0,
  'text',
  Symbol('s'),
  () => 1,
  {},
  new DataView(new ArrayBuffer(1)),
];

describe.each([
  ['this realm', (source: string): unknown => new Function(`return ${source}`)()],
  ['another realm', foreign],
])('values of %s', (_, make) => {
  test.each(KINDS)('%s', (kind) => {
    const value = make(`new ${kind}(8)`);
    expect(tagOf(value)).toBe(kind);
    expect(isTypedArray(value)).toBe(types.isTypedArray(value));
    expect(isUint8Array(value)).toBe(types.isUint8Array(value));
    expect(isFloat32Array(value)).toBe(types.isFloat32Array(value));
    expect(isAnyArrayBuffer(value)).toBe(types.isAnyArrayBuffer(value));
    if (types.isAnyArrayBuffer(value)) {
      expect(isSharedArrayBuffer(value)).toBe(types.isSharedArrayBuffer(value));
    }
  });

  test.each(['new Map()', 'new Set()', '[]', 'new Uint8Array(1)', '(function* () {})()'])(
    '%s is iterable',
    (source) => {
      expect(isIterable(make(source))).toBe(true);
      expect(isAsyncIterable(make(source))).toBe(false);
    },
  );

  test('an async generator is async iterable', () => {
    expect(isAsyncIterable(make('(async function* () {})()'))).toBe(true);
    expect(isIterable(make('(async function* () {})()'))).toBe(false);
  });
});

test('a Buffer is a Uint8Array', () => {
  expect(isUint8Array(Buffer.alloc(1))).toBe(true);
});

describe('arrays that lie', () => {
  class Lying extends Float32Array {
    override get buffer(): ArrayBuffer {
      return new ArrayBuffer(1);
    }
    override get byteOffset(): number {
      return 1;
    }
    override get byteLength(): number {
      return 1e9;
    }
    override get length(): number {
      return 1e9;
    }
    override get [Symbol.toStringTag](): 'Float32Array' {
      return 'Uint8Array' as never;
    }
  }

  test('a subclass', () => {
    const buffer = Float32Array.of(1, 2, 3).buffer;
    const array = new Lying(buffer, 4, 2);
    expect(isFloat32Array(array)).toBe(true);
    expect(isUint8Array(array)).toBe(false);
    expect(memoryOf(array)).toEqual({ buffer, byteOffset: 4, byteLength: 8 });
    expect(plainFloat32Array(array)).toEqual(Float32Array.of(2, 3));
    expect(plainFloat32Array(array).buffer).toBe(buffer);
    expect(plainBytes(array)).toEqual(new Uint8Array(buffer, 4, 8));
  });

  test('a buffer', () => {
    const buffer = new ArrayBuffer(4);
    Object.defineProperty(buffer, Symbol.toStringTag, { value: 'SharedArrayBuffer' });
    Object.defineProperty(buffer, 'byteLength', { value: 8 });
    expect(isSharedArrayBuffer(buffer)).toBe(false);
    expect(isAnyArrayBuffer(buffer)).toBe(true);
    expect(plainBytes(buffer)).toHaveLength(4);
  });

  test.each(['Float32Array', 'SharedArrayBuffer'])('an object with the name of %s', (name) => {
    const value = { [Symbol.toStringTag]: name };
    expect(isFloat32Array(value) || isAnyArrayBuffer(value)).toBe(false);
  });
});

test('memory that was taken away is empty', () => {
  const array = new Float32Array(2);
  structuredClone(array.buffer, { transfer: [array.buffer] });
  expect(plainBytes(array)).toHaveLength(0);
  expect(plainBytes(array.buffer)).toHaveLength(0);
  expect(plainFloat32Array(array)).toHaveLength(0);
});

test('URLs', () => {
  expect(isUrl(new URL('file:///a'))).toBe(true);
  expect(isUrl(foreignUrl('file:///a'))).toBe(true);
  // The result of the old `url.parse`.
  expect(isUrl({ href: 'file:///a', protocol: 'file:', auth: null, path: '/a' })).toBe(false);
  expect(isUrl({ href: 'file:///a', protocol: 'file:', auth: null })).toBe(false);
  expect(isUrl({ href: 'file:///a', protocol: 'file:', path: '/a' })).toBe(false);
});

test('signals', () => {
  expect(isAbortSignal(new AbortController().signal)).toBe(true);
  expect(isAbortSignal(foreignAbort().signal)).toBe(true);
  expect(isAbortSignal(new AbortController())).toBe(false);
  expect(isAbortSignal(new EventTarget())).toBe(false);
});

test.each(VALUES)('%o is nothing of this', (value) => {
  expect(isUint8Array(value) || isFloat32Array(value) || isAnyArrayBuffer(value)).toBe(false);
  expect(isUrl(value) || isAbortSignal(value) || isAsyncIterable(value)).toBe(false);
  expect(isIterable(value)).toBe(false);
});

test('an iterator must be a function', () => {
  expect(isIterable({ [Symbol.iterator]: 1 })).toBe(false);
  expect(isAsyncIterable({ [Symbol.asyncIterator]: true })).toBe(false);
});
