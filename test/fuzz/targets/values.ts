/** Values of any kind, handed to every exported function and to every method: an error with a code, or a result. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setImmediate as yieldNow } from 'node:timers/promises';
import { inspect } from 'node:util';
import * as core from 'safetensors-mmap';
import * as hub from 'safetensors-mmap/hub';
import { bytesOf, FIXTURES } from '../../foreign/torch-fixtures.js';
import type { Random } from '../../support/random.js';
import { ODD_VALUES, oddValue, Thrown } from '../nonstandard-values.js';
import { settled } from '../settle.js';
import { type Corpus, type Place, Problem, type Target } from '../target.js';
import { inputOf, TREE, type Tree, treeOf } from '../tree.js';

/** Items that are taken from an iterable result. */
const MAX_ITEMS = 3;

const OPTIONS: readonly string[] = [
  'metadata', 'dtype', 'shape', 'data', 'signal', 'onProgress', 'storage', 'guard', 'names', 'rename', 'cast', 'path',
  'alignment', 'maxShardSize', 'maxHeaderByteLength', 'voidDtype', 'root', 'digests', 'fetch', 'token', 'headers',
  'concurrency', 'byteLength', 'stream', 'into', 'bits', 'detach', 'durable', 'overwrite', 'verify', 'format', 'size',
  'access', 'limits', 'variant', 'revision', 'dryRun', 'copyOtherFiles', 'headersOnly', 'repo', 'computeParametersCount',
  'rows', 'config', 'maxByteLength',
]; // biome-ignore format: a table

const WORDS: readonly string[] = [
  'model.safetensors', 'model.pt', 'arrays.npz', 'missing', '.', '', 'new.safetensors', 'new', 't', 'a', 'F32', 'BF16',
  'F4', 'U8', '1:2', '...', '5GB', 'read', 'mmap', 'https://example.org/m', 'hf://org/model', 'org/model', '\0', '\ud800',
]; // biome-ignore format: a table

/** Where integers of 32 bits, and of doubles, end. */
const LARGE: readonly number[] = [
  2 ** 31 - 1, 2 ** 31, -(2 ** 31), 2 ** 32, Number.MAX_SAFE_INTEGER,
]; // biome-ignore format: a table

let tensors: Record<string, core.NewTensor<core.Dtype, never>>;

function writeFiles(): void {
  for (const name of ['model.safetensors', 'model.pt', 'arrays.npz', 'new.safetensors', 'new']) {
    rmSync(name, { recursive: true, force: true });
  }
  writeFileSync('model.safetensors', core.serialize(tensors, { metadata: { format: 'pt' } }));
  for (const [name, family] of [
    ['model.pt', 'zip'],
    ['arrays.npz', 'numpy'],
  ] as const) {
    const isOf = (fixture: (typeof FIXTURES)[number]): boolean =>
      fixture.family === family && fixture.expect === 'tensors';
    const fixture = FIXTURES.find(
      (one) => isOf(one) && (family === 'zip' || one.file.endsWith('.npz')),
    );
    if (fixture !== undefined) writeFileSync(name, bytesOf(fixture));
  }
}

/** A weight of FP8. */
const QUANTIZED = {
  't.weight': { dtype: 'F8_E4M3', shape: [2, 4], data: Uint8Array.from({ length: 8 }, () => 56) },
  't.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(2) },
} as const;

/** Objects of every public class, made again for every call. */
const SUBJECTS: Readonly<Record<string, () => object | Promise<object>>> = {
  file: () => core.safeOpen('model.safetensors'),
  'read file': () => core.safeOpen('model.safetensors', { storage: 'read' }),
  'parsed file': () => core.parse(core.serialize(tensors)),
  'closed file': () => {
    const file = core.safeOpen('model.safetensors');
    file.close();
    return file;
  },
  tensor: () => core.safeOpen('model.safetensors').getTensor('t'),
  'packed tensor': () => core.parse(core.serialize(tensors)).getTensor('f4'),
  'closed tensor': () => {
    const file = core.safeOpen('model.safetensors');
    const tensor = file.getTensor('t');
    file.close({ detach: true });
    return tensor;
  },
  checkpoint: () => core.safeOpen('.'),
  writer: () => core.createWriter('new.safetensors', { t: { dtype: 'F32', shape: [2] } }),
  torch: () => core.open('model.pt', { root: [] }),
  arrays: () => core.open('arrays.npz'),
  'quantized checkpoint': () => core.dequantize(core.parse(core.serialize(QUANTIZED))),
  'logical tensor': async () =>
    (await core.dequantize(core.parse(core.serialize(QUANTIZED)))).getTensor('t.weight'),
  remote: () => core.open(new Blob([new Uint8Array(core.serialize(tensors))])),
};

