/** `show`: the values of a tensor. */

import { elementCountOf } from '../../header/tensor-spec.js';
import {
  type AnyCheckpoint,
  DTYPES,
  type Quantization,
  SafetensorsError,
  type SliceIndices,
  type Tensor,
  TensorNotFoundError,
  type TransferProgress,
} from '../../index.js';
import { formatBytes, formatInteger } from '../../inspect/format.js';
import { isByteSized } from '../../inspect/values/numbers.js';
import {
  formatValues,
  type Histogram,
  histogram,
  type SliceableTensor,
  type Statistics,
  statistics,
  tensorValues,
  type ValueWindows,
} from '../../inspect.js';
import { bar } from '../output/bar.js';
import { formatArray, isSummarized, shownRanges } from '../output/format-array.js';
import { progressOn } from '../output/progress.js';
import type { Style } from '../output/style.js';
import { infoLines } from '../output/table.js';
import { visible } from '../output/visible.js';
import { type FoundTensor, findTensor } from '../sources/get-tensor.js';
import { formatKind, logicalModel, quantizationIn } from '../sources/logical.js';
import { isPipeline, type OpenedSource, openSource } from '../sources/open-source.js';
import { type Command, type CommandContext, printResult, UsageError } from './command.js';
import { FOREIGN_OPTIONS, foreignChoices } from './foreign-options.js';
import { RAW } from './raw.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';

/** NumPy's limit; more brackets would be unreadable. */
const MAX_DIMENSIONS = 64;

const BINS = 20;
const HISTOGRAM_BAR_WIDTH = 40;

/** Digits of statistics in text; JSON has them exact. */
const SHOWN_STATISTIC_DIGITS = 6;

/** A shown tensor, for `--json`. NaN and infinities are texts. */
interface ShowResult {
  readonly source: string;
  readonly name: string;
  /** F32 for a quantized weight. */
  readonly dtype: string;
  /** How a quantized weight is stored; missing for others, and with `--raw`. */
  readonly quantized?: Pick<Quantization, 'scheme' | 'bits' | 'block'>;
  /** Shape of the slice. */
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** The values as numpy prints them. */
  readonly text: string;
  readonly stats?: Statistics;
  readonly histogram?: Histogram | null;
}

/** The texts of the shown elements, by index. */
async function shownTexts(
  shape: readonly number[],
  part: (index: readonly (readonly [number, number])[]) => Promise<Tensor>,
): Promise<(index: readonly number[]) => string> {
  const isSummary = isSummarized(shape);
  // The whole slice, or its corners.
  let parts: (readonly (readonly [number, number])[])[] = [[]];
  for (const length of shape) {
    parts = parts.flatMap((one) => shownRanges(length, isSummary).map((range) => [...one, range]));
  }
  const corners = await Promise.all(parts.map(part));
  // Format all parts together, for one form.
  const texts = formatValues(corners);
  const byIndex = new Map<string, string>();
  for (const [i, ranges] of parts.entries()) {
    const own = texts[i] as readonly string[];
    let indices: number[][] = [[]];
    for (const [begin, end] of ranges) {
      indices = indices.flatMap((index) =>
        Array.from({ length: end - begin }, (_, at) => [...index, begin + at]),
      );
    }
    for (const [at, index] of indices.entries()) byIndex.set(index.join(), own[at] as string);
  }
  return (index) => byIndex.get(index.join()) as string;
}

function sliceOf(text: unknown): SliceIndices {
  return typeof text === 'string' ? [text] : [];
}

/** The text of a slice: all values, or its corners. */
async function valuesText(found: FoundTensor, whole: () => Promise<Tensor>): Promise<string> {
  const { shape, dtype } = found;
  if (shape.includes(0)) return '[]';
  if (shape.length > MAX_DIMENSIONS) {
    const found = `${formatInteger(shape.length)} dimensions`;
    throw new UsageError(
      `up to ${MAX_DIMENSIONS} dimensions are shown, found ${found}: pass a --slice`,
    );
  }
  // A corner of a packed tensor could begin inside a byte.
  if (isSummarized(shape) && !isByteSized(dtype)) {
    throw new UsageError(`${dtype} is shown up to 1000 elements: pass a --slice, or --stats`);
  }
  const isAll = !isSummarized(shape);
  const itemAt = await shownTexts(shape, (ranges) => (isAll ? whole() : found.slice(ranges)));
  return formatArray(shape, itemAt);
}

function statisticText(value: number | null): string {
  return value === null ? 'none' : String(Number(value.toPrecision(SHOWN_STATISTIC_DIGITS)));
}

