/** Values of any kind, named in inputs as `{"$": name}`; the rest of an input is as JSON has it. */
import type { Tree } from './tree.js';

/** Thrown by odd values when they are touched; the caller that passed the value gets it back. */
export class Thrown extends Error {
  override readonly name = 'Thrown';
}

function thrower(): never {
  throw new Thrown('thrown by the value');
}

/** Throws on every access. */
function hostileProxy(): object {
  const traps: ProxyHandler<object> = { get: thrower, has: thrower, ownKeys: thrower };
  return new Proxy({}, { ...traps, getPrototypeOf: thrower, getOwnPropertyDescriptor: thrower });
}

function detachedBuffer(): ArrayBuffer {
  const buffer = new ArrayBuffer(8);
  structuredClone(buffer, { transfer: [buffer] });
  return buffer;
}

/** A view of 8 bytes over a buffer that has 4 now. */
function shrunkView(): Uint8Array {
  const Resizable = ArrayBuffer as unknown as new (
    length: number,
    options: { maxByteLength: number },
  ) => ArrayBuffer & { resize(length: number): void };
  const buffer = new Resizable(8, { maxByteLength: 8 });
  const view = new Uint8Array(buffer, 0, 8);
  buffer.resize(4);
  return view;
}

function* throwingIterator(): Generator<string, void, void> {
  yield 'a';
  thrower();
}

async function* asyncPieces(): AsyncGenerator<unknown, void, void> {
  yield new Uint8Array(2);
  yield 7;
}

/** Makers of values: each call gets its own. */
export const ODD_VALUES: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  NaN: () => Number.NaN,
  infinity: () => Number.POSITIVE_INFINITY,
  'minus zero': () => -0,
  bigint: () => 2n ** 64n,
  symbol: () => Symbol('odd'),
  function: () => () => 1,
  'throwing function': () => thrower,
  class: () => class Odd {},
  'without prototype': () => Object.create(null),
  'throwing getters': () => ({ get name() { return thrower(); }, get signal() { return thrower(); }, get dtype() { return thrower(); } }),
  'hostile proxy': hostileProxy,
  'throwing text': () => ({ toString: thrower, valueOf: thrower, [Symbol.toPrimitive]: thrower }),
  cyclic: () => { const cycle: Record<string, unknown> = {}; cycle['self'] = cycle; return cycle; },
  date: () => new Date(Number.NaN),
  regexp: () => /a/g,
  map: () => new Map<unknown, unknown>([[1, 2], ['a', null]]),
  set: () => new Set(['a', 1]),
  'weak map': () => new WeakMap(),
  promise: () => Promise.resolve(1),
  error: () => new Error('odd'),
  url: () => new URL('https://example.org/a'),
  'odd file url': () => new URL('file://host/%00'),
  blob: () => new Blob(['{']),
  'array buffer': () => new ArrayBuffer(8),
  'detached buffer': detachedBuffer,
  'view of detached': () => { const view = new Float32Array(4); structuredClone(view.buffer, { transfer: [view.buffer] }); return view; },
  'shared memory': () => new Uint8Array(new SharedArrayBuffer(8)),
  'shrunk view': shrunkView,
  'data view': () => new DataView(new ArrayBuffer(8), 3),
  bytes: () => new Uint8Array([1, 2, 3, 4]),
  floats: () => Float32Array.of(1, Number.NaN, -0, 3e38),
  bigints: () => BigInt64Array.of(-1n, 2n ** 62n),
  buffer: () => Buffer.from('{"a":1}'),
  'array-like': () => ({ length: 2 ** 32, 0: 'a' }),
  'sparse array': () => { const sparse = [1]; sparse[9] = 2; return sparse; },
  'throwing iterator': throwingIterator,
  'no iterator': () => ({ [Symbol.iterator]: () => 7 }),
  'iterator of nothing': () => ({ [Symbol.iterator]: () => ({ next: () => undefined }) }),
  'async pieces': asyncPieces,
  'aborted signal': () => AbortSignal.abort(new Thrown('aborted')),
  'half a signal': () => ({ aborted: false, addEventListener: 7 }),
  'long text': () => 'x'.repeat(5000),
  globals: () => globalThis,
}; // biome-ignore format: a table

/** The value that a part of an input stands for; `own` are further values by name. */
export function oddValue(tree: Tree, own: Readonly<Record<string, () => unknown>>): unknown {
  if (tree === null || typeof tree !== 'object') return tree;
  if (Array.isArray(tree)) return tree.map((child) => oddValue(child, own));
  const name = tree['$'];
  const values = [own, ODD_VALUES].find((some) => Object.hasOwn(some, String(name)));
  if (typeof name === 'string' && values !== undefined) return values[name]?.();
  return Object.fromEntries(
    Object.entries(tree).map(([key, child]) => [key, oddValue(child, own)]),
  );
}
