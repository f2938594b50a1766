/** Where tensors lie in the memory that they share, and which of them have common bytes. */

import { argumentRangeError } from '../errors/arguments.js';
import { quoteName } from '../errors/errors.js';
import { DTYPES, type Dtype } from '../format/dtype.js';
import { elementCountOf } from '../format/shape.js';
import { compareCodePoints } from '../json/code-point-order.js';

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
  /** Distance of neighbours per dimension, in elements; C order when it is left out. */
  readonly strides?: readonly number[];
}

/** Bytes of a tensor in its memory, from the first element to behind the last. */
export interface Extent {
  readonly memory: TensorMemory;
  readonly begin: number;
  readonly end: number;
}

/** Whether it has elements, and therefore bytes that another tensor may have too. */
export function hasElements({ shape }: TensorMemory): boolean {
  return !shape.includes(0);
}

function bitsOf({ name, dtype }: TensorMemory): number {
  if (!Object.hasOwn(DTYPES, dtype)) {
    throw argumentRangeError(`dtype of tensor ${quoteName(name)}`, 'one of DTYPES', dtype);
  }
  return DTYPES[dtype].bits;
}

/** Elements from the first to the last, both included, as far as strides spread them. */
function elementSpanOf({ shape, strides }: TensorMemory): number {
  if (strides === undefined) return elementCountOf(shape);
  return shape.reduce((span, size, i) => span + (size - 1) * (strides[i] ?? 0), 1);
}

function extentOf(memory: TensorMemory): Extent {
  // In torch a tensor without elements has no address: it comes first, and touches nothing.
  if (!hasElements(memory)) return { memory, begin: -1, end: -1 };
  const begin = memory.byteOffset;
  return { memory, begin, end: begin + Math.ceil((elementSpanOf(memory) * bitsOf(memory)) / 8) };
}

/** Whether the elements take as many bytes as the memory has, from its start. */
export function isComplete(memory: TensorMemory): boolean {
  const byteLength = (elementCountOf(memory.shape) * bitsOf(memory)) / 8;
  return memory.byteOffset === 0 && byteLength === memory.storageByteLength;
}

/**
 * Extents of the tensors of each memory, in the order of the tensors; memory without bytes is left
 * out, since nobody can share it.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for an unknown dtype
 */
export function extentsByStorage(tensors: readonly TensorMemory[]): Iterable<Extent[]> {
  const storages = new Map<unknown, Extent[]>();
  for (const memory of tensors) {
    if (memory.storageByteLength === 0) continue;
    const extent = extentOf(memory);
    const extents = storages.get(memory.storage);
    if (extents === undefined) storages.set(memory.storage, [extent]);
    else extents.push(extent);
  }
  return storages.values();
}

function compareExtents(a: Extent, b: Extent): number {
  return a.begin - b.begin || a.end - b.end || compareCodePoints(a.memory.name, b.memory.name);
}

/** Groups of extents of one memory that are connected by common bytes. */
export function connectedExtents(extents: readonly Extent[]): Extent[][] {
  return splitExtents(extents, Math.max);
}

/**
 * What Python takes for groups over common bytes: it compares with the end of the tensor before, not
 * with the farthest end so far, so that a short view inside of a long one hides what comes next.
 */
export function connectedAsPython(extents: readonly Extent[]): Extent[][] {
  return splitExtents(extents, (_, end) => end);
}

/** Sorts by begin, and opens a group with each extent that does not begin before `reach`. */
function splitExtents(
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

/** Names by code points. */
export function namesOf(extents: readonly Extent[]): string[] {
  return extents.map(({ memory }) => memory.name).sort(compareCodePoints);
}
