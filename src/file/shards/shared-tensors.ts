/**
 * Tensors that share memory: which names are written, and which are only recorded. A file cannot
 * hold one range of bytes under two names.
 */

import { argumentRangeError } from '../../errors/arguments.js';
import { quoteName, SafetensorsError } from '../../errors/errors.js';
import { DTYPE_NAMES, DTYPES, type Dtype } from '../../header/dtype.js';
import { compareCodePoints } from '../../header/json/code-point-order.js';
import { elementCountOf } from '../../header/tensor-spec.js';
import { filterYielding, forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';

/**
 * What to do with tensors that share memory.
 *
 * - `copy`: every name is written with separate bytes.
 * - `dedupe`: of equal tensors over the same bytes one name is written, the others are recorded.
 *   Tensors that overlap in any other way are written with their own bytes.
 * - `error`: tensors over common bytes are refused.
 * - `python`: as `huggingface_hub` and `safetensors.torch.save_model` do it: of names over common
 *   bytes one that covers the whole memory is written, and the others' dtypes, shapes and places are
 *   lost; memory that no name covers is refused, even if it has a single name.
 */
export type SharedMode = 'copy' | 'dedupe' | 'error' | 'python';

const MODES: readonly unknown[] = ['copy', 'dedupe', 'error', 'python'] satisfies SharedMode[];

/** Where a tensor's elements lie. */
export interface TensorMemory {
  readonly name: string;
  /** Identity of the memory, compared as by a Map: an ArrayBuffer, or any other key. */
  readonly storage: unknown;
  /** Bytes of the whole memory. */
  readonly storageByteLength: number;
  /** First element, in bytes from the start of the memory. */
  readonly byteOffset: number;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** Distance of neighbours per dimension, in elements; C order when left out. */
  readonly strides?: readonly number[];
}

/** Decides which of several names for one tensor comes first: the names, or the order of the tensors. */
export type FirstBy = 'name' | 'order';

/** The tensors to write of those that share memory: all names but the dropped ones. */
export interface SharingPlan {
  /** The name written in its place, by dropped name. */
  readonly dropped: Map<string, string>;
  /** Groups of written names over common bytes: these bytes are written more than once. */
  readonly overlaps: string[][];
}

/** An error shows this many groups of names, and as many names of each. */
const SHOWN_ITEMS = 5;

/**
 * Says which tensors to write. Of several names for one tensor the first by code points is kept; with
 * `dedupe` and `'order'` that of the first tensor. Lists of names are sorted by code points. Memory without
 * bytes is never shared; tensors without elements share none except in the mode `python`. Takes as long as
 * sorting the tensors; those of one memory are sorted without yielding.
 *
 * @throws SafetensorsError `SAFETENSORS_SHARED_TENSORS` in the modes `error` and `python`
 * @throws RangeError `ERR_OUT_OF_RANGE` for an unknown mode or dtype
 */
export function* planSharing(
  tensors: readonly TensorMemory[],
  mode: SharedMode,
  firstBy: FirstBy = 'name',
): Work<SharingPlan> {
  if (!MODES.includes(mode)) throw argumentRangeError('shared', `one of ${MODES.join(', ')}`, mode);
  if (mode === 'error') yield* rejectShared(tensors);
  const dropped = new Map<string, string>();
  if (mode === 'python') yield* dropAsPython(tensors, dropped);
  const overlaps: string[][] = [];
  if (mode === 'dedupe') {
    const touching = yield* filterYielding(tensors, hasElements);
    for (const extents of yield* extentsByStorage(touching)) {
      yield;
      const written = yield* dropAliases(extents, firstBy, dropped);
      for (const names of overlapsOf(written)) overlaps.push(names);
    }
  }
  return { dropped, overlaps };
}

/** Keys with a separate meaning, in a file or in an index. */
const OWN_KEYS: ReadonlySet<string> = new Set(['format', 'total_size']);

/**
 * With `dedupe`, drops a name only if the metadata can record the tensor that replaces it. `keys` are those that the
 * metadata has anyway.
 */
export function recordable(
  plan: SharingPlan,
  mode: SharedMode,
  keys: ReadonlySet<string>,
): SharingPlan {
  if (mode !== 'dedupe') return plan;
  const dropped = new Map(plan.dropped);
  const overlaps = [...plan.overlaps];
  for (const [name, kept] of plan.dropped) {
    if (!OWN_KEYS.has(name) && !keys.has(name)) continue;
    dropped.delete(name);
    overlaps.push([name, kept]);
  }
  return { dropped, overlaps };
}

/** Returns the extents that are written; records those that mean the same as one of them. */
function* dropAliases(
  extents: readonly Extent[],
  firstBy: FirstBy,
  dropped: Map<string, string>,
): Work<Extent[]> {
  if (extents.length === 1) return [...extents];
  const aliases = new Map<string, Extent[]>();
  yield* forEachYielding(extents, (extent) => {
    const key = aliasKeyOf(extent.memory);
    const equal = aliases.get(key);
    if (equal === undefined) aliases.set(key, [extent]);
    else equal.push(extent);
  });
  const written: Extent[] = [];
  yield* forEachYielding(aliases.values(), (equal) => {
    const names = sortedNames(equal);
    const kept = (firstBy === 'name' ? names[0] : equal[0]?.memory.name) as string;
    record(names, kept, dropped);
    for (const extent of equal) if (extent.memory.name === kept) written.push(extent);
  });
  return written;
}

/** Equal exactly for tensors of one memory with the same elements in the same places. */
function aliasKeyOf({ byteOffset, dtype, shape, strides }: TensorMemory): string {
  const steps: (number | undefined)[] = [];
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i] ?? 1;
    // A dimension with one element never uses its stride.
    steps.push(size === 1 ? undefined : (strides?.[i] ?? step));
    step *= size;
  }
  return `${byteOffset} ${dtype} ${shape} ${steps}`;
}