const ENTRIES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  core,
  hub,
};

type Call = (args: readonly unknown[]) => unknown;

/** All functions of the entries and methods of the subjects, by name. */
const calls = new Map<string, Call>();

function addExports(): void {
  for (const [entry, names] of Object.entries(ENTRIES)) {
    for (const [name, value] of Object.entries(names)) {
      if (typeof value !== 'function') continue;
      // Error classes serve `instanceof`; callers do not construct them.
      if (/^class\b/.test(Function.prototype.toString.call(value))) continue;
      const call: Call = (args) => Reflect.apply(value, undefined, [...args]);
      calls.set(`${entry}.${name}`, call);
    }
  }
}

async function addMethods(): Promise<void> {
  for (const [name, make] of Object.entries(SUBJECTS)) {
    const subject = await make();
    const prototypes: object[] = [];
    for (let one = Object.getPrototypeOf(subject); one !== Object.prototype; ) {
      prototypes.push(one);
      one = Object.getPrototypeOf(one);
    }
    for (const key of new Set(prototypes.flatMap((prototype) => Reflect.ownKeys(prototype)))) {
      // Only Node calls how an object is shown, with arguments of its own.
      if (key === 'constructor' || key === inspect.custom) continue;
      // No caller has the symbol of the method that makes views.
      if (typeof key === 'symbol' && key.description === 'viewOf') continue;
      calls.set(`${name}.${String(key)}`, async (args) => {
        const own = (await make()) as Record<string | symbol, unknown>;
        const member = own[key];
        return typeof member === 'function' ? Reflect.apply(member, own, [...args]) : member;
      });
    }
    close(subject);
  }
}

/** Closing a writer that lacks tensors leaves it open. */
function close(value: object): void {
  const { abort, close: plain } = value as { abort?: unknown; close?: unknown };
  const end = abort ?? plain;
  if (typeof end === 'function') Reflect.apply(end, value, []);
}

const late: unknown[] = [];
function noteLate(error: unknown): void {
  late.push(error);
}

let home: string;

async function begin({ folder }: Place): Promise<void> {
  home = process.cwd();
  const place = join(folder, 'values');
  mkdirSync(place, { recursive: true });
  process.chdir(place);
  globalThis.fetch = () => Promise.resolve(new Response('not here', { status: 404 }));
  process.on('unhandledRejection', noteLate);
  tensors = {
    t: { dtype: 'F32', shape: [2, 3], data: Float32Array.from({ length: 6 }, (_, i) => i) },
    f4: { dtype: 'F4', shape: [2, 4], data: Uint8Array.of(1, 2, 3, 4) },
    scalar: { dtype: 'I64', shape: [], data: BigInt64Array.of(5n) },
  };
  writeFiles();
  addExports();
  await addMethods();
}

function end(): void {
  process.off('unhandledRejection', noteLate);
  process.chdir(home);
}

function anyArgument(random: Random, depth = 0): Tree {
  const options = (): Tree =>
    Object.fromEntries(
      Array.from({ length: random.below(3) }, () => [
        random.pick(OPTIONS),
        anyArgument(random, depth + 1),
      ]),
    );
  return random.do<Tree[]>(
    () => ({ $: random.pick([...Object.keys(ODD_VALUES), ...Object.keys(SUBJECTS)]) }),
    () => ({ $: random.pick(Object.keys(ODD_VALUES)) }),
    () => random.pick(WORDS),
    () => random.pick([null, true, false, 0, 1, -1, 2.5, 2 ** 40, -7, ...LARGE]),
    () =>
      depth > 2
        ? null
        : Array.from({ length: random.below(4) }, () => anyArgument(random, depth + 1)),
    () => (depth > 2 ? null : options()),
    () => ({
      t: { dtype: 'F32', shape: [1], data: depth > 2 ? null : anyArgument(random, depth + 1) },
    }),
  );
}

