/** The text of `diff`. */

import { formatInteger, plural } from '../../inspect/format.js';
import type { Style } from '../output/style.js';
import { type Column, tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { widthOf } from '../output/width.js';
import type { ChangedTensor, DiffResult, FromBase, LayerRow } from './diff-result.js';

const SHOWN_DIFFERENCE_DIGITS = 4;

function layerLines(layers: readonly LayerRow[], style: Style, width: number | null): string[] {
  if (layers.length === 0) return [];
  const hasValues = layers.some(({ relative }) => relative !== undefined);
  const columns: Column[] = [
    { title: 'layer', gives: true },
    ...['added', 'removed', 'changed', ...(hasValues ? ['max relative'] : [])].map(
      (title): Column => ({ title, align: 'right' }),
    ),
  ];
  const rows = layers.map(({ name, added, removed, changed, relative }) => [
    visible(name, SHOWN_NAME_LENGTH),
    ...[added, removed, changed].map(formatInteger),
    ...(hasValues ? [shownValue(relative ?? null)] : []),
  ]);
  return tableLines(columns, rows, width, style.dim);
}

/** Which of A and B changed a tensor of the base, and by how much. */
function fromBaseText([a, b]: NonNullable<ChangedTensor['fromBase']>): string {
  const one = (side: string, from: FromBase | null): string[] => {
    if (from === null) return [];
    const relative = from.relative === undefined ? '' : ` ${shownValue(from.relative)}`;
    return [`${side}${relative}`];
  };
  return [...one('A', a), ...one('B', b)].join(', ');
}

function shownValue(value: number | string | null): string {
  return typeof value === 'number'
    ? String(Number(value.toPrecision(SHOWN_DIFFERENCE_DIGITS)))
    : (value ?? '');
}

/** The change, from → to, and how many of the compared values are NaN or infinite. */
function changeText({ changed, dtype, shape, values }: ChangedTensor): string {
  const parts: string[] = [];
  if (dtype[0] !== dtype[1]) parts.push(dtype.join(' → '));
  if (changed.includes('shape')) parts.push(shape.map((one) => `[${one.join(', ')}]`).join(' → '));
  if (parts.length === 0) parts.push(changed);
  const nonFinite = Number(values?.nonFinite ?? 0);
  if (nonFinite > 0) parts.push(`${formatInteger(nonFinite)} NaN or Inf`);
  return parts.join(', ');
}

/** The cosine of two changes; a dash where one of them is zero. */
function cosineText(cosine: number | null): string {
  return cosine === null ? '–' : shownValue(cosine);
}

/** The table of changed tensors, with the cosines of the changes since a base if they fit. */
function changedLines(
  changed: readonly ChangedTensor[],
  style: Style,
  width: number | null,
): string[] {
  if (changed.length === 0) return [];
  const hasCosines = changed.some(({ cosineOfChanges }) => cosineOfChanges !== undefined);
  if (hasCosines) {
    const lines = tableOf(changed, true, (text) => text, width);
    if (width === null || lines.every((line) => widthOf(line) <= width)) {
      return tableOf(changed, true, style.dim, width);
    }
  }
  return tableOf(changed, false, style.dim, width);
}

function tableOf(
  changed: readonly ChangedTensor[],
  hasCosines: boolean,
  markTitles: (text: string) => string,
  width: number | null,
): string[] {
  const hasValues = changed.some(({ values }) => values !== undefined);
  const hasBase = changed.some(({ fromBase }) => fromBase !== undefined);
  const columns: Column[] = [
    { title: 'changed', gives: true },
    { title: 'what' },
    ...(hasBase ? [{ title: 'from base' }] : []),
    ...(hasCosines ? [{ title: 'change cosine', align: 'right' } as const] : []),
    ...(hasValues
      ? ([
          { title: 'differing', align: 'right' },
          { title: 'max error', align: 'right' },
          { title: 'relative', align: 'right' },
          { title: 'cosine', align: 'right' },
        ] as const)
      : []),
  ];
  const rows = changed.map((one) => {
    const { values, fromBase } = one;
    const row = [visible(one.name, SHOWN_NAME_LENGTH), changeText(one)];
    if (fromBase !== undefined) row.push(fromBaseText(fromBase));
    const { cosineOfChanges } = one;
    if (hasCosines) row.push(cosineOfChanges === undefined ? '' : cosineText(cosineOfChanges));
    if (!hasValues) return row;
    if (values === undefined) return [...row, '', '', '', ''];
    const counts = `${formatInteger(Number(values.differing))} of ${formatInteger(Number(values.elements))}`;
    const { maxError, relative, cosine } = values;
    return [...row, counts, ...[maxError, relative, cosine].map(shownValue)];
  });
  return tableLines(columns, rows, width, markTitles);
}

export function diffLines(
  result: DiffResult,
  isQuick: boolean,
  style: Style,
  width: number | null,
): readonly string[] {
  const { added, removed, changed, unchanged, same, changedAlike = [], layers } = result;
  const { cosineOfChanges } = result;
  const name = (text: string): string => visible(text, SHOWN_NAME_LENGTH);
  const counts = [
    `${formatInteger(added.length)} added`,
    `${formatInteger(removed.length)} removed`,
    `${formatInteger(changed.length)} changed`,
    `${plural(unchanged, 'tensor')} the same`,
    ...(changedAlike.length === 0
      ? []
      : [`${formatInteger(changedAlike.length)} changed alike since the base`]),
  ];
  const differences =
    layers === undefined
      ? [
          ...added.map((one) => `+ ${name(one)}`),
          ...removed.map((one) => `- ${name(one)}`),
          ...changedLines(changed, style, width),
        ]
      : layerLines(layers, style, width);
  return [
    ...differences,
    same
      ? `no difference${isQuick ? ' in names, dtypes and shapes' : ''}; ${plural(unchanged, 'tensor')}`
      : counts.join(', '),
    ...(same || cosineOfChanges === undefined
      ? []
      : [`cosine of all changes from the base: ${cosineText(cosineOfChanges)}`]),
  ];
}