function* rejectShared(tensors: readonly TensorMemory[]): Work<void> {
  const storages = yield* extentsByStorage(yield* filterYielding(tensors, hasElements));
  const shared: string[][] = [];
  for (const extents of storages) {
    yield;
    for (const names of overlapsOf(extents)) shared.push(names);
  }
  if (shared.length === 0) return;
  throw sharedTensorsError(
    `tensors share memory: ${listGroups(shared)}; 'dedupe' writes equal ones once, 'copy' writes all`,
  );
}

function* dropAsPython(tensors: readonly TensorMemory[], dropped: Map<string, string>): Work<void> {
  const uncovered: string[][] = [];
  for (const extents of yield* extentsByStorage(tensors)) {
    yield;
    if (extents.length > 1) for (const { memory } of extents) requireFlat(memory);
    for (const group of connectedAsPython(extents)) {
      const [kept] = sortedNames(group.filter(({ memory }) => coversStorage(memory)));
      if (kept === undefined) uncovered.push(sortedNames(group));
      else record(sortedNames(group), kept, dropped);
    }
  }
  if (uncovered.length === 0) return;
  throw sharedTensorsError(
    `no tensor covers the whole of its memory: ${listGroups(uncovered)}; ` +
      "'dedupe' and 'copy' write such tensors with their own bytes",
  );
}

/** Throws for a tensor without a flat view in torch, which Python needs to find its last element. */
function requireFlat({ name, shape, strides }: TensorMemory): void {
  if (strides === undefined || shape.includes(0)) return;
  let wanted: number | undefined;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i] ?? 1;
    const stride = strides[i] ?? 0;
    if (size === 1) continue;
    if (wanted !== undefined && stride !== wanted) {
      throw new SafetensorsError(
        'SAFETENSORS_SHARED_TENSORS',
        `shares memory and is not contiguous, which Python refuses: strides ${strides}, shape ${shape}`,
        { tensor: name },
      );
    }
    wanted = stride * size;
  }
}

function record(names: readonly string[], kept: string, dropped: Map<string, string>): void {
  for (const name of names) if (name !== kept) dropped.set(name, kept);
}

/** Bytes of a tensor in its memory, from the first element to the end of the last. */
interface Extent {
  readonly memory: TensorMemory;
  readonly begin: number;
  readonly end: number;
}

