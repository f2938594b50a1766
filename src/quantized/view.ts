/** The view that shows quantized weights as numbers. */

import { SafetensorsError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import type { TensorEntry } from '../file/source/tensor-info.js';
import type { Computation, ViewParts, ViewTensor } from '../file/source/view.js';
import { elementCountOf } from '../header/tensor-spec.js';
import { fillSlice } from '../tensor/fill-slice.js';
import { planSlice, type SliceIndices } from '../tensor/slice.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { forEachYielding } from '../work/items.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { runAsync } from '../work/work.js';
import { computedWeight } from './held-tensors.js';
import type { LogicalTensor } from './logical-tensor.js';
import { type DequantizeOptions, LogicalModel } from './model.js';
import { withoutLabels } from './plan/labels.js';
import type { LogicalPlan } from './plan/logical-plan.js';
import { frozen, storedNamesOf } from './quantization.js';
import type { QuantizedSource } from './source.js';

const WIDTH = Float32Array.BYTES_PER_ELEMENT;

/** Longest result: what engines of today allow an array of float32. */
const MAX_VALUES = 2 ** 32 - 1;

/**
 * Returns what the dequantized view of a checkpoint shows: weights at the places of their codes, all other tensors as
 * they are stored.
 *
 * @throws As `dequantize`
 */
export async function dequantizedParts(
  checkpoint: QuantizedSource,
  options: DequantizeOptions,
): Promise<ViewParts> {
  const model = await LogicalModel.of(checkpoint, options);
  const weights = new Map<string, LogicalPlan>();
  for (const plan of model.weights) weights.set(plan.storedAs['weight'] as string, plan);
  const reads = new WeightReads(model);
  const tensors: ViewTensor[] = [];
  const list = forEachYielding(model.entries, (stored) => {
    const { name } = stored;
    const plan = weights.get(name);
    if (plan !== undefined) tensors.push(new DequantizedWeight(plan, stored, model, reads));
    else if (model.isPlain(name))
      tensors.push({ entry: stored, sources: [name], computation: null });
  });
  await runAsync(list, options.signal);
  const ofBase = (checkpoint as Partial<Problematic>).problems ?? [];
  return {
    tensors,
    metadata: withoutLabels(checkpoint.metadata),
    adaptMetadata: withoutLabels,
    problems: [...ofBase, ...model.problems],
    quantMethod: model.method,
  };
}

/** A weight of the view, and its computation: one object, since there may be fifty thousand weights. */
class DequantizedWeight implements ViewTensor, Computation {
  readonly entry: TensorEntry;
  readonly sources: readonly string[];
  readonly #plan: LogicalPlan;
  readonly #reads: WeightReads;

  constructor(
    plan: LogicalPlan,
    { file, dataOffsets }: TensorEntry,
    model: LogicalModel,
    reads: WeightReads,
  ) {
    const { name } = plan;
    const shape = frozen(plan.shape);
    const byteLength = WIDTH * elementCountOf(shape);
    this.sources = storedNamesOf(plan);
    const quantization = model.quantizationOf(plan, this.sources);
    const entry = { name, file, dtype: 'F32', shape, dataOffsets, quantization, byteLength };
    this.entry = Object.freeze(entry as TensorEntry);
    this.#plan = plan;
    this.#reads = reads;
  }

  get computation(): Computation {
    return this;
  }

  compute(sources: ReadonlyMap<string, Tensor>): Tensor {
    return computedWeight(this.#plan, sources);
  }

  fetch(index: SliceIndices, options: TransferOptions): Promise<Tensor> {
    return this.#reads.fetch(this.#plan, index, options);
  }
}

/** A checkpoint with tensors that cannot be read. */
interface Problematic {
  readonly problems: readonly SafetensorsError[];
}

/** Weights whose scales are retained: a page reads some at a time, each in slices. */
const MOST_RECENT = 8;

/** Fetches weights. Scales of the recent ones are retained: their next slices need only codes. */
class WeightReads {
  readonly #model: LogicalModel;
  /** By plan, the one used last at the end. */
  readonly #recent = new Map<LogicalPlan, LogicalTensor>();

  constructor(model: LogicalModel) {
    this.#model = model;
  }

  #open(plan: LogicalPlan): LogicalTensor {
    const tensor = this.#recent.get(plan) ?? this.#model.open(plan);
    this.#recent.delete(plan);
    const [oldest] = this.#recent.keys();
    if (oldest !== undefined && this.#recent.size === MOST_RECENT) this.#recent.delete(oldest);
    for (const other of this.#recent.keys()) {
      if (retainsCodes(plan) && retainsCodes(other)) this.#recent.delete(other);
    }
    this.#recent.set(plan, tensor);
    return tensor;
  }

  /** Fetches a part into new memory: the rows that contain it. */
  async fetch(plan: LogicalPlan, index: SliceIndices, options: TransferOptions): Promise<Tensor> {
    const tensor = this.#open(plan);
    const { context } = tensor;
    const { signal } = options;
    const slice = planSlice(tensor.shape, index, 8 * WIDTH, context);
    const count = slice.byteLength / WIDTH;
    if (count > MAX_VALUES) {
      const message = `${slice.byteLength} bytes do not fit into one buffer of this runtime; use getSlice()`;
      throw new SafetensorsError('SAFETENSORS_TENSOR_TOO_LARGE', message, context);
    }
    const bytes = allocate(Uint8Array, slice.byteLength, context);
    const transfer = new Transfer(slice.byteLength, options);
    if (count > 0) {
      await fillSlice(slice, tensor.columns * WIDTH, bytes, async (first, { buffer }) => {
        const progress = buffer === bytes.buffer ? transfer : undefined;
        await tensor.fill(first, new Float32Array(buffer), signal, progress);
      });
    }
    transfer.finish();
    const limits = { maxBufferByteLength: Number.MAX_SAFE_INTEGER, path: context.path };
    return TensorOf.ofBytes(plan.name, 'F32', slice.shape, bytes, limits);
  }
}

/** Whether all codes of a weight are read for its first rows, as of stored columns: one such weight is retained. */
function retainsCodes({ layout }: LogicalPlan): boolean {
  return layout.kind === 'columns';
}
