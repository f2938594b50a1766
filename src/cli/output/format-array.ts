/** Arrays as numpy prints them: brackets for dimensions, lines of 75 columns, the middle left out. */

/** Arrays with more elements show only their edges. */
const SUMMARY_THRESHOLD = 1000;

/** Shown items at either end of a dimension. */
const EDGE_ITEMS = 3;

const LINE_WIDTH = 75;
const ELLIPSIS = '...';

/** The shown ranges of a dimension: all of it, or both edges. */
export function shownRanges(length: number, isSummary: boolean): (readonly [number, number])[] {
  if (!isSummary || length <= 2 * EDGE_ITEMS) return [[0, length]];
  return [
    [0, EDGE_ITEMS],
    [length - EDGE_ITEMS, length],
  ];
}

/** The shown indices of a dimension; null marks a gap. */
function shownIndices(length: number, isSummary: boolean): (number | null)[] {
  const ranges = shownRanges(length, isSummary);
  return ranges.flatMap(([begin, end], i) => [
    ...(i === 0 ? [] : [null]),
    ...Array.from({ length: end - begin }, (_, at) => begin + at),
  ]);
}

/** Whether an array shows only its edges. */
export function isSummarized(shape: readonly number[]): boolean {
  return shape.reduce((product, length) => product * length, 1) > SUMMARY_THRESHOLD;
}

/**
 * The text of an array.
 *
 * @param itemAt the text of a shown element
 */
export function formatArray(
  shape: readonly number[],
  itemAt: (index: readonly number[]) => string,
): string {
  if (shape.includes(0)) return '[]';
  const isSummary = isSummarized(shape);
  const visit = (index: readonly number[], indent: string, width: number): string => {
    const axesLeft = shape.length - index.length;
    if (axesLeft === 0) return itemAt(index);
    const indices = shownIndices(shape[index.length] as number, isSummary);
    const inner = (i: number | null): string =>
      i === null ? ELLIPSIS : visit([...index, i], `${indent} `, width - 1);
    if (axesLeft > 1) {
      const separator = `\n`.repeat(axesLeft - 1);
      const text = indices.map((i) => indent + inner(i)).join(separator);
      return `[${text.slice(indent.length)}]`;
    }
    let text = '';
    let line = indent;
    for (const [at, i] of indices.entries()) {
      const word = inner(i);
      if (line.length > indent.length && line.length + word.length > width - 1) {
        text += `${line.trimEnd()}\n`;
        line = indent;
      }
      line += word + (at === indices.length - 1 ? '' : ' ');
    }
    return `[${(text + line).slice(indent.length)}]`;
  };
  return visit([], ' ', LINE_WIDTH);
}