/**
 * Extents of the tensors of each memory, in the order of the tensors; memory without bytes is left out, since no
 * other tensor can share it.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for an unknown dtype
 */
function* extentsByStorage(tensors: readonly TensorMemory[]): Work<Iterable<Extent[]>> {
  const storages = new Map<unknown, Extent[]>();
  yield* forEachYielding(tensors, (memory) => {
    if (memory.storageByteLength === 0) return;
    const extent = memoryExtent(memory);
    const extents = storages.get(memory.storage);
    if (extents === undefined) storages.set(memory.storage, [extent]);
    else extents.push(extent);
  });
  return storages.values();
}

function memoryExtent(memory: TensorMemory): Extent {
  // In torch a tensor without elements has no address: it comes first, and touches nothing.
  if (!hasElements(memory)) return { memory, begin: -1, end: -1 };
  const begin = memory.byteOffset;
  return { memory, begin, end: begin + Math.ceil((elementSpanOf(memory) * bitsOf(memory)) / 8) };
}

/** Elements from the first to the last, both included, as far as strides spread them. */
function elementSpanOf({ shape, strides }: TensorMemory): number {
  if (strides === undefined) return elementCountOf(shape);
  return shape.reduce((span, size, i) => span + (size - 1) * (strides[i] ?? 0), 1);
}

/** A tensor without elements has no bytes to share. */
function hasElements({ shape }: TensorMemory): boolean {
  return !shape.includes(0);
}

/** Whether the elements take as many bytes as the memory has, from its start. */
function coversStorage(memory: TensorMemory): boolean {
  const byteLength = (elementCountOf(memory.shape) * bitsOf(memory)) / 8;
  return memory.byteOffset === 0 && byteLength === memory.storageByteLength;
}

function bitsOf({ name, dtype }: TensorMemory): number {
  if (!Object.hasOwn(DTYPES, dtype)) {
    const expected = `one of ${DTYPE_NAMES.join(', ')}`;
    throw argumentRangeError(`dtype of tensor ${quoteName(name)}`, expected, dtype);
  }
  return DTYPES[dtype].bits;
}

/** Names of the extents of one memory that are connected by common bytes, group by group. */
function overlapsOf(extents: readonly Extent[]): string[][] {
  return groupExtents(extents, Math.max)
    .filter((group) => group.length > 1)
    .map(sortedNames);
}

/**
 * Groups over common bytes as Python forms them: it compares with the end of the tensor before, not
 * with the farthest end so far, so a short view inside of a long one hides what comes next.
 */
function connectedAsPython(extents: readonly Extent[]): Extent[][] {
  return groupExtents(extents, (_, end) => end);
}

/** Sorts by begin, and opens a group with each extent that does not begin before `reach`. */
function groupExtents(
  extents: readonly Extent[],
  reachOf: (reach: number, end: number) => number,
): Extent[][] {
  const groups: Extent[][] = [];
  let reach = Number.NEGATIVE_INFINITY;
  for (const extent of extents.toSorted(compareExtents)) {
    if (extent.begin >= reach) groups.push([extent]);
    else groups.at(-1)?.push(extent);
    reach = reachOf(reach, extent.end);
  }
  return groups;
}

function compareExtents(a: Extent, b: Extent): number {
  return a.begin - b.begin || a.end - b.end || compareCodePoints(a.memory.name, b.memory.name);
}

/** Names by code points. */
function sortedNames(extents: readonly Extent[]): string[] {
  return extents.map(({ memory }) => memory.name).sort(compareCodePoints);
}

function sharedTensorsError(message: string): SafetensorsError {
  return new SafetensorsError('SAFETENSORS_SHARED_TENSORS', message);
}

function listGroups(groups: readonly string[][]): string {
  return listItems(groups.map((names) => `[${listItems(names.map(quoteName))}]`));
}

function listItems(items: readonly string[]): string {
  const shown = items.slice(0, SHOWN_ITEMS).join(', ');
  return items.length > SHOWN_ITEMS ? `${shown} and ${items.length - SHOWN_ITEMS} more` : shown;
}
