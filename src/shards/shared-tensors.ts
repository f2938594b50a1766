/**
 * Tensors that share memory: which names are written, and which are only recorded. A file cannot
 * hold one range of bytes under two names.
 */

import { argumentRangeError } from '../errors/arguments.js';
import { quoteName, SafetensorsError } from '../errors/errors.js';
import {
  connectedAsPython,
  connectedExtents,
  type Extent,
  extentsByStorage,
  hasElements,
  isComplete,
  namesOf,
  type TensorMemory,
} from './tensor-extents.js';

/**
 * What to do with tensors that share memory.
 *
 * - `copy`: every name is written with bytes of its own.
 * - `dedupe`: of equal tensors over the same bytes one name is written, the others are recorded.
 *   Nothing is dropped that cannot be told from the kept name alone: what overlaps otherwise is
 *   written with bytes of its own.
 * - `error`: tensors over common bytes are refused.
 * - `python`: as `huggingface_hub` and `safetensors.torch.save_model` do it: of names over common
 *   bytes one that covers the whole memory is written, and the others' dtypes, shapes and places are
 *   lost; memory that no name covers is refused, even when a single name is over it.
 */
export type SharedMode = 'copy' | 'dedupe' | 'error' | 'python';

const MODES: readonly unknown[] = ['copy', 'dedupe', 'error', 'python'] satisfies SharedMode[];

/** Which of several names is kept, where that is not left to the order of code points. */
export interface NamePreference {
  /** Names that are kept only when all are of this kind. */
  readonly discardNames?: ReadonlySet<string>;
  /** Names that are kept before all others, those to discard too. */
  readonly preferredNames?: ReadonlySet<string>;
}

/** What is written of tensors that share memory. */
export interface SharingPlan {
  /** Names to write, in the order of the tensors. */
  readonly kept: string[];
  /** Name that stands for it, by name that is not written. */
  readonly dropped: Map<string, string>;
  /** Groups of written names over common bytes: these bytes are written more than once. */
  readonly overlaps: string[][];
  /** Groups of written names that lie in one memory, but not all over common bytes. */
  readonly disjoint: string[][];
}

/** An error names this many groups of names, and as many names of each. */
const SHOWN_ITEMS = 5;

/**
 * Says which tensors to write. Memory without bytes is never shared, and tensors without elements
 * share none but in the mode `python`. Lists of names are sorted by code points. Time grows as sorting
 * the tensors does.
 *
 * @throws SafetensorsError `SAFETENSORS_SHARED_TENSORS` in the modes `error` and `python`
 * @throws RangeError `ERR_OUT_OF_RANGE` for an unknown mode or dtype
 */
export function planSharing(
  tensors: readonly TensorMemory[],
  mode: SharedMode,
  preference: NamePreference = {},
): SharingPlan {
  if (!MODES.includes(mode)) throw argumentRangeError('shared', `one of ${MODES.join(', ')}`, mode);
  const dropped = new Map<string, string>();
  const overlaps: string[][] = [];
  const disjoint: string[][] = [];
  if (mode === 'error') refuseShared(tensors);
  if (mode === 'python') dropAsPython(tensors, preference, dropped);
  if (mode === 'dedupe') {
    for (const extents of extentsByStorage(tensors.filter(hasElements))) {
      const written = dropAliases(extents, preference, dropped);
      const clusters = connectedExtents(written);
      for (const cluster of clusters) if (cluster.length > 1) overlaps.push(namesOf(cluster));
      if (clusters.length > 1) disjoint.push(namesOf(written));
    }
  }
  const names = tensors.map(({ name }) => name);
  return { kept: names.filter((name) => !dropped.has(name)), dropped, overlaps, disjoint };
}

/** Equal for tensors of one memory with the same elements in the same places, and for no others. */
function aliasKeyOf({ byteOffset, dtype, shape, strides }: TensorMemory): string {
  const steps: (number | undefined)[] = [];
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const size = shape[i] ?? 1;
    // The stride of a dimension with one element leads nowhere.
    steps.push(size === 1 ? undefined : (strides?.[i] ?? step));
    step *= size;
  }
  return `${byteOffset} ${dtype} ${shape} ${steps}`;
}

/** Extents of the names that are written; the names of others that mean the same are recorded. */
function dropAliases(
  extents: readonly Extent[],
  preference: NamePreference,
  dropped: Map<string, string>,
): Extent[] {
  if (extents.length === 1) return [...extents];
  const aliases = new Map<string, Extent[]>();
  for (const extent of extents) {
    const key = aliasKeyOf(extent.memory);
    const equal = aliases.get(key);
    if (equal === undefined) aliases.set(key, [extent]);
    else equal.push(extent);
  }
  return [...aliases.values()].flatMap((equal) => {
    const names = namesOf(equal);
    const kept = chooseName(names, preference);
    record(names, kept, dropped);
    return equal.filter(({ memory }) => memory.name === kept);
  });
}

/** The name to keep of sorted names. */
function chooseName(names: readonly string[], preference: NamePreference): string | undefined {
  const { preferredNames, discardNames } = preference;
  return (
    names.find((name) => preferredNames?.has(name)) ??
    names.find((name) => !discardNames?.has(name)) ??
    names[0]
  );
}

function record(
  names: readonly string[],
  kept: string | undefined,
  dropped: Map<string, string>,
): void {
  if (kept === undefined) return;
  for (const name of names) if (name !== kept) dropped.set(name, kept);
}

function refuseShared(tensors: readonly TensorMemory[]): void {
  const shared: string[][] = [];
  for (const extents of extentsByStorage(tensors.filter(hasElements))) {
    for (const cluster of connectedExtents(extents)) {
      if (cluster.length > 1) shared.push(namesOf(cluster));
    }
  }
  if (shared.length === 0) return;
  throw sharedTensorsError(
    `tensors share memory: ${listGroups(shared)}; 'dedupe' writes equal ones once, 'copy' writes all`,
  );
}

function dropAsPython(
  tensors: readonly TensorMemory[],
  preference: NamePreference,
  dropped: Map<string, string>,
): void {
  const uncovered: string[][] = [];
  for (const extents of extentsByStorage(tensors)) {
    if (extents.length > 1) for (const { memory } of extents) requireFlat(memory);
    for (const group of connectedAsPython(extents)) {
      const complete = namesOf(group.filter(({ memory }) => isComplete(memory)));
      if (complete.length === 0) uncovered.push(namesOf(group));
      else record(namesOf(group), chooseName(complete, preference), dropped);
    }
  }
  if (uncovered.length === 0) return;
  throw sharedTensorsError(
    `no tensor covers the whole of its memory: ${listGroups(uncovered)}; ` +
      "'dedupe' and 'copy' write such tensors with bytes of their own",
  );
}

/** Throws for what has no flat view in torch, with which Python asks for the last element. */
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

function listGroups(groups: readonly string[][]): string {
  return listItems(groups.map((names) => `[${listItems(names.map(quoteName))}]`));
}

function listItems(items: readonly string[]): string {
  const shown = items.slice(0, SHOWN_ITEMS).join(', ');
  return items.length > SHOWN_ITEMS ? `${shown} and ${items.length - SHOWN_ITEMS} more` : shown;
}

function sharedTensorsError(message: string): SafetensorsError {
  return new SafetensorsError('SAFETENSORS_SHARED_TENSORS', message);
}
