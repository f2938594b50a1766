/**
 * A part of a tensor: for every axis an index, or a range of them. The library parses what users type, in numpy
 * notation (`3, 0:100, ::2`).
 */

import { parseSlice, type SliceAxis } from 'safetensors-mmap';

/** The part of an axis. */
export type Axis = SliceAxis;

/** An index of the library's `slice`: a number, or `[start, stop, step]`. */
type PartIndex = number | [start: number, stop: number | null, step: number];

/** All of an axis. */
export function wholeAxis(size: number): Axis {
  return { start: 0, step: 1, count: size, kept: true };
}

/** The part of a tensor to show, and the error of a text that is no slice of it: then its first plane is shown. */
export function shownPart(
  text: string,
  shape: readonly number[],
): { readonly axes: Axis[]; readonly problem: Error | null } {
  try {
    return { axes: planeOf(parseSlice(text, shape)), problem: null };
  } catch (error) {
    return { axes: planeOf(shape.map(wholeAxis)), problem: error as Error };
  }
}

function axisText({ start, step, count, kept }: Axis, size: number): string {
  if (!kept) return String(start);
  if (count === 0) return '0:0';
  const stop = start + step * count;
  const isToEnd = step > 0 ? stop >= size : stop < 0;
  const isFromStart = step > 0 ? start === 0 : start === size - 1;
  const range = `${isFromStart ? '' : start}:${isToEnd ? '' : stop}`;
  return step === 1 ? range : `${range}:${step}`;
}

/** Writes a selection in numpy's notation; everything is an empty text. */
export function formatSelection(axes: readonly Axis[], shape: readonly number[]): string {
  const texts = axes.map((axis, at) => axisText(axis, shape[at] as number));
  return texts.every((text) => text === ':') ? '' : texts.join(', ');
}

/** Keeps the last two axes that a selection keeps, and takes the first of what is selected of those before. */
export function planeOf(axes: readonly Axis[]): Axis[] {
  let excess = axes.filter(({ kept }) => kept).length - 2;
  return axes.map((axis) =>
    axis.kept && excess-- > 0 ? { ...axis, count: 1, step: 1, kept: false } : axis,
  );
}

/** Positions of the axes that a selection keeps. */
export function remainingAxes(axes: readonly Axis[]): number[] {
  return axes.flatMap(({ kept }, at) => (kept ? [at] : []));
}

/** The place of an index in a selection, along the axes that it keeps; null when it is not selected. */
export function placeOf(index: readonly number[], axes: readonly Axis[]): number[] | null {
  const places = axes.map(({ start, step }, axis) => ((index[axis] as number) - start) / step);
  const isThere = axes.every(({ kept, count }, axis) => {
    const place = places[axis] as number;
    return kept ? Number.isInteger(place) && place >= 0 && place < count : place === 0;
  });
  return isThere ? places.filter((_, axis) => axes[axis]?.kept) : null;
}

/** The part of an axis from one of its selected positions to another. */
export function within(axis: Axis, from: number, to: number, every = 1): Axis {
  const count = Math.max(0, Math.ceil((Math.min(to, axis.count) - from) / every));
  return { ...axis, start: axis.start + axis.step * from, step: axis.step * every, count };
}

/** A selection as the library's `slice` takes it. */
export function partIndices(axes: readonly Axis[]): PartIndex[] {
  return axes.map(({ start, step, count, kept }) => {
    if (!kept) return start;
    const stop = start + step * count;
    // Before the first, numpy's notation has only "to the end".
    return [start, stop < 0 ? null : stop, step];
  });
}

/** Rows and columns on each side of a place to go to. */
const AROUND = 16;

/** The part of a tensor around an index; an empty text if that is all. */
export function sliceAround(index: readonly number[], shape: readonly number[]): string {
  const texts = index.map((at, axis) => {
    if (axis < index.length - 2) return String(at);
    const [begin, end] = [at - AROUND, at + AROUND + 1];
    return `${begin > 0 ? begin : ''}:${end < (shape[axis] as number) ? end : ''}`;
  });
  return texts.every((text) => text === ':') ? '' : texts.join(', ');
}

/** The position in a tensor of a row or column of a sample: the one in the middle of those that it stands for. */
export function sampledPosition(
  at: number,
  [begin, end]: readonly [number, number],
  step: number,
): number {
  return Math.min(begin + Math.floor(step / 2), end - 1) + at * step;
}
