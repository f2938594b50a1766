/** `stats`: the statistics of all tensors, as a table, JSON or CSV. */

import type { AnyCheckpoint } from '../../index.js';
import { formatInteger } from '../../inspect/format.js';
import { modelStatistics } from '../../inspect/values/model-statistics.js';
import type { Statistics } from '../../inspect.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { type Column, tableLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import { namesTest } from '../sources/glob.js';
import { logicalModel, schemeName } from '../sources/logical.js';
import { isPipeline, type OpenedSource, openSource } from '../sources/open-source.js';
import {
  type Command,
  type CommandContext,
  type OptionValues,
  optionValues,
  printResult,
  requireChoice,
  UsageError,
} from './command.js';
import { FILTER, nothingChosen } from './filter-option.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { RAW } from './raw.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

/** Digits of statistics in the table; JSON and CSV have them exact. */
const SHOWN_DIGITS = 4;

/** A tensor, for `--json`. */
interface TensorRow extends Statistics {
  readonly name: string;
  /** F32 for a dequantized weight. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The scheme of a dequantized weight; missing for others. */
  readonly quantized?: string;
}

interface StatsResult {
  readonly source: string;
  readonly tensors: readonly TensorRow[];
}

/** The numbers of a row, by the titles of their columns. */
const NUMBERS = {
  min: 'min',
  max: 'max',
  mean: 'mean',
  std: 'std',
  zeros: 'zero',
  nan: 'nan',
  inf: 'infinite',
} as const satisfies Readonly<Record<string, keyof Statistics>>;

const TITLES = Object.keys(NUMBERS) as (keyof typeof NUMBERS)[];

const KEYS = ['offset', 'name', ...TITLES] as const;

/** Rows by a key: names ascending, numbers descending; without a number last. */
function sorted(rows: readonly TensorRow[], key: (typeof KEYS)[number]): readonly TensorRow[] {
  if (key === 'offset') return rows;
  if (key === 'name') return rows.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const numberOf = (row: TensorRow): number => row[NUMBERS[key]] ?? Number.NEGATIVE_INFINITY;
  return rows.toSorted((a, b) => numberOf(b) - numberOf(a) || 0);
}

function tableOf({ tensors }: StatsResult, style: Style, width: number | null): readonly string[] {
  const columns: Column[] = [
    { title: 'name', gives: true },
    { title: 'dtype' },
    { title: 'shape' },
    ...TITLES.map((title): Column => ({ title, align: 'right' })),
  ];
  const cell = (value: number | null, isCount: boolean): string => {
    if (value === null) return '';
    return isCount ? formatInteger(value) : String(Number(value.toPrecision(SHOWN_DIGITS)));
  };
  const rows = tensors.map((row) => [
    visible(row.name, SHOWN_NAME_LENGTH),
    row.quantized === undefined ? row.dtype : schemeName(row.quantized),
    `[${row.shape.join(', ')}]`,
    ...TITLES.map((title) => cell(row[NUMBERS[title]], ['zeros', 'nan', 'inf'].includes(title))),
  ]);
  return tableLines(columns, rows, width, style.dim);
}

/** Lines of CSV by RFC 4180, for spreadsheets and programs. */
function csvOf({ tensors }: StatsResult): string {
  const quoted = (text: string): string =>
    /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const rows = tensors.map((row) => [
    visible(row.name),
    row.dtype,
    row.shape.join('x'),
    ...TITLES.map((title) => String(row[NUMBERS[title]] ?? '')),
  ]);
  const lines = [['name', 'dtype', 'shape', ...TITLES], ...rows];
  return lines.map((cells) => `${cells.map(quoted).join(',')}\n`).join('');
}

/**
 * The models of a source, dequantized where weights are quantized.
 *
 * @throws QuantizationError for a requested weight that cannot be dequantized
 */
async function valuesOf(
  opened: OpenedSource,
  isRaw: boolean,
  isNamed: (name: string) => boolean,
  signal: AbortSignal,
): Promise<AnyCheckpoint | { readonly models: ReadonlyMap<string, AnyCheckpoint> }> {
  const viewOf = async (model: AnyCheckpoint, prefix = ''): Promise<AnyCheckpoint> => {
    if (isRaw) return model;
    const view = (await logicalModel(model, await model.tensors({ signal }), signal))?.view;
    const problem = view?.problems.find(({ tensor = '' }) => isNamed(prefix + tensor));
    if (problem !== undefined) throw problem;
    return view ?? model;
  };
  if (!isPipeline(opened)) return await viewOf(opened);
  const models = new Map<string, AnyCheckpoint>();
  for (const [folder, model] of opened.models)
    models.set(folder, await viewOf(model, `${folder}/`));
  return { models };
}

async function rowsOf(
  opened: OpenedSource,
  options: OptionValues,
  { stderr, signal }: CommandContext,
): Promise<TensorRow[]> {
  const isNamed = namesTest(optionValues(options, 'filter')) ?? (() => true);
  const source = await valuesOf(opened, options['raw'] === true, isNamed, signal);
  const progress = progressOn(stderr, 'reading');
  const { onProgress } = progress;
  const rows: TensorRow[] = [];
  try {
    for await (const found of modelStatistics(source, { signal, onProgress }, isNamed)) {
      const { name, dtype, shape, quantization } = found.entry;
      const quantized = quantization === undefined ? {} : { quantized: quantization.scheme };
      rows.push({ name, dtype, shape, ...quantized, ...found.statistics });
    }
  } finally {
    progress.end();
  }
  return rows;
}

export const statsCommand: Command = {
  summary: 'List statistics of all tensors',
  usage: 'stats SOURCE [--filter GLOB] [--sort KEY] [--csv]',
  description:
    'List name, dtype, shape, min, max, mean, standard deviation, and counts of zeros, NaN and infinities of every ' +
    'tensor. Read all values once; dequantize quantized weights. --sort puts the greatest numbers first. Exit code 1 ' +
    'if no name matches --filter.',
  example: "stats my-model --filter '*.mlp.*' --sort std",
  options: {
    ...FILTER,
    sort: {
      type: 'string',
      value: 'KEY',
      choices: KEYS,
      help: 'offset (the default), name, min, max, mean, std, zeros, nan or inf',
    },
    csv: { type: 'boolean', help: 'print comma-separated values, with all digits' },
    ...RAW,
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
  },
  positionals: [1, 1],
  async run(context, [source = ''], options) {
    const { sort = 'offset' } = options;
    const key = requireChoice('sort', sort, KEYS);
    const isCsv = options['csv'] === true;
    if (isCsv && options['json'] === true) {
      throw new UsageError('--csv cannot be combined with --json');
    }
    const { signal, stdout } = context;
    const opening = { signal, foreign: foreignChoices(options), choice: repositoryChoice(options) };
    const opened = await openSource(source, opening);
    try {
      const result = { source, tensors: sorted(await rowsOf(opened, options, context), key) };
      const isNone = options['filter'] !== undefined && result.tensors.length === 0;
      if (isCsv) stdout.write(csvOf(result));
      else {
        printResult<StatsResult>(context, options, result, (printed, style, width) =>
          isNone ? [style.warning(nothingChosen(options))] : tableOf(printed, style, width),
        );
      }
      return isNone ? 'no' : 'done';
    } finally {
      opened.close();
    }
  },
};