function make(random: Random, corpus: Corpus): Buffer {
  if (random.chance(0.4))
    return TREE.mutate(corpus.pick(random), corpus.pick(random), random, WORDS);
  const areLarge = random.chance(0.15);
  const args = Array.from({ length: random.below(4) }, () => {
    return areLarge ? random.pick([0, ...LARGE]) : anyArgument(random);
  });
  // A right first argument lets most calls go further.
  if (random.chance(areLarge ? 0.1 : 0.5))
    args[0] = random.pick(['model.safetensors', 'model.pt', 'new.safetensors', 't', '.']);
  return inputOf({ call: random.pick([...calls.keys()]), args });
}

/**
 * Errors of the engine when a caller's value breaks its own protocol: names and tensors come from any iterable, and
 * pieces of a stream from any function.
 */
const OF_THE_VALUE =
  /prototype\.values on a detached|^Iterator result .* is not an object|^Result of the Symbol\.\w+ method is not an object|^iterator\.next is not a function|^Class constructor \w+ cannot be invoked/;

/** An error of this package, of an argument or the system, which has a code; or the value's own. */
function isProper(error: unknown): boolean {
  if (error instanceof Thrown || error instanceof core.SafetensorsError) return true;
  const { code, cause, name, message } = Object(error) as Record<string, unknown>;
  if (OF_THE_VALUE.test(String(message))) return true;
  if (typeof code === 'string' || name === 'AbortError') return true;
  return cause !== undefined && isProper(cause);
}

function refuse(call: string, error: unknown): string {
  if (isProper(error)) return (Object(error) as { code?: string }).code ?? 'thrown by the value';
  const stack = error instanceof Error ? (error.stack ?? '') : '';
  throw new Problem(`${call} throws ${String(error)}\n${stack}`);
}

/** Waits for promises, takes items of iterables, closes handles. */
async function use(result: unknown): Promise<void> {
  const value = await result;
  if (value === null || typeof value !== 'object') return;
  if (Symbol.asyncIterator in value || (Symbol.iterator in value && 'next' in value)) {
    let count = 0;
    for await (const _ of value as AsyncIterable<unknown>) if (++count >= MAX_ITEMS) break;
  }
  close(value);
}

/** Functions that write files and reserve space for them first: here the disk is memory. */
const WRITES = /save|convert|reshard|edit|riter|download/i;

/** More elements than these are too many to reserve; a disk that could hold so many does not exist. */
const [MANY, TOO_MANY] = [2 ** 24, 2 ** 48];

function reservesMuch(call: string, args: readonly Tree[]): boolean {
  let isMuch = false;
  JSON.stringify(args, (key, value: unknown) => {
    const sizes = key === 'shape' && Array.isArray(value) ? value : [];
    const count = sizes.reduce((product: number, size) => product * Number(size), 1);
    if (count >= MANY && count < TOO_MANY) isMuch = true;
    return value;
  });
  return isMuch && WRITES.test(call);
}

async function check(input: Buffer): Promise<string> {
  const { call = '', args = [] } = Object(treeOf(input)) as { call?: string; args?: Tree[] };
  const text = input.toString();
  const run = calls.get(call);
  // Paths stay in the folder.
  if (
    run === undefined ||
    !Array.isArray(args) ||
    reservesMuch(call, args) ||
    /"\/|\.\.|\.\\u|~/.test(text.replaceAll('"..."', ''))
  ) {
    return 'no call';
  }
  late.length = 0;
  let outcome = 'result';
  try {
    const values = args.map((arg) => oddValue(arg, SUBJECTS));
    for (const value of values) if (value instanceof Promise) value.catch(() => {});
    await settled(use(run(values)), call);
  } catch (error) {
    if (error instanceof Problem) throw error;
    outcome = refuse(call, error);
  }
  await yieldNow();
  for (const error of late) refuse(`${call}, later,`, error);
  if (WRITES.test(call)) writeFiles();
  return outcome;
}

export const values: Target = {
  name: 'values',
  about: 'values of any kind for every exported function and method',
  sources: /^(errors|tensor|platform|file|write|remote\/download)\//,
  form: TREE,
  budget: { milliseconds: 1000, byteLength: 200 * 2 ** 20 },
  batchLength: 200,
  outcomes: ['result', 'ERR_INVALID_ARG_TYPE', 'ERR_OUT_OF_RANGE', 'thrown by the value'],
  asksPythonOf: 0,
  begin,
  end,
  seeds: () => [inputOf({ call: 'core.safeOpen', args: ['model.safetensors'] })],
  make,
  check,
};
