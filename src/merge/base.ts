/** The checkpoints that are merged. */

import { SafetensorsError } from '../errors/errors.js';
import type { SiblingFile, TensorEntry } from '../file/source/facts.js';
import type { Viewable } from '../file/source/view.js';
import { LogicalModel } from '../quantized/model.js';
import type { QuantizedSource } from '../quantized/source.js';
import type { SliceIndices } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import type { TransferOptions } from '../work/transfer.js';

/** An open handle that can be merged: a Checkpoint or a RemoteCheckpoint. */
export type MergeSource = QuantizedSource;

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
  const message =
    'the weight is quantized; dequantize it first: mergeAdapters(await dequantize(base), …)';
  throw new SafetensorsError('SAFETENSORS_MERGE_UNSUPPORTED', message, {
    path: source.path,
    tensor,
  });
}
