/**
 * A part of a tensor: for every axis an index, or a range of them. People write it in numpy's notation (`3, 0:100,
 * ::2`), by numpy's rules: ranges are clamped, negative numbers count from the end.
 */

/** What is taken of an axis. */
export interface Axis {
  readonly start: number;
  readonly step: number;
  readonly count: number;
  /** False for a single index, which takes the axis out of the result. */
  readonly kept: boolean;
}

/** An index of the library's `slice`: a number, or `[start, stop, step]`. */
export type PartIndex = number | [start: number, stop: number | null, step: number];

const RANGE = /^(?<start>[+-]?\d+)?\s*:\s*(?<stop>[+-]?\d+)?\s*(?::\s*(?<step>[+-]?\d+)?)?$/;

/** All of an axis. */
export function wholeAxis(size: number): Axis {
  return { start: 0, step: 1, count: size, kept: true };
}

function clamped(value: number, size: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value < 0 ? value + size : value));
}

function axisOf(text: string, size: number, position: number): Axis {
  const at = `axis ${position}, which has ${size}`;
  if (/^[+-]?\d+$/.test(text)) {
    const index = Number(text);
    const start = index < 0 ? index + size : index;
    if (start >= 0 && start < size) return { start, step: 1, count: 1, kept: false };
    throw new RangeError(`There is no index ${text} on ${at}.`);
  }
  const parts = RANGE.exec(text)?.groups;
  if (parts === undefined)
    throw new RangeError(`"${text}" is neither an index nor a range, as 0:10 or ::2.`);
  const step = Number(parts['step'] ?? 1);
  if (step === 0) throw new RangeError(`The step on ${at} must not be 0.`);
  const [least, most] = step > 0 ? [0, size] : [-1, size - 1];
  const bound = (given: string | undefined, open: number) =>
    given === undefined ? open : clamped(Number(given), size, least, most);
  const start = bound(parts['start'], step > 0 ? 0 : size - 1);
  const stop = bound(parts['stop'], step > 0 ? size : -1);
  const count = Math.ceil((stop - start) / step);
  return count > 0
    ? { start, step, count, kept: true }
    : { start: 0, step: 1, count: 0, kept: true };
}

/**
 * Reads a selection; an empty text is everything.
 *
 * @throws RangeError that says which index is wrong
 */
export function parseSelection(text: string, shape: readonly number[]): Axis[] {
  const inner = text
    .trim()
    .replace(/^\[(.*)\]$/s, '$1')
    .replace(/,\s*$/, '')
    .trim();
  const given = inner === '' ? [] : inner.split(',').map((part) => part.trim());
  const gap = given.findIndex((part) => part === '...' || part === '…');
  if (given.length - (gap === -1 ? 0 : 1) > shape.length) {
    throw new RangeError(`There are ${given.length} indices for ${shape.length} axes.`);
  }
  const before = gap === -1 ? given : given.slice(0, gap);
  const after = gap === -1 ? [] : given.slice(gap + 1);
  return shape.map((size, axis) => {
    const part = axis < before.length ? before[axis] : after[axis - shape.length + after.length];
    return part === undefined ? wholeAxis(size) : axisOf(part, size, axis);
  });
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
export function selectionText(axes: readonly Axis[], shape: readonly number[]): string {
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
export function keptAxes(axes: readonly Axis[]): number[] {
  return axes.flatMap(({ kept }, at) => (kept ? [at] : []));
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
