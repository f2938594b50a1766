/** `diff`: the differences of two files or checkpoints. */

import type { TensorEntry, TransferOptions } from '../../index.js';
import { groupedText, plural } from '../../inspect/number-texts.js';
import type { TensorDifference } from '../../inspect.js';
import type { DequantizedCheckpoint } from '../../quantized.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { type Column, tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { findTensor, tensorsByName } from '../sources/get-tensor.js';
import {
  type Component,
  closeSource,
  type OpenedSource,
  openSource,
} from '../sources/open-source.js';
import {
  logicalModels,
  type PairReader,
  readLogicalPairs,
  storedPairs,
  type TensorFacts,
} from '../sources/pairs.js';
import {
  type Command,
  type CommandContext,
  jsonNumber,
  printResult,
  UsageError,
} from './command.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { RAW } from './raw.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

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
    readonly [Key in keyof TensorDifference]: number | string | null;
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

/** Ways to compare. */
interface Comparison {
  readonly isQuick: boolean;
  readonly hasValues: boolean;
  readonly isRaw: boolean;
}

/** A tensor of both sources. */
interface Pair {
  readonly name: string;
  readonly a: TensorFacts;
  readonly b: TensorFacts;
  readonly changed: 'dtype' | 'shape' | 'dtype and shape' | undefined;
  /** Whether the bytes must be read to know the difference. */
  readonly isRead: boolean;
}

function pairOf(a: TensorFacts, b: TensorFacts, { isQuick, hasValues }: Comparison): Pair {
  const hasShape = a.shape.join() !== b.shape.join();
  const hasDtype = a.dtype !== b.dtype;
  const changed = hasDtype && hasShape ? 'dtype and shape' : hasDtype ? 'dtype' : 'shape';
  const isSame = !hasDtype && !hasShape;
  const isRead = !isQuick && (isSame || (!hasShape && hasValues));
  return { name: a.name, a, b, changed: isSame ? undefined : changed, isRead };
}

async function comparePair(
  { name, a, b, changed, isRead }: Pair,
  reader: PairReader,
  { hasValues }: Comparison,
  options: TransferOptions,
): Promise<ChangedTensor | undefined> {
  const facts = { dtype: [a.dtype, b.dtype], shape: [a.shape, b.shape] } as const;
  if (!isRead) return changed === undefined ? undefined : { name, changed, ...facts };
  const both = await reader.next(name);
  if (changed === undefined && (await both.haveSameBytes(options))) return undefined;
  const entry = { name, changed: changed ?? 'bytes', ...facts } as const;
  if (!hasValues) return entry;
  const found = await both.compare(options);
  const { elements, differing, maxError, relative, cosine } = found;
  if (both.areComputed && changed === undefined && differing === 0) return undefined;
  const values = {
    elements,
    differing,
    maxError: jsonNumber(maxError),
    relative: jsonNumber(relative),
    cosine: jsonNumber(cosine),
  };
  return { ...entry, values };
}

/** Compares the tensors of both sources one by one, with one progress for all. */
async function compareCommon(
  pairs: readonly Pair[],
  reader: PairReader,
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
      const onProgress = ({ bytes }: { readonly bytes: number }): void => {
        own = Math.max(own, bytes);
        progress.onProgress({ bytes: before + own, totalBytes });
      };
      const change = await comparePair(pair, reader, comparison, { signal, onProgress });
      if (change !== undefined) changed.push(change);
      before += length;
    }
    return changed;
  } finally {
    progress.end();
    await reader.end();
  }
}

/** The tensors of a source by name; null for those that cannot be read. */
type Named<Facts> = ReadonlyMap<string, Facts | null>;

/** What there is to compare, and how it is read. */
interface Sides {
  readonly named: readonly [Named<TensorFacts>, Named<TensorFacts>];
  /** Throws the reason why a tensor cannot be read. */
  refuse(side: 0 | 1, name: string): Promise<unknown>;
  read(names: readonly string[]): PairReader;
}

async function sidesOf(
  sources: readonly [OpenedSource, OpenedSource],
  { hasValues, isRaw }: Comparison,
  signal: AbortSignal,
): Promise<Sides> {
  const [inA, inB] = [
    await tensorsByName(sources[0], signal),
    await tensorsByName(sources[1], signal),
  ];
  const entriesOf = (named: Named<TensorEntry>): TensorEntry[] =>
    [...named.values()].filter((entry) => entry !== null);
  const models =
    isRaw || !hasValues
      ? null
      : await logicalModels(sources, [entriesOf(inA), entriesOf(inB)], signal);
  if (models !== null) {
    return {
      named: [logicalFacts(models[0], inA), logicalFacts(models[1], inB)],
      refuse: async (side, name) => models[side].info(name),
      read: () => readLogicalPairs(models),
    };
  }
  const only = (named: Named<TensorEntry>, names: readonly string[]): TensorEntry[] =>
    names.map((name) => named.get(name) as TensorEntry);
  return {
    named: [inA, inB],
    refuse: (side, name) => findTensor(sources[side], name, signal),
    read: (names) => storedPairs(sources, [only(inA, names), only(inB, names)], signal),
  };
}

