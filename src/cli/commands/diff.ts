/** `diff`: the differences of two files or checkpoints. */

import type { Tensor, TensorEntry } from '../../index.js';
import { groupedText, plural } from '../output/numbers.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { type Column, tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { compareValues, haveSameBytes, type ValueDifference } from '../sources/compare.js';
import { findTensor, tensorsByName, tensorsInTurn } from '../sources/get-tensor.js';
import { LongWork } from '../sources/long-work.js';
import { closeSource, type OpenedSource, openSource } from '../sources/open-source.js';
import {
  type Command,
  type CommandContext,
  jsonNumber,
  printResult,
  UsageError,
} from './command.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';

const SHOWN_DIFFERENCE_DIGITS = 4;

/** A tensor of both sources, for `--json`. */
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
  /** Names in the second source alone, and in the first alone. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly ChangedTensor[];
  readonly unchanged: number;
}

/** Ways to compare bytes. */
interface Comparison {
  readonly isQuick: boolean;
  readonly hasValues: boolean;
}

/** A tensor of both sources. */
interface Pair {
  readonly name: string;
  readonly a: TensorEntry;
  readonly b: TensorEntry;
  readonly changed: 'dtype' | 'shape' | 'dtype and shape' | undefined;
  /** Whether the bytes must be read to know the difference. */
  readonly isRead: boolean;
}

function pairOf(a: TensorEntry, b: TensorEntry, { isQuick, hasValues }: Comparison): Pair {
  const hasShape = a.shape.join() !== b.shape.join();
  const hasDtype = a.dtype !== b.dtype;
  const changed = hasDtype && hasShape ? 'dtype and shape' : hasDtype ? 'dtype' : 'shape';
  const isSame = !hasDtype && !hasShape;
  const isRead = !isQuick && (isSame || (!hasShape && hasValues));
  return { name: a.name, a, b, changed: isSame ? undefined : changed, isRead };
}

/** The tensors that are read, from one source, in the order of the pairs. */
type Side = AsyncGenerator<Tensor, void, void>;

async function nextOf(side: Side): Promise<Tensor> {
  return (await side.next()).value as Tensor;
}

async function comparePair(
  { name, a, b, changed, isRead }: Pair,
  [first, second]: readonly [Side, Side],
  { hasValues }: Comparison,
  work: LongWork,
): Promise<ChangedTensor | undefined> {
  const facts = { dtype: [a.dtype, b.dtype], shape: [a.shape, b.shape] } as const;
  if (!isRead) return changed === undefined ? undefined : { name, changed, ...facts };
  const [whole, other] = [await nextOf(first), await nextOf(second)];
  if (changed === undefined && (await haveSameBytes(whole, other, work))) return undefined;
  const entry = { name, changed: changed ?? 'bytes', ...facts } as const;
  if (!hasValues) return entry;
  const { elements, differing, maxError, cosine } = await compareValues(whole, other, work);
  const values = {
    elements,
    differing,
    maxError: jsonNumber(maxError),
    cosine: jsonNumber(cosine),
  };
  return { ...entry, values };
}

/** Compares the tensors of both sources one by one, with one progress for all. */
async function compareCommon(
  pairs: readonly Pair[],
  sides: readonly [Side, Side],
  comparison: Comparison,
  { stderr, signal }: CommandContext,
): Promise<ChangedTensor[]> {
  const lengthOf = ({ a, isRead }: Pair): number => (isRead ? a.byteLength : 0);
  const totalBytes = pairs.reduce((sum, pair) => sum + lengthOf(pair), 0);
  const progress = progressOn(stderr, 'comparing');
  const changed: ChangedTensor[] = [];
  let before = 0;
  try {
    for (const pair of pairs) {
      const length = lengthOf(pair);
      let own = 0;
      // When the bytes differ, comparing values reads the tensor again from its start.
      const work = new LongWork(signal, (more) => {
        own = Math.min(length, own + more);
        progress.onProgress({ bytes: before + own, totalBytes });
      });
      const change = await comparePair(pair, sides, comparison, work);
      if (change !== undefined) changed.push(change);
      before += length;
    }
    return changed;
  } finally {
    progress.end();
    for (const side of sides) await side.return();
  }
}

async function compareSources(
  first: OpenedSource,
  second: OpenedSource,
  comparison: Comparison,
  context: CommandContext,
): Promise<Omit<DiffResult, 'a' | 'b' | 'same'>> {
  const { signal } = context;
  const [inA, inB] = [await tensorsByName(first, signal), await tensorsByName(second, signal)];
  const pairs: Pair[] = [];
  for (const [name, a] of inA) {
    const b = inB.get(name);
    if (b === undefined) continue;
    // Throws the reason why safetensors cannot hold the tensor.
    if (a === null) await findTensor(first, name, signal);
    if (b === null) await findTensor(second, name, signal);
    if (a !== null && b !== null) pairs.push(pairOf(a, b, comparison));
  }
  const read = pairs.filter(({ isRead }) => isRead);
  const inTurn = (opened: OpenedSource, entries: TensorEntry[]): Side =>
    tensorsInTurn(opened, entries, signal);
  const sides = [
    inTurn(
      first,
      read.map(({ a }) => a),
    ),
    inTurn(
      second,
      read.map(({ b }) => b),
    ),
  ] as const;
  const changed = await compareCommon(pairs, sides, comparison, context);
  return {
    added: [...inB.keys()].filter((name) => !inA.has(name)),
    removed: [...inA.keys()].filter((name) => !inB.has(name)),
    changed,
    unchanged: pairs.length - changed.length,
  };
}

function shownValue(value: number | string | null): string {
  return typeof value === 'number'
    ? String(Number(value.toPrecision(SHOWN_DIFFERENCE_DIGITS)))
    : (value ?? '');
}

/** The change, from → to. */
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
    return [...row, counts, shownValue(values.maxError), shownValue(values.cosine)];
  });
  return tableLines(columns, rows, width, style.dim);
}

function diffLines(result: DiffResult, style: Style, width: number | null): readonly string[] {
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

export const diffCommand: Command = {
  summary: 'compares two files or checkpoints',
  usage: 'diff A B [--values | --quick]',
  description:
    'Lists the tensors that only one of them has, and those that differ in dtype, shape or bytes, in whichever ' +
    'files they are. Exit code 1 if there is a difference.',
  options: {
    values: {
      type: 'boolean',
      help: 'compares values: greatest error, cosine similarity, number of differences',
    },
    quick: { type: 'boolean', help: 'compares only dtypes and shapes, without reading tensors' },
    ...FOREIGN_OPTIONS,
  },
  positionals: [2, 2],
  async run(context, [a = '', b = ''], options) {
    const { signal } = context;
    const isQuick = options['quick'] === true;
    const hasValues = options['values'] === true;
    if (isQuick && hasValues) {
      throw new UsageError('--quick cannot be combined with --values, which reads the tensors');
    }
    const opening = { signal, storage: undefined, foreign: foreignChoices(options) };
    const first = await openSource(a, opening);
    try {
      const second = await openSource(b, opening);
      try {
        const found = await compareSources(first, second, { isQuick, hasValues }, context);
        const same = found.added.length + found.removed.length + found.changed.length === 0;
        printResult<DiffResult>(context, options, { a, b, same, ...found }, diffLines);
        return same ? 'done' : 'no';
      } finally {
        closeSource(second);
      }
    } finally {
      closeSource(first);
    }
  },
};
