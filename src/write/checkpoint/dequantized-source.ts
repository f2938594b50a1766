/** A source with logical tensors: weights in place of codes, scales and zero points. */

import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { TensorInfo } from '../../file/source/tensor-info.js';
import type { Dtype } from '../../header/dtype.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { LogicalTensor } from '../../quantized/logical-tensor.js';
import { LogicalModel } from '../../quantized/model.js';
import { isLabelled, withoutLabels } from '../../quantized/plan/labels.js';
import type { LogicalPlan } from '../../quantized/plan/logical-plan.js';
import { storedNamesOf } from '../../quantized/quantization.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import { mapYielding } from '../../work/items.js';
import type { ComputedPayload } from '../input/tensor-input.js';
import type { SelectableInfo } from '../selection/options.js';
import { selectionSource, type Unselectable } from '../selection/select.js';
import type { CheckpointSource, SourceTensor } from './source.js';
import { type StoredBytes, StoredReads } from './stored-reads.js';

/** The tensors of a source, how to read them, and what they become. */
export interface Dequantizing<
  Info extends SelectableInfo,
  Tensor extends SourceTensor<TensorInfo>,
> {
  readonly stored: StoredBytes<Tensor>;
  readonly dtype: Dtype;
  readonly signal: AbortSignal | undefined;
  /** Stored tensors that cannot be written. */
  readonly unselectable?: readonly Unselectable<Info>[];
}

/**
 * Returns the same source with logical tensors. A tensor that cannot be dequantized is a problem unless it is left out.
 *
 * @throws As `dequantized`
 */
export async function dequantizedSource<
  Info extends SelectableInfo,
  Tensor extends SourceTensor<TensorInfo>,
>(
  source: CheckpointSource<Info>,
  { stored, dtype, signal, unselectable: unread = [] }: Dequantizing<Info, Tensor>,
): Promise<CheckpointSource<Info | TensorInfo>> {
  const { files = [], index = null } = source.metadataOf() ?? {};
  const metadata = [index?.metadata ?? null, ...files];
  const reads = new StoredReads({ ...stored, metadata });
  const model = await LogicalModel.of(reads, signal === undefined ? {} : { signal });
  const byCodes = new Map(model.weights.map((plan) => [plan.storedAs['weight'] as string, plan]));
  const isPlain = byCodes.size === 0 && model.problems.length === 0;
  const hasLabels = model.size < stored.tensors.length || metadata.some(isLabelled);
  if (isPlain && !hasLabels) return source;
  const byName = new Map(stored.tensors.map((tensor) => [tensor.name, tensor]));
  const compare = (names: readonly string[]): Promise<void> => reads.compare(names, signal);
  const tensorOf = (tensor: Tensor): SourceTensor<TensorInfo>[] => {
    const plan = byCodes.get(tensor.name);
    if (plan === undefined) return model.isPlain(tensor.name) ? [tensor] : [];
    const parts = storedNamesOf(plan).map((part) => byName.get(part) as Tensor);
    return [new DequantizedTensor({ model, signal, compare }, plan, dtype, parts)];
  };
  return {
    path: source.path,
    files: source.files,
    duplicates: source.duplicates,
    readSibling: source.readSibling,
    table: null,
    *list() {
      const tensors = (yield* mapYielding(stored.tensors, tensorOf)).flat();
      const problems = model.problems.map((problem): Unselectable<TensorInfo> => {
        const name = problem.tensor as string;
        const info = byName.get(name)?.info ?? { dtype, shape: [], dataOffsets: [0, 0] };
        return { name, info, problem };
      });
      const unselectable = [...unread, ...problems];
      const names = new Set([...tensors, ...unselectable].map(({ name }) => name));
      const { index, files } = source.metadataOf() ?? { index: null, files: [] };
      // As the source itself has them.
      const aliases = index === null ? (files[0] ?? null) : index.metadata;
      return { ...selectionSource(names, aliases, source.path), tensors, unselectable };
    },
    metadataOf: () => {
      const metadata = source.metadataOf();
      if (metadata === null) return null;
      const { files, index } = metadata;
      return {
        files: files.map(withoutLabels),
        index: index && { metadata: withoutLabels(index.metadata), jsonKeys: index.jsonKeys },
      };
    },
    close: () => source.close(),
  };
}