function statisticsLines(stats: Statistics, style: Style): string[] {
  const { min, max, mean, std, nan, infinite, zero, subnormal, elements } = stats;
  const counted = (count: number): string =>
    count === 0 ? '0' : `${formatInteger(count)} (${((count / elements) * 100).toPrecision(3)} %)`;
  return infoLines(
    [
      ['min', statisticText(min)],
      ['max', statisticText(max)],
      ['mean', statisticText(mean)],
      ['std', statisticText(std)],
      ['NaN', counted(nan)],
      ['infinite', counted(infinite)],
      ['zero', counted(zero)],
      ['subnormal', counted(subnormal)],
    ],
    style.dim,
  );
}

function histogramLines({ min, max, counts: all }: Histogram, style: Style): string[] {
  // When all values are equal, they are in the first range.
  const counts = min === max ? all.slice(0, 1) : all;
  const most = Math.max(...counts);
  const step = (max - min) / counts.length;
  const labels = counts.map((_, i) => statisticText(min + i * step));
  const width = Math.max(...labels.map(({ length }) => length));
  return counts.map((count, i) => {
    const shown = bar(count / most, HISTOGRAM_BAR_WIDTH);
    const padding = ' '.repeat(HISTOGRAM_BAR_WIDTH - shown.length);
    return `${(labels[i] as string).padStart(width)}  ${style.accent(shown)}${padding}  ${formatInteger(count)}`;
  });
}

function showLines(result: ShowResult, style: Style): readonly string[] {
  const { name, dtype, quantized, shape, byteLength, text, stats, histogram } = result;
  const facts = `${quantized === undefined ? dtype : formatKind(quantized)}  [${shape.join(', ')}]  ${formatBytes(byteLength)}`;
  return [
    `${style.bold(visible(name))}  ${facts}`,
    ...text.split('\n'),
    ...(stats === undefined ? [] : ['', ...statisticsLines(stats, style)]),
    ...(histogram ? ['', ...histogramLines(histogram, style)] : []),
  ];
}

/** The statistics of values, and their histogram, which needs a second pass. */
async function statsAndHistogram(
  tensor: SliceableTensor,
  hasHistogram: boolean,
  { stderr, signal }: CommandContext,
): Promise<{ stats: Statistics; histogram?: Histogram | null }> {
  const passes = hasHistogram ? 2 : 1;
  const progress = progressOn(stderr, 'reading');
  const pass = (before: number): ValueWindows => {
    const onProgress = ({ bytes, totalBytes }: TransferProgress): void =>
      progress.onProgress({
        bytes: before * totalBytes + bytes,
        totalBytes: passes * totalBytes,
      });
    return tensorValues(tensor, { signal, onProgress });
  };
  const { dtype } = tensor;
  try {
    const stats = await statistics(pass(0), dtype);
    return hasHistogram ? { stats, histogram: await histogram(pass(1), stats, BINS) } : { stats };
  } finally {
    progress.end();
  }
}

/** A quantized weight, in a dequantized view. */
interface FoundWeight {
  readonly view: AnyCheckpoint;
  readonly quantization: Quantization;
}

/** The quantized weight of that name; undefined for another tensor. */
async function findWeight(
  checkpoint: AnyCheckpoint,
  name: string,
  signal: AbortSignal,
): Promise<FoundWeight | undefined> {
  const tensors = await checkpoint.tensors({ signal });
  const model = await logicalModel(checkpoint, tensors, signal);
  const quantization = model === null ? undefined : quantizationIn(model, name);
  if (model === null || quantization === undefined) return undefined;
  return { view: model.view, quantization };
}

/** The tensor that has the codes of a weight; by its own name, or that of a weight which is stored under another one. */
async function findStored(
  checkpoint: AnyCheckpoint,
  name: string,
  signal: AbortSignal,
): Promise<{ readonly name: string; readonly tensor: FoundTensor }> {
  try {
    return { name, tensor: await findTensor(checkpoint, name, signal) };
  } catch (error) {
    if (!(error instanceof TensorNotFoundError)) throw error;
    const weight = await findWeight(checkpoint, name, signal).catch(() => undefined);
    const stored = weight?.quantization.storedAs['weight'];
    if (stored === undefined) throw error;
    return { name: stored, tensor: await findTensor(checkpoint, stored, signal) };
  }
}

/**
 * The model of a tensor, and the tensor's name in it: in a pipeline the name begins with the folder of the model.
 *
 * @throws SafetensorsError `SAFETENSORS_TENSOR_NOT_FOUND` for a name without the folder of a model
 */
