/** `diff`: the differences of two files or checkpoints. */

import type { AnyCheckpoint } from '../../index.js';
import { formatInteger, plural } from '../../inspect/format.js';
import {
  type ChangedTensor as ComparedTensor,
  compare,
  type TensorDifference,
} from '../../inspect.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { type Column, tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { dequantizedModel, logicalModel } from '../sources/logical.js';
import { isPipeline, type OpenedSource, openSource, requireModel } from '../sources/open-source.js';
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

/** What is compared: a model, or the models of a pipeline by their folders. */
type Compared = AnyCheckpoint | { readonly models: ReadonlyMap<string, AnyCheckpoint> };

/** Two models, or two pipelines. */
async function comparedPair(
  a: OpenedSource,
  b: OpenedSource,
  comparison: Comparison,
  signal: AbortSignal,
): Promise<readonly [Compared, Compared]> {
  if (!isPipeline(a) && !isPipeline(b)) return await comparedModels(a, b, comparison, signal);
  if (!isPipeline(a) || !isPipeline(b)) return [requireModel(a), requireModel(b)];
  const models = [
    new Map<string, AnyCheckpoint>(a.models),
    new Map<string, AnyCheckpoint>(b.models),
  ] as const;
  for (const [folder, one] of a.models) {
    const other = b.models.get(folder);
    if (other === undefined) continue;
    const [x, y] = await comparedModels(one, other, comparison, signal);
    models[0].set(folder, x);
    models[1].set(folder, y);
  }
  return [{ models: models[0] }, { models: models[1] }];
}

/** Two models, as they are stored or as they are meant. */
async function comparedModels(
  a: AnyCheckpoint,
  b: AnyCheckpoint,
  { hasValues, isRaw }: Comparison,
  signal: AbortSignal,
): Promise<readonly [AnyCheckpoint, AnyCheckpoint]> {
  if (isRaw || !hasValues) return [a, b];
  const views = [await viewOf(a, signal), await viewOf(b, signal)];
  if (views.every((view) => view === null)) return [a, b];
  // Unquantized weights are compared as they are, whatever the configuration declares.
  return [
    views[0] ?? (await dequantizedModel(a, { config: null, signal })).view,
    views[1] ?? (await dequantizedModel(b, { config: null, signal })).view,
  ];
}

/** The dequantized view of a model; null without quantized weights. */
async function viewOf(
  checkpoint: AnyCheckpoint,
  signal: AbortSignal,
): Promise<AnyCheckpoint | null> {
  const tensors = await checkpoint.tensors({ signal });
  return (await logicalModel(checkpoint, tensors, signal))?.view ?? null;
}

/** Compares with a bar of progress; numbers as JSON has them. */
async function compareOpened(
  sources: readonly [OpenedSource, OpenedSource],
  comparison: Comparison,
  { stderr, signal }: CommandContext,
): Promise<Omit<DiffResult, 'a' | 'b' | 'same'>> {
  const [a, b] = await comparedPair(...sources, comparison, signal);
  const { isQuick, hasValues: values } = comparison;
  const progress = progressOn(stderr, 'comparing');
  const { onProgress } = progress;
  const options = { bytes: !isQuick, values, signal, onProgress };
  const found = await compare(a, b, options).finally(() => progress.end());
  // Only dequantized views have schemes.
  const isDequantized = values && !comparison.isRaw;
  const schemes = [
    isDequantized ? await schemesOf(a, signal) : new Map<string, string>(),
    isDequantized ? await schemesOf(b, signal) : new Map<string, string>(),
  ];
  return {
    ...found,
    changed: found.changed.map((one) => {
      const [x, y] = schemes.map((named) => named.get(one.name));
      return inJson(withSchemes(one, x ?? one.dtype[0], y ?? one.dtype[1]));
    }),
  };
}

/** The schemes of quantized weights by their names, of a pipeline with the folder before it. */
async function schemesOf(
  compared: Compared,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const models = 'models' in compared ? compared.models : new Map([['', compared]]);
  const schemes = new Map<string, string>();
  for (const [folder, model] of models) {
    for (const { name, quantization } of await model.tensors({ signal })) {
      if (quantization === undefined) continue;
      schemes.set(folder === '' ? name : `${folder}/${name}`, quantization.scheme);
    }
  }
  return schemes;
}

/** The change of a tensor whose dtypes are those by which it is stored. */
function withSchemes(one: ComparedTensor, a: string, b: string): ComparedTensor {
  const dtype = [a, b] as const;
  if (a === b) return { ...one, dtype };
  return { ...one, dtype, changed: one.changed.includes('shape') ? 'dtype and shape' : 'dtype' };
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
    const counts = `${formatInteger(Number(values.differing))} of ${formatInteger(Number(values.elements))}`;
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
    `${formatInteger(added.length)} added`,
    `${formatInteger(removed.length)} removed`,
    `${formatInteger(changed.length)} changed`,
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
  summary: 'Compare two files or checkpoints',
  usage: 'diff A B [--values [--raw] | --quick]',
  description:
    'List tensors that only one checkpoint has, or that differ in dtype, shape or bytes. How tensors are split into ' +
    'files does not matter. Diffusers pipelines are compared model by model. Exit code 1 if there is a difference.',
  example: 'diff old.safetensors new.safetensors --values',
  options: {
    values: {
      type: 'boolean',
      help: 'compare values: number of differences, greatest and relative error, cosine similarity',
    },
    quick: {
      type: 'boolean',
      help: 'compare only names, dtypes and shapes, without reading tensors',
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
    const opening = { signal, foreign, choice: repositoryChoice(options) };
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
        second.close();
      }
    } finally {
      first.close();
    }
  },
};