/** What computes the weights of a source. */
interface Weights {
  readonly model: LogicalModel;
  readonly signal: AbortSignal | undefined;
  /** Compares stored tensors with their digests. */
  compare(names: readonly string[]): Promise<void>;
}

/** A weight whose values are computed while it is written. */
export class DequantizedTensor implements SourceTensor<TensorInfo> {
  readonly name: string;
  readonly info: TensorInfo;
  readonly valueDtype = 'F32';
  /** The stored tensors that it is made of, the codes first. */
  readonly parts: readonly SourceTensor<TensorInfo>[];
  readonly #weights: Weights;
  readonly #plan: LogicalPlan;

  constructor(
    weights: Weights,
    plan: LogicalPlan,
    dtype: Dtype,
    parts: readonly SourceTensor<TensorInfo>[],
  ) {
    const [codes] = parts as readonly [SourceTensor<TensorInfo>];
    const { dataOffsets } = codes.info;
    this.name = plan.name;
    this.info = Object.freeze({ dtype, shape: Object.freeze([...plan.shape]), dataOffsets });
    this.parts = parts;
    this.#weights = weights;
    this.#plan = plan;
  }

  get memory(): TensorMemory {
    const { name, info } = this;
    const { dtype, shape } = info;
    const storageByteLength = tensorByteLength({ dtype, shape });
    return { name, dtype, shape, storage: this, storageByteLength, byteOffset: 0 };
  }

  get payload(): ComputedPayload {
    const payloads = this.parts.map(({ payload }) => payload);
    const verify = (): void => {
      for (const payload of payloads) {
        if (payload.kind === 'file') payload.storage.verify();
        else payload.verify();
      }
    };
    const { model, signal, compare } = this.#weights;
    const fill = rowsInOrder({
      open: () => model.open(this.#plan),
      end: () => compare(this.parts.map(({ name }) => name)),
      signal,
    });
    return { kind: 'computed', fill, verify, storage: payloads[0]?.storage };
  }
}

/** A weight that is filled from its first row to its last. */
interface Rows {
  open(): LogicalTensor;
  /** Called after the last piece is filled, which fails with its error. */
  end(): Promise<void>;
  readonly signal: AbortSignal | undefined;
}

/**
 * Fills pieces with float32 values: whole rows in place; a row that two pieces share is kept from one to the next.
 * Everything read for the tensor is dropped after its last piece.
 */
function rowsInOrder({ open, end, signal }: Rows): AsyncFill {
  let tensor: LogicalTensor | null = null;
  let shared = { row: -1, values: new Float32Array(0) };
  let last: Promise<void> = Promise.resolve();
  const fill = async (target: Uint8Array, begin: number): Promise<void> => {
    tensor ??= open();
    const { columns } = tensor;
    const values = floatsOver(target);
    const start = begin / Float32Array.BYTES_PER_ELEMENT;
    for (let at = 0; at < values.length; ) {
      const row = Math.floor((start + at) / columns);
      const column = (start + at) % columns;
      const rows = Math.floor((values.length - at) / columns);
      if (column === 0 && rows > 0) {
        const whole = values.subarray(at, at + rows * columns);
        await tensor.fill(row, whole, signal);
        at += whole.length;
        continue;
      }
      if (shared.row !== row) {
        const own = shared.values.length === columns ? shared.values : new Float32Array(columns);
        shared = { row: -1, values: own };
        await tensor.fill(row, own, signal);
        shared.row = row;
      }
      const part = shared.values.subarray(column, column + values.length - at);
      values.set(part, at);
      at += part.length;
    }
    if (values.buffer !== target.buffer) target.set(new Uint8Array(values.buffer));
    if (start + values.length < tensor.elementCount) return;
    tensor = null;
    shared = { row: -1, values: new Float32Array(0) };
    await end();
  };
  return (target, begin) => {
    const filled = last.then(() => fill(target, begin));
    // A failure ends the writing; the pieces that were asked for before it are still filled.
    last = filled.catch(() => {});
    return filled;
  };
}

/** The target as numbers; separate numbers where it is not aligned. */
function floatsOver({ buffer, byteOffset, byteLength }: Uint8Array): Float32Array {
  const width = Float32Array.BYTES_PER_ELEMENT;
  const isAligned = byteOffset % width === 0;
  return isAligned
    ? new Float32Array(buffer, byteOffset, byteLength / width)
    : new Float32Array(byteLength / width);
}
