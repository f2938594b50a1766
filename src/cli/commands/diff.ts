/** `diff`: the differences of two files or checkpoints. */

import type { DequantizedCheckpoint, TensorEntry } from '../../index.js';
import { groupedText, plural } from '../../inspect/number-texts.js';
import {
  type ComparedFacts,
  type ComparedModels,
  type ChangedTensor as ComparedTensor,
  compareModels,
  type NamedFacts,
} from '../../inspect/values/checkpoint-difference.js';
import type { TensorDifference } from '../../inspect.js';
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
import { logicalModels, readLogicalPairs, storedPairs } from '../sources/pairs.js';
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
interface ChangedTensor extends Omit<ComparedTensor, 'values'> {
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

/** The stored tensors of a source by name; null for those that cannot be read. */
type StoredFacts = ReadonlyMap<string, TensorEntry | null>;

/** Two models, as they are stored or as they are meant. */
async function modelsOf(
  prefix: string,
  sources: readonly [OpenedSource, OpenedSource],
  { hasValues, isRaw }: Comparison,
  signal: AbortSignal,
): Promise<ComparedModels> {
  const [inA, inB] = [
    await tensorsByName(sources[0], signal),
    await tensorsByName(sources[1], signal),
  ];
  const entriesOf = (named: StoredFacts): TensorEntry[] =>
    [...named.values()].filter((entry) => entry !== null);
  const models =
    isRaw || !hasValues
      ? null
      : await logicalModels(sources, [entriesOf(inA), entriesOf(inB)], signal);
  if (models !== null) {
    return {
      prefix,
      named: [logicalFacts(models[0], inA), logicalFacts(models[1], inB)],
      refuse: async (side, name) => models[side].info(name),
      read: () => readLogicalPairs(models),
    };
  }
  const only = (named: StoredFacts, names: readonly string[]): TensorEntry[] =>
    names.map((name) => named.get(name) as TensorEntry);
  return {
    prefix,
    named: [inA, inB],
    refuse: (side, name) => findTensor(sources[side], name, signal),
    read: (names) => storedPairs(sources, [only(inA, names), only(inB, names)], signal),
  };
}

/** The logical tensors by name; null for those that are refused. */
function logicalFacts(model: DequantizedCheckpoint, stored: StoredFacts): NamedFacts {
  const found = new Map<string, ComparedFacts | null>();
  for (const name of model.keys()) {
    const { scheme, shape, byteLength } = model.info(name);
    found.set(name, { name, dtype: scheme ?? stored.get(name)?.dtype ?? '', shape, byteLength });
  }
  for (const { tensor = '' } of model.problems) found.set(tensor, null);
  return found;
}

/** One model, of which the other pipeline has none. */
async function loneModel(
  prefix: string,
  opened: OpenedSource,
  side: 0 | 1,
  signal: AbortSignal,
): Promise<ComparedModels> {
  const named = await tensorsByName(opened, signal);
  const none: StoredFacts = new Map();
  return {
    prefix,
    named: side === 0 ? [named, none] : [none, named],
    refuse: (_side, name) => findTensor(opened, name, signal),
    read: () => storedPairs([opened, opened], [[], []], signal),
  };
}

/** Two models, or two pipelines model by model: names then begin with the folder. */
async function partsOf(
  sources: readonly [OpenedSource, OpenedSource],
  comparison: Comparison,
  signal: AbortSignal,
): Promise<ComparedModels[]> {
  const [a, b] = sources;
  if (a.kind !== 'pipeline' || b.kind !== 'pipeline') {
    return [await modelsOf('', sources, comparison, signal)];
  }
  const [inA, inB] = [byFolder(a.components), byFolder(b.components)];
  const parts: ComparedModels[] = [];
  for (const folder of [...new Set([...inA.keys(), ...inB.keys()])].sort()) {
    const [one, other] = [inA.get(folder), inB.get(folder)];
    const prefix = `${folder}/`;
    parts.push(
      one !== undefined && other !== undefined
        ? await modelsOf(prefix, [one, other], comparison, signal)
        : await loneModel(prefix, (one ?? other) as Component, one === undefined ? 1 : 0, signal),
    );
  }
  return parts;
}

function byFolder(components: readonly Component[]): Map<string, Component> {
  return new Map(components.map((component) => [component.name, component]));
}

/** Compares with a bar of progress; numbers as JSON has them. */
async function compareOpened(
  sources: readonly [OpenedSource, OpenedSource],
  comparison: Comparison,
  { stderr, signal }: CommandContext,
): Promise<Omit<DiffResult, 'a' | 'b' | 'same'>> {
  const parts = await partsOf(sources, comparison, signal);
  const { isQuick, hasValues: values } = comparison;
  const progress = progressOn(stderr, 'comparing');
  const { onProgress } = progress;
  const options = { bytes: !isQuick, values, signal, onProgress };
  const found = await compareModels(parts, options).finally(() => progress.end());
  return { ...found, changed: found.changed.map(inJson) };
}

function inJson({ values, ...changed }: ComparedTensor): ChangedTensor {
  if (values === undefined) return changed;
  const { elements, differing, maxError, relative, cosine } = values;
  return {
    ...changed,
    values: {
      elements,
      differing,
      maxError: jsonNumber(maxError),
      relative: jsonNumber(relative),
      cosine: jsonNumber(cosine),
    },
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

function diffLines(
  result: DiffResult,
  isQuick: boolean,
  style: Style,
  width: number | null,
): readonly string[] {
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
    same
      ? `no difference${isQuick ? ' in names, dtypes and shapes' : ''}; ${plural(unchanged, 'tensor')}`
      : counts.join(', '),
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
    quick: {
      type: 'boolean',
      help: 'compares only names, dtypes and shapes, without reading tensors',
    },
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
        const full: DiffResult = { a, b, same, ...found };
        printResult(context, options, full, (result, ...look) =>
          diffLines(result, isQuick, ...look),
        );
        return same ? 'done' : 'no';
      } finally {
        closeSource(second);
      }
    } finally {
      closeSource(first);
    }
  },
};
