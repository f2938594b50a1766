/** The checkpoints that are merged. */

import type { Advice } from '../errors/advice.js';
import { SafetensorsError } from '../errors/errors.js';
import type { SiblingFile, TensorEntry } from '../file/source/tensor-info.js';
import type { Viewable } from '../file/source/view.js';
import { LogicalModel } from '../quantized/model.js';
import type { QuantizedSource } from '../quantized/source.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import type { TransferOptions } from '../work/transfer.js';
import { readValues } from './values.js';

/** An open handle that can be merged: a Checkpoint or a RemoteCheckpoint. */
export type MergeSource = QuantizedSource;

/** `open` of this runtime. */
export type OpenMergeSource = (
  source: never,
  options: { readonly signal?: AbortSignal | undefined },
) => Promise<unknown>;

/** Members of the library's own handles. */
export interface OwnMergeSource<View = unknown> extends Viewable<View> {
  readonly local: boolean;
  readonly path: string | undefined;
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly problems: readonly SafetensorsError[];
  tensors(options?: TransferOptions): Promise<TensorEntry[]>;
  readTensors(names?: Iterable<string>, options?: TransferOptions): Promise<Map<string, Tensor>>;
  getTensor(name: string, options?: TransferOptions): Tensor | Promise<Tensor>;
  getSlice(
    name: string,
    ...args: [...index: SliceIndices, options?: TransferOptions]
  ): Tensor | Promise<Tensor>;
  sibling(name: string, options?: TransferOptions): Promise<SiblingFile | undefined>;
  close(): void;
}

/** Advice for quantized checkpoints. */
const DEQUANTIZE: Advice = { option: 'dequantize', text: 'pass await dequantize(checkpoint)' };

/**
 * Rejects a checkpoint with quantized weights: codes cannot be merged.
 *
 * @throws SafetensorsError `SAFETENSORS_MERGE_UNSUPPORTED`; errors of reading its configuration
 */
export async function requireDequantized(
  source: MergeSource,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { weights, problems } = await LogicalModel.of(
    source,
    signal === undefined ? {} : { signal },
  );
  const tensor = weights[0]?.name ?? problems[0]?.tensor;
  if (tensor === undefined) return;
  const message = `the weight is quantized; dequantize it first: ${DEQUANTIZE.text}`;
  throw new SafetensorsError('SAFETENSORS_MERGE_UNSUPPORTED', message, {
    path: source.path,
    tensor,
    advice: [DEQUANTIZE],
  });
}

/** A part of a tensor of a checkpoint, local or remote. */
export async function sliceOf(
  source: OwnMergeSource,
  name: string,
  index: SliceIndices,
  options: TransferOptions,
): Promise<Tensor> {
  if (source.local) return (source.getTensor(name) as Tensor).slice(...index);
  return await source.getSlice(name, ...index, options);
}

/**
 * Fetches rows of a weight of a checkpoint, local or remote, as float64.
 *
 * @param rows the number of rows of the weight as a matrix: its first dimension, or all but the last; and the first to
 *   fetch, as many as fit
 */
export async function fetchRows(
  source: OwnMergeSource,
  { name, shape }: Pick<TensorEntry, 'name' | 'shape'>,
  { rows, first }: { readonly rows: number; readonly first: number },
  values: Float64Array,
  signal: AbortSignal | undefined,
): Promise<void> {
  const [items] = shape;
  if (items === undefined) {
    readValues(await source.getTensor(name, { signal }), 0, values);
    return;
  }
  const columns = shape.reduce((product, size) => product * size, 1) / rows;
  const last = first + values.length / columns;
  if (rows === items) {
    readValues(await source.getSlice(name, [first, last], { signal }), 0, values);
    return;
  }
  // Rows of all dimensions but the last, such as those of experts.
  const rowsOfItem = rows / items;
  for (let row = first; row < last; ) {
    const item = Math.floor(row / rowsOfItem);
    const [begin, end] = [row - item * rowsOfItem, Math.min(rowsOfItem, last - item * rowsOfItem)];
    const part = await source.getSlice(name, item, [begin, end], { signal });
    const at = (row - first) * columns;
    readValues(part, 0, values.subarray(at, at + (end - begin) * columns));
    row += end - begin;
  }
}

/** The path of a tensor's file for errors: of a sharded checkpoint that of the shard. */
export function filePath(
  { path }: Pick<OwnMergeSource, 'path'>,
  { file }: Pick<TensorEntry, 'file'>,
): string | undefined {
  return file === '' ? path : path?.replace(/[^\\/]*\.index\.json$/, () => file);
}

/** The name of a checkpoint in messages and metadata: the Hub id, or the last part of its path. */
export function sourceName(path: string | undefined): string | null {
  if (path === undefined || path === '') return null;
  const hub =
    /^hf:\/\/(?:models\/)?([^/]+\/[^/]+)/.exec(path) ??
    /^https:\/\/huggingface\.co\/([^/]+\/[^/]+)\/resolve\//.exec(path);
  if (hub !== null) return hub[1] as string;
  const cached = /[\\/]models--([^\\/]+)[\\/]snapshots[\\/]/.exec(path);
  if (cached !== null) return (cached[1] as string).replace('--', '/');
  const parts = path
    .replace(/[?#].*$/s, '')
    .split(/[\\/]/)
    .filter((part) => part !== '');
  const isPeftFile = /^(?:adapter_model|pytorch_lora_weights)\./.test(parts.at(-1) ?? '');
  return parts.at(isPeftFile && parts.length > 1 ? -2 : -1) ?? null;
}

/** The name of a model: as `sourceName`, of a file such as `model.safetensors` that of its folder. */
export function modelName(path: string | undefined): string | null {
  return sourceName(path?.replace(/[\\/](?:model|pytorch_model)[^\\/]*$/, ''));
}