/** The logical tensors by name; null for those that are refused. */
function logicalFacts(
  model: DequantizedCheckpoint,
  stored: Named<TensorEntry>,
): Named<TensorFacts> {
  const found = new Map<string, TensorFacts | null>();
  for (const name of model.keys()) {
    const { scheme, shape, byteLength } = model.info(name);
    found.set(name, { name, dtype: scheme ?? stored.get(name)?.dtype ?? '', shape, byteLength });
  }
  for (const { tensor = '' } of model.problems) found.set(tensor, null);
  return found;
}

/** What was found, without the names of the sources. */
type Differences = Omit<DiffResult, 'a' | 'b' | 'same'>;

/** Compares two models, or two pipelines model by model: names then begin with the folder. */
async function compareOpened(
  sources: readonly [OpenedSource, OpenedSource],
  comparison: Comparison,
  context: CommandContext,
): Promise<Differences> {
  const [a, b] = sources;
  if (a.kind !== 'pipeline' || b.kind !== 'pipeline') {
    return await compareSources(sources, comparison, context);
  }
  const [inA, inB] = [byFolder(a.components), byFolder(b.components)];
  const added: string[] = [];
  const removed: string[] = [];
  const changed: ChangedTensor[] = [];
  let unchanged = 0;
  for (const folder of [...new Set([...inA.keys(), ...inB.keys()])].sort()) {
    const [one, other] = [inA.get(folder), inB.get(folder)];
    const below = (name: string): string => `${folder}/${name}`;
    const namesOf = async (model: Component): Promise<string[]> =>
      [...(await tensorsByName(model, context.signal)).keys()].map(below);
    if (one === undefined && other !== undefined) added.push(...(await namesOf(other)));
    if (other === undefined && one !== undefined) removed.push(...(await namesOf(one)));
    if (one === undefined || other === undefined) continue;
    const between = await compareSources([one, other], comparison, context);
    added.push(...between.added.map(below));
    removed.push(...between.removed.map(below));
    changed.push(...between.changed.map((each) => ({ ...each, name: below(each.name) })));
    unchanged += between.unchanged;
  }
  return { added, removed, changed, unchanged };
}

function byFolder(components: readonly Component[]): Map<string, Component> {
  return new Map(components.map((component) => [component.name, component]));
}

async function compareSources(
  sources: readonly [OpenedSource, OpenedSource],
  comparison: Comparison,
  context: CommandContext,
): Promise<Differences> {
  const sides = await sidesOf(sources, comparison, context.signal);
  const [inA, inB] = sides.named;
  const pairs: Pair[] = [];
  for (const [name, a] of inA) {
    const b = inB.get(name);
    if (b === undefined) continue;
    if (a === null) await sides.refuse(0, name);
    if (b === null) await sides.refuse(1, name);
    if (a !== null && b !== null) pairs.push(pairOf(a, b, comparison));
  }
  const names = pairs.filter(({ isRead }) => isRead).map(({ name }) => name);
  const changed = await compareCommon(pairs, sides.read(names), comparison, context);
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
          { title: 'relative', align: 'right' },
          { title: 'cosine', align: 'right' },
        ] as const)
      : []),
  ];
  const rows = changed.map((one) => {
    const { values } = one;
    const row = [visible(one.name, SHOWN_NAME_LENGTH), changeText(one)];
    if (!hasValues) return row;
    if (values === undefined) return [...row, '', '', '', ''];
    const counts = `${groupedText(Number(values.differing))} of ${groupedText(Number(values.elements))}`;
    const { maxError, relative, cosine } = values;
    return [...row, counts, ...[maxError, relative, cosine].map(shownValue)];
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
  usage: 'diff A B [--values [--raw] | --quick]',
  description:
    'Lists the tensors that only one of them has, and those that differ in dtype, shape or bytes, in whichever ' +
    'files they are; of two pipelines of diffusers model by model. Exit code 1 if there is a difference.',
  options: {
    values: {
      type: 'boolean',
      help: 'compares values: number of differences, greatest and relative error, cosine similarity',
    },
    quick: { type: 'boolean', help: 'compares only dtypes and shapes, without reading tensors' },
    ...RAW,
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
  },
  positionals: [2, 2],
  async run(context, [a = '', b = ''], options) {
    const { signal } = context;
    const isQuick = options['quick'] === true;
    const hasValues = options['values'] === true;
    const isRaw = options['raw'] === true;
    if (isQuick && hasValues) {
      throw new UsageError('--quick cannot be combined with --values, which reads the tensors');
    }
    const foreign = foreignChoices(options);
    const opening = { signal, storage: undefined, foreign, choice: repositoryChoice(options) };
    const first = await openSource(a, opening);
    try {
      const second = await openSource(b, opening);
      try {
        const comparison = { isQuick, hasValues, isRaw };
        const found = await compareOpened([first, second], comparison, context);
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