function placeOf(
  opened: OpenedSource,
  name: string,
): { readonly checkpoint: AnyCheckpoint; readonly prefix: string; readonly ownName: string } {
  if (!isPipeline(opened)) return { checkpoint: opened, prefix: '', ownName: name };
  for (const [folder, checkpoint] of opened.models) {
    const prefix = `${folder}/`;
    if (name.startsWith(prefix)) return { checkpoint, prefix, ownName: name.slice(prefix.length) };
  }
  const folders = [...opened.models.keys()].map((folder) => `${folder}/`).join(', ');
  const message = `no such tensor; names in this pipeline begin with ${folders}`;
  const context = { path: opened.path, tensor: name };
  throw new SafetensorsError('SAFETENSORS_TENSOR_NOT_FOUND', message, context);
}

function sliceable(tensor: Tensor): FoundTensor {
  const { dtype, shape } = tensor;
  const slice = async (ranges: SliceIndices): Promise<Tensor> =>
    ranges.length === 0 ? tensor : (tensor.slice(...ranges) as Tensor);
  return { dtype, shape, slice };
}

function schemeOf({ scheme, bits, block }: Quantization): ShowResult['quantized'] & object {
  return { scheme, bits, block };
}

function byteLengthOf({ dtype, shape }: FoundTensor): number {
  return Math.ceil((elementCountOf(shape) * DTYPES[dtype].bits) / 8);
}

export const showCommand: Command = {
  summary: 'Print the values of a tensor',
  usage: "show SOURCE NAME [--slice '0:2, :8'] [--stats] [--histogram] [--raw]",
  description:
    "Print values in NumPy's format; of more than 1000 values, the first and last of each dimension. --slice takes " +
    'NumPy notation. Only the printed ' +
    'part of a remote tensor is fetched; --stats and --histogram need the whole slice. A quantized weight is ' +
    'dequantized, by its logical name. Names in a pipeline begin with the folder of the model: unet/conv_in.weight.',
  example: "show model.safetensors embed.weight --slice '0:2, :8'",
  options: {
    slice: {
      type: 'string',
      value: 'INDEX',
      help: "a part of the tensor, such as '0:2, :8' or -1",
    },
    stats: {
      type: 'boolean',
      help: 'min, max, mean, std; counts of NaN, infinities, zeros, subnormals',
    },
    histogram: { type: 'boolean', help: 'counts of values in 20 ranges' },
    ...RAW,
    ...REPOSITORY,
    ...FOREIGN_OPTIONS,
  },
  positionals: [2, 2],
  async run(context, [source = '', given = ''], options) {
    const { signal, stderr } = context;
    const foreign = foreignChoices(options);
    const choice = repositoryChoice(options);
    const opened = await openSource(source, { signal, foreign, choice });
    try {
      const index = sliceOf(options['slice']);
      const { checkpoint, prefix, ownName } = placeOf(opened, given);
      const weight =
        options['raw'] === true ? undefined : await findWeight(checkpoint, ownName, signal);
      const { name, tensor } =
        weight === undefined
          ? await findStored(checkpoint, ownName, signal)
          : { name: ownName, tensor: await findTensor(weight.view, ownName, signal) };
      const hasStats = options['stats'] === true;
      const hasHistogram = options['histogram'] === true;
      if (tensor.dtype === 'C64' && (hasStats || hasHistogram)) {
        throw new UsageError('C64 has no order: --stats and --histogram need real numbers');
      }
      // A whole quantized weight is computed window by window.
      const isWhole = weight !== undefined && index.length === 0;
      const needsAll = !isWhole && (hasStats || hasHistogram || index.length > 0);
      const fetching = progressOn(stderr, 'fetching');
      const all = needsAll
        ? await tensor.slice(index, fetching.onProgress).finally(() => fetching.end())
        : undefined;
      const part = all === undefined ? tensor : sliceable(all);
      const text = await valuesText(part, () => part.slice([]));
      const windows: SliceableTensor = {
        ...{ dtype: tensor.dtype, shape: tensor.shape },
        slice: (...some) => tensor.slice(some),
      };
      const values = isWhole ? windows : all;
      const found =
        values !== undefined && (hasStats || hasHistogram)
          ? await statsAndHistogram(values, hasHistogram, context)
          : undefined;
      const result: ShowResult = {
        ...{ source, name: prefix + name, dtype: part.dtype, shape: part.shape, text },
        ...(weight === undefined ? {} : { quantized: schemeOf(weight.quantization) }),
        byteLength: isWhole ? weight.quantization.byteLength : byteLengthOf(part),
        ...(hasStats && found !== undefined ? { stats: found.stats } : {}),
        ...(found?.histogram === undefined ? {} : { histogram: found.histogram }),
      };
      printResult(context, options, result, showLines);
      return 'done';
    } finally {
      opened.close();
    }
  },
};
