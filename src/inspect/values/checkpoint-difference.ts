/** Compares the tensors of two checkpoints by their names, or of two pipelines model by model. */

import {
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireFunction,
  requireOptions,
} from '../../errors/arguments.js';
import type { SafetensorsError } from '../../errors/errors.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { TensorSource } from '../../file/source/tensor-source.js';
import type { Tensor } from '../../tensor/tensor.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  Transfer,
  type TransferOptions,
} from '../../work/transfer.js';
import { yieldIfDue } from '../../work/yielding.js';
import { compareTensors, type TensorDifference } from './difference.js';
import { type ComparablePipeline, modelsOf, tensorsInTurn } from './tensors-in-turn.js';

/** Bytes to compare at a time. */
const WINDOW = 2 ** 20;

/** Options of {@link compare}. */
export interface CompareOptions extends TransferOptions {
  /** False compares names, dtypes and shapes alone, and reads no tensors. True by default. */
  readonly bytes?: boolean | undefined;
  /** True also compares the values of tensors that differ and have one shape. */
  readonly values?: boolean | undefined;
  /** Compares only tensors for whose names this is true; of a pipeline with the folder before the name. */
  readonly names?: ((name: string) => boolean) | undefined;
}

const COMPARE_OPTIONS: OptionNames<CompareOptions> = {
  ...TRANSFER_OPTIONS,
  bytes: true,
  values: true,
  names: true,
};

/** A tensor that both sides have, and that differs. */
export interface ChangedTensor {
  /** Its name; of a pipeline with the folder before it. */
  readonly name: string;
  /** What differs first: bytes are compared of tensors of one dtype and shape. */
  readonly changed: 'dtype' | 'shape' | 'dtype and shape' | 'bytes';
  /** Its dtype in the first and the second source. */
  readonly dtype: readonly [string, string];
  /** Its shape in the first and the second source. */
  readonly shape: readonly [readonly number[], readonly number[]];
  /** With `values`, for tensors of one shape. */
  readonly values?: TensorDifference;
}

/** The result of {@link compare}. */
export interface CheckpointDifference {
  /** Names in the second source alone. */
  readonly added: readonly string[];
  /** Names in the first source alone. */
  readonly removed: readonly string[];
  /** Tensors that both have, and that differ. */
  readonly changed: readonly ChangedTensor[];
  /** Number of tensors that are the same in both. */
  readonly unchanged: number;
}

/** The tensors of one side by name; null for those that cannot be read. */
type NamedInfo = ReadonlyMap<string, TensorEntry | null>;

/** Two models to compare, one of which may be missing: it has no tensors then. */
interface ComparedModels {
  /** Precedes the names of tensors. */
  readonly prefix: string;
  readonly sources: readonly [TensorSource | undefined, TensorSource | undefined];
  readonly named: readonly [NamedInfo, NamedInfo];
}

/** A tensor of both sides. */
interface Pair {
  readonly name: string;
  readonly a: TensorEntry;
  readonly b: TensorEntry;
  readonly changed: 'dtype' | 'shape' | 'dtype and shape' | undefined;
  /** Whether the bytes must be read to know the difference. */
  readonly isRead: boolean;
}

/**
 * Compares two open checkpoints, local or remote, in whichever files their tensors are: which tensors only one of them
 * has, and which differ in dtype, shape or bytes. Of two open pipelines it compares the models of one folder, and names
 * begin with the folder. With `values` the result has how much tensors of one shape differ. Views are compared by what
 * they show. Tensors are read one after the other, some megabytes of short ones together; memory holds one long tensor
 * of each remote side.
 *
 * @throws FormatError `SAFETENSORS_UNSUPPORTED_TENSOR` for a tensor of both sides that cannot be read; TypeError for
 *   anything but open checkpoints or pipelines, such as paths; as `tensors` and `readTensors` of the sources
 *
 * @example
 * ```ts
 * const [a, b] = [safeOpen('my-model'), safeOpen('model.safetensors')];
 * const { added, removed, changed, unchanged } = await compare(a, b);
 * console.log(added, removed, changed, unchanged); // → [] [] [] 2
 * ```
 */
