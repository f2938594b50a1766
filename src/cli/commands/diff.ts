/** `diff`: how two files or checkpoints differ. */

import type { Tensor } from '../../index.js';
import { groupedText, plural } from '../output/numbers.js';
import type { Style } from '../output/style.js';
import { type Column, tableLines } from '../output/table.js';
import { visible } from '../output/visible.js';
import { compareValues, haveSameBytes, type ValueDifference } from '../sources/compare.js';
import { type FoundTensor, findTensor, namesOf } from '../sources/get-tensor.js';
import { closeSource, type OpenedSource, openSource } from '../sources/open-source.js';
import { type Command, jsonNumber, printResult, UsageError } from './command.js';

const SHOWN_NAME_LENGTH = 200;
const SHOWN_DIGITS = 4;

/** A tensor that both have, as `--json` has it. */
interface ChangedTensor {
  readonly name: string;
  readonly changed: 'dtype' | 'shape' | 'dtype and shape' | 'bytes';
  /** In the first and the second source. */
  readonly dtype: readonly [string, string];
  readonly shape: readonly [readonly number[], readonly number[]];
  /** With `--values`, for tensors of one shape. */
  readonly values?: {
    readonly [Key in keyof ValueDifference]: number | string | null;
  };
}

interface DiffResult {
  readonly a: string;
  readonly b: string;
  readonly same: boolean;
  /** Names that only the second has, and only the first. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly ChangedTensor[];
  readonly unchanged: number;
}

/** How the bytes are compared. */
interface Comparison {
  readonly isQuick: boolean;
  readonly hasValues: boolean;
  readonly signal: AbortSignal;
}

function changeOf(a: FoundTensor, b: FoundTensor): ChangedTensor['changed'] | undefined {
  const hasShape = a.shape.join() !== b.shape.join();
  if (a.dtype !== b.dtype) return hasShape ? 'dtype and shape' : 'dtype';
  return hasShape ? 'shape' : undefined;
}

async function compareTensor(
  name: string,
  a: FoundTensor,
  b: FoundTensor,
  { isQuick, hasValues, signal }: Comparison,
): Promise<ChangedTensor | undefined> {
  const facts = { dtype: [a.dtype, b.dtype], shape: [a.shape, b.shape] } as const;
  const changed = changeOf(a, b);
  const hasOneShape = changed === undefined || changed === 'dtype';
  if (isQuick || !hasOneShape || (changed === 'dtype' && !hasValues)) {
    return changed === undefined ? undefined : { name, changed, ...facts };
  }
  const [whole, other]: [Tensor, Tensor] = [await a.slice([]), await b.slice([])];
  if (changed === undefined && haveSameBytes(whole, other, signal)) return undefined;
  const entry = { name, changed: changed ?? 'bytes', ...facts } as const;
  if (!hasValues) return entry;
  const { elements, differing, maxError, cosine } = compareValues(whole, other, signal);
  const values = {
    elements,
    differing,
    maxError: jsonNumber(maxError),
    cosine: jsonNumber(cosine),
  };
  return { ...entry, values };
}

async function compareSources(
  a: OpenedSource,
  b: OpenedSource,
  comparison: Comparison,
): Promise<Omit<DiffResult, 'a' | 'b' | 'same'>> {
  const { signal } = comparison;
  const [names, others] = [namesOf(a), namesOf(b)];
  const inA = new Set(names);
  const inB = new Set(others);
  const changed: ChangedTensor[] = [];
  let unchanged = 0;
  for (const name of names.filter((one) => inB.has(one))) {
    signal.throwIfAborted();
    const tensors = [await findTensor(a, name, signal), await findTensor(b, name, signal)] as const;
    const change = await compareTensor(name, ...tensors, comparison);
    if (change === undefined) unchanged++;
    else changed.push(change);
  }
  return {
    added: others.filter((name) => !inA.has(name)),
    removed: names.filter((name) => !inB.has(name)),
    ...{ changed, unchanged },
  };
}

function shown(value: number | string | null): string {
  return typeof value === 'number'
    ? String(Number(value.toPrecision(SHOWN_DIGITS)))
    : (value ?? '');
}

/** What changed, from → to. */
function changeText({ changed, dtype, shape }: ChangedTensor): string {
  const parts: string[] = [];
  if (dtype[0] !== dtype[1]) parts.push(dtype.join(' → '));
  if (changed.includes('shape')) parts.push(shape.map((one) => `[${one.join(', ')}]`).join(' → '));
  return parts.length === 0 ? changed : parts.join(', ');
}

function changedLines(
  changed: readonly ChangedTensor[],
  style: Style,
  width: number | null,
): string[] {
  if (changed.length === 0) return [];
  const hasValues = changed.some(({ values }) => values !== undefined);
  const columns: Column[] = [
    { title: 'changed', gives: true },
    { title: 'what' },
    ...(hasValues
      ? ([
          { title: 'differing', align: 'right' },
          { title: 'max error', align: 'right' },
          { title: 'cosine', align: 'right' },
        ] as const)
      : []),
  ];
  const rows = changed.map((one) => {
    const { values } = one;
    const row = [visible(one.name, SHOWN_NAME_LENGTH), changeText(one)];
    if (!hasValues) return row;
    if (values === undefined) return [...row, '', '', ''];
    const counts = `${groupedText(Number(values.differing))} of ${groupedText(Number(values.elements))}`;
    return [...row, counts, shown(values.maxError), shown(values.cosine)];
  });
  return tableLines(columns, rows, width, style.dim);
}

function linesOf(result: DiffResult, style: Style, width: number | null): readonly string[] {
  const { added, removed, changed, unchanged, same } = result;
  const name = (text: string): string => visible(text, SHOWN_NAME_LENGTH);
  const counts = [
    `${groupedText(added.length)} added`,
    `${groupedText(removed.length)} removed`,
    `${groupedText(changed.length)} changed`,
    `${plural(unchanged, 'tensor')} the same`,
  ];
  return [
    ...added.map((one) => `+ ${name(one)}`),
    ...removed.map((one) => `- ${name(one)}`),
    ...changedLines(changed, style, width),
    same ? `no difference; ${plural(unchanged, 'tensor')}` : counts.join(', '),
  ];
}

export const diff: Command = {
  summary: 'how two files or checkpoints differ',
  usage: 'diff A B [--values | --quick]',
  description:
    'Tensors that only one of them has, and those that differ in dtype, shape or bytes, whatever the files that ' +
    'they are in. Exit code 1 when there is a difference.',
  options: {
    values: {
      type: 'boolean',
      help: 'how far values are apart: greatest error, cosine similarity, how many differ',
    },
    quick: { type: 'boolean', help: 'only dtypes and shapes: reads no tensors' },
  },
  positionals: [2, 2],
  async run(context, [a = '', b = ''], options) {
    const { signal } = context;
    const isQuick = options['quick'] === true;
    const hasValues = options['values'] === true;
    if (isQuick && hasValues) throw new UsageError('--quick reads no values');
    const first = await openSource(a, { signal, storage: undefined });
    try {
      const second = await openSource(b, { signal, storage: undefined });
      try {
        const found = await compareSources(first, second, { isQuick, hasValues, signal });
        const same = found.added.length + found.removed.length + found.changed.length === 0;
        printResult<DiffResult>(context, options, { a, b, same, ...found }, linesOf);
        return same ? 'done' : 'no';
      } finally {
        closeSource(second);
      }
    } finally {
      closeSource(first);
    }
  },
};
