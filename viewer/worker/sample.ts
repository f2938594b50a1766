/** A part of a tensor that stands for all of it, so that a large one shows something at once. */

import { layerPlace } from '../poster.js';
import type { Axis } from '../selection.js';
import { dimensions, type SampleInfo, type TensorList } from './info.js';

/** How much a sample reads. */
export interface SampleSize {
  readonly elements: number;
  /** Places to read at: each is a request to a server. */
  readonly runs: number;
}

/** Of one tensor. Files are read fast; of a server a sample is a few requests. */
const ONE = {
  files: { elements: 2 ** 20, runs: 256 },
  requests: { elements: 2 ** 18, runs: 24 },
};

/** Of each of many tensors, which share so many elements; none gets fewer than the least. */
const MANY = {
  files: { all: 2 ** 24, least: 2 ** 12, most: 2 ** 16, runs: 1 },
  requests: { all: 2 ** 22, least: 2 ** 12, most: 2 ** 14, runs: 1 },
};

const STACKED = 4;

/** Sizes of samples of one tensor, and of each of all tensors of a model. */
export function sampleSize(isRequested: boolean, tensors = 1): SampleSize {
  const kind = isRequested ? 'requests' : 'files';
  if (tensors === 1) return ONE[kind];
  const { all, least, most, runs } = MANY[kind];
  return { runs, elements: Math.min(most, Math.max(least, Math.floor(all / tensors))) };
}

/** Takes `count` of an axis at even distances. */
function spread(size: number, count: number): Axis {
  const step = Math.max(1, Math.floor(size / count));
  return { start: Math.floor((size - 1 - step * (count - 1)) / 2), step, count, kept: true };
}

/** Takes `count` from the middle of an axis. */
function block(size: number, count: number): Axis {
  const taken = Math.min(size, Math.max(1, count));
  return { start: Math.floor((size - taken) / 2), step: 1, count: taken, kept: true };
}

/**
 * Selects rows at even distances of all dimensions but the last, whole or from its middle; everything of a small
 * tensor.
 */
export function sampleAxes(shape: readonly number[], { elements, runs }: SampleSize): Axis[] {
  const whole = shape.map((size) => spread(size, size));
  const total = shape.reduce((product, size) => product * size, 1);
  if (total <= elements) return whole;
  const columns = shape.at(-1) as number;
  const length = Math.min(columns, elements);
  const middle = block(columns, length);
  // Of a stack of matrices, such as experts, several are seen.
  const most = shape.length > 2 ? Math.max(runs, STACKED) : runs;
  let left = Math.max(1, Math.min(most, Math.floor(elements / length)));
  // Every dimension gets its share: of 128 experts there are some, and of each some rows.
  const outer = shape.slice(0, -1);
  return [
    ...outer.map((size, axis) => {
      const share = Math.ceil(left ** (1 / (outer.length - axis)));
      const count = Math.min(size, share);
      left = Math.max(1, Math.floor(left / count));
      // Rows next to each other are one run.
      const isOneRun = count === 1 && axis === outer.length - 1;
      return isOneRun ? block(size, Math.floor(elements / length)) : spread(size, count);
    }),
    middle,
  ];
}

/** Number of elements of a selection. */
export function selectedElements(axes: readonly Axis[]): number {
  return axes.reduce((product, { count }) => product * count, 1);
}

/** Tensors of one role in a layer that a sample has. A layer of 256 experts would take 768 requests. */
const MOST_OF_ROLE = 16;

const sampled = new WeakMap<readonly string[], readonly number[]>();

/**
 * Positions of the tensors that a sample reads: first one of each role in each layer, so that the poster fills soon;
 * then the others, of experts a few at even distances.
 */
function sampledPositions(names: readonly string[]): readonly number[] {
  const known = sampled.get(names);
  if (known !== undefined) return known;
  const cells = new Map<string, number[]>();
  for (const [at, name] of names.entries()) {
    const { role, layer } = layerPlace(name);
    const cell = cells.get(`${layer} ${role}`);
    if (cell === undefined) cells.set(`${layer} ${role}`, [at]);
    else cell.push(at);
  }
  const parts = Array.from(cells.values(), (tensors) => {
    const count = Math.min(MOST_OF_ROLE, tensors.length);
    return Array.from(
      { length: count },
      (_, at) => tensors[Math.floor((at * tensors.length) / count)] as number,
    );
  });
  const found = [
    ...parts.map(([first]) => first as number),
    ...parts.flatMap(([, ...others]) => others),
  ];
  sampled.set(names, found);
  return found;
}

/** Positions of the tensors to read: those of the sample first, and the others of a whole model after them. */
export function readingOrder(names: readonly string[], isWhole: boolean): readonly number[] {
  const first = sampledPositions(names);
  if (!isWhole || first.length === names.length) return first;
  const known = new Set(first);
  return [...first, ...[...names.keys()].filter((at) => !known.has(at))];
}

/** About how many bytes are read of a tensor. */
export function bytesRead(
  { byteLength, elements }: TensorList,
  at: number,
  size: SampleSize,
  isWhole: boolean,
): number {
  const share = isWhole ? 1 : Math.min(1, size.elements / Math.max(1, elements[at] as number));
  return share * (byteLength[at] as number);
}

/** How much is read of the tensors of a list. */
export function sampleInfo(list: TensorList): SampleInfo {
  return {
    all: list.byteLength.reduce((sum, one) => sum + one, 0),
    files: sampleByteLength(list, false),
    requests: sampleByteLength(list, true),
  };
}

/** Bytes of the samples of the tensors of a list. */
export function sampleByteLength(list: TensorList, isRequested: boolean): number {
  const { names, shapes, elements, byteLength } = list;
  const positions = sampledPositions(names);
  const size = sampleSize(isRequested, positions.length);
  // Of many tensors there are few shapes.
  const counts = new Map<string, number>();
  return positions.reduce((sum, at) => {
    const shape = shapes[at] as string;
    const count = counts.get(shape) ?? selectedElements(sampleAxes(dimensions(shape), size));
    counts.set(shape, count);
    const bytes = byteLength[at] as number;
    return sum + Math.round((bytes * count) / Math.max(1, elements[at] as number));
  }, 0);
}