export async function compare(
  a: TensorSource | ComparablePipeline,
  b: TensorSource | ComparablePipeline,
  options: CompareOptions = {},
): Promise<CheckpointDifference> {
  requireOptions(options, COMPARE_OPTIONS);
  requireTransferOptions(options);
  requireBoolean('bytes', options.bytes ?? true);
  requireBoolean('values', options.values ?? false);
  const { names, signal } = options;
  if (names !== undefined) requireFunction('names', names);
  const [inA, inB] = [modelsOf('a', a), modelsOf('b', b)];
  if ('models' in a !== 'models' in b) {
    throw argumentTypeError('b', 'a pipeline with a pipeline, else a checkpoint', b);
  }
  const parts: ComparedModels[] = [];
  for (const folder of [...new Set([...inA.keys(), ...inB.keys()])].sort()) {
    const prefix = folder === '' ? '' : `${folder}/`;
    const isNamed = (name: string): boolean => names?.(prefix + name) ?? true;
    parts.push(await comparedModels(prefix, [inA.get(folder), inB.get(folder)], isNamed, signal));
  }
  return await compareModels(parts, options);
}

async function comparedModels(
  prefix: string,
  sources: ComparedModels['sources'],
  isNamed: (name: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<ComparedModels> {
  const [a, b] = sources;
  const named = [await factsOf(a, isNamed, signal), await factsOf(b, isNamed, signal)] as const;
  return { prefix, sources, named };
}

/** Tensors that cannot be read, which views and checkpoints of other formats have. */
function problemsOf(source: TensorSource | undefined): readonly SafetensorsError[] {
  return (
    (source as { readonly problems?: readonly SafetensorsError[] } | undefined)?.problems ?? []
  );
}

async function factsOf(
  source: TensorSource | undefined,
  isNamed: (name: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<NamedInfo> {
  const facts = new Map<string, TensorEntry | null>();
  for (const entry of (await source?.tensors({ signal })) ?? []) {
    if (isNamed(entry.name)) facts.set(entry.name, entry);
  }
  for (const { tensor = '' } of problemsOf(source)) if (isNamed(tensor)) facts.set(tensor, null);
  return facts;
}

/**
 * Whether two tensors of one length have the same bytes. The event loop gets its turns meanwhile.
 *
 * @throws `signal.reason`
 */
async function haveSameBytes(a: Tensor, b: Tensor, options: TransferOptions): Promise<boolean> {
  const transfer = new Transfer(a.byteLength, options);
  const others = b.chunks({ maxByteLength: WINDOW });
  for (const chunk of a.chunks({ maxByteLength: WINDOW })) {
    if (!areEqual(chunk, others.next().value as Uint8Array)) return false;
    transfer.advance(chunk.length);
    await yieldIfDue();
    options.signal?.throwIfAborted();
  }
  return true;
}

/** Compares bytes of one length, four at a time where both are aligned. */
function areEqual(x: Uint8Array, y: Uint8Array): boolean {
  const width = Int32Array.BYTES_PER_ELEMENT;
  let begin = 0;
  if (x.byteOffset % width === 0 && y.byteOffset % width === 0) {
    const count = Math.floor(x.length / width);
    const words = new Int32Array(x.buffer, x.byteOffset, count);
    const others = new Int32Array(y.buffer, y.byteOffset, count);
    for (let i = 0; i < count; i++) if (words[i] !== others[i]) return false;
    begin = count * width;
  }
  for (let i = begin; i < x.length; i++) if (x[i] !== y[i]) return false;
  return true;
}

/** Compares models, one pair after the other, with one progress for all. */
async function compareModels(
  parts: readonly ComparedModels[],
  { bytes = true, values = false, signal, onProgress }: CompareOptions,
): Promise<CheckpointDifference> {
  const comparison = { isQuick: !bytes, hasValues: values };
  const planned: { readonly part: ComparedModels; readonly pairs: readonly Pair[] }[] = [];
  for (const part of parts) planned.push({ part, pairs: pairsOf(part, comparison) });
  const all = planned.flatMap(({ pairs }) => pairs);
  const totalBytes = all.reduce((sum, pair) => sum + readLength(pair), 0);
  const changed: ChangedTensor[] = [];
  let before = 0;
  for (const { part, pairs } of planned) {
    const read = pairs.filter(({ isRead }) => isRead);
    const named = [read.map(({ a }) => a), read.map(({ b }) => b)] as const;
    const sides = ([0, 1] as const).map((side) =>
      tensorsInTurn(part.sources[side] as TensorSource, named[side], signal),
    );
    const next = async (): Promise<[Tensor, Tensor]> => {
      const found: Tensor[] = [];
      for (const side of sides) found.push((await side.next()).value as Tensor);
      return found as [Tensor, Tensor];
    };
    try {
      for (const pair of pairs) {
        let own = 0;
        const forPair: TransferOptions = {
          signal,
          // When the bytes differ, comparing values reads the tensor again from its start.
          onProgress: (progress) => {
            own = Math.max(own, progress.bytes);
            onProgress?.({ bytes: before + own, totalBytes });
          },
        };
        const change = await comparePair(pair, next, comparison, forPair);
        if (change !== undefined) changed.push({ ...change, name: part.prefix + change.name });
        before += readLength(pair);
      }
    } finally {
      for (const side of sides) await side.return();
    }
  }
  onProgress?.({ bytes: totalBytes, totalBytes });
  return {
    added: parts.flatMap(({ prefix, named: [a, b] }) => onlyIn(b, a, prefix)),
    removed: parts.flatMap(({ prefix, named: [a, b] }) => onlyIn(a, b, prefix)),
    changed,
    unchanged: all.length - changed.length,
  };
}

function onlyIn(one: NamedInfo, other: NamedInfo, prefix: string): string[] {
  return [...one.keys()].filter((name) => !other.has(name)).map((name) => prefix + name);
}

/** What is compared of a pair. */
interface Comparison {
  readonly isQuick: boolean;
  readonly hasValues: boolean;
}

/** The tensors of both sides. Throws for those that cannot be read. */
function pairsOf({ named: [inA, inB], sources }: ComparedModels, comparison: Comparison): Pair[] {
  const pairs: Pair[] = [];
  for (const [name, a] of inA) {
    const b = inB.get(name);
    if (b === undefined) continue;
    for (const [side, entry] of [a, b].entries()) {
      if (entry === null) throw problemsOf(sources[side]).find(({ tensor }) => tensor === name);
    }
    if (a !== null && b !== null) pairs.push(pairOf(a, b, comparison));
  }
  return pairs;
}

function pairOf(a: TensorEntry, b: TensorEntry, { isQuick, hasValues }: Comparison): Pair {
  const hasShape = a.shape.join() !== b.shape.join();
  const hasDtype = a.dtype !== b.dtype;
  const changed = hasDtype && hasShape ? 'dtype and shape' : hasDtype ? 'dtype' : 'shape';
  const isSame = !hasDtype && !hasShape;
  const isRead = !isQuick && (isSame || (!hasShape && hasValues));
  return { name: a.name, a, b, changed: isSame ? undefined : changed, isRead };
}

function readLength({ a, isRead }: Pair): number {
  return isRead ? a.byteLength : 0;
}

async function comparePair(
  { name, a, b, changed, isRead }: Pair,
  next: () => Promise<[Tensor, Tensor]>,
  { hasValues }: Comparison,
  options: TransferOptions,
): Promise<ChangedTensor | undefined> {
  const facts = { dtype: [a.dtype, b.dtype], shape: [a.shape, b.shape] } as const;
  if (!isRead) return changed === undefined ? undefined : { name, changed, ...facts };
  const [x, y] = await next();
  // Values of quantized weights are computed: looking at them once is enough.
  const areComputed = hasValues && (a.quantization ?? b.quantization) !== undefined;
  if (changed === undefined && !areComputed && (await haveSameBytes(x, y, options)))
    return undefined;
  const entry = { name, changed: changed ?? 'bytes', ...facts } as const;
  if (!hasValues) return entry;
  const values = await compareTensors(x, y, options);
  if (areComputed && changed === undefined && values.differing === 0) return undefined;
  return { ...entry, values };
}
