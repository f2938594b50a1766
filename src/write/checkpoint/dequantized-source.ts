/** A source with logical tensors: weights in place of codes, scales and zero points. */

import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { TensorInfo } from '../../file/source/facts.js';
import type { Dtype } from '../../header/dtype.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import { DequantizedCheckpoint } from '../../quantized/dequantized.js';
import { LogicalTensor } from '../../quantized/logical-tensor.js';
import { MARKERS_KEY } from '../../quantized/plan/markers.js';
import type { AsyncFill } from '../../tensor/storage/made.js';
import { mapYielding } from '../../work/items.js';
import type { MadePayload } from '../input/tensor-input.js';
import { selectionSource, type Unselectable } from '../selection/select.js';
import { TOTAL_PARAMETERS } from '../selection/total-parameters.js';
import type { CheckpointSource, SourceTensor } from './source.js';
import { type StoredBytes, StoredReads } from './stored-reads.js';

/** The tensors of a source, how to read them, and what they become. */
export interface Dequantizing<Tensor extends SourceTensor<TensorInfo>> {
  readonly stored: StoredBytes<Tensor>;
  readonly dtype: Dtype;
  readonly signal: AbortSignal | undefined;
}

/**
 * Returns the same source with logical tensors. A tensor that cannot be dequantized is a problem unless it is left out.
 *
 * @throws As `dequantized`
 */
export async function dequantizedSource<Tensor extends SourceTensor<TensorInfo>>(
  source: CheckpointSource<TensorInfo>,
  { stored, dtype, signal }: Dequantizing<Tensor>,
): Promise<CheckpointSource<TensorInfo>> {
  const { files = [], index = null } = source.metadataOf() ?? {};
  const metadata = [index?.metadata ?? null, ...files];
  const reads = new StoredReads({ ...stored, metadata });
  const model = await DequantizedCheckpoint.of(reads, signal === undefined ? {} : { signal });
  const byCodes = new Map<string, string>();
  for (const name of model.keys()) {
    const { scheme, storedAs } = model.info(name);
    if (scheme !== null) byCodes.set(storedAs['weight'] as string, name);
  }
  const isPlain = byCodes.size === 0 && model.problems.length === 0;
  const hasLabels = model.size < stored.tensors.length || metadata.some(isLabelled);
  if (isPlain && !hasLabels) return source;
  const byName = new Map(stored.tensors.map((tensor) => [tensor.name, tensor]));
  const compare = (names: readonly string[]): Promise<void> => reads.compare(names, signal);
  const tensorOf = (tensor: Tensor): SourceTensor<TensorInfo>[] => {
    const name = byCodes.get(tensor.name);
    if (name === undefined) return model.has(tensor.name) ? [tensor] : [];
    const parts = Object.values(model.info(name).storedAs).filter((part) => part !== tensor.name);
    const others = parts.map((part) => byName.get(part) as Tensor);
    return [new DequantizedTensor({ model, signal, compare }, name, dtype, [tensor, ...others])];
  };
  return {
    path: source.path,
    files: source.files,
    duplicates: source.duplicates,
    readSibling: source.readSibling,
    table: null,
    *list() {
      const tensors = (yield* mapYielding(stored.tensors, tensorOf)).flat();
      const unselectable = model.problems.map((problem): Unselectable<TensorInfo> => {
        const name = problem.tensor as string;
        const info = byName.get(name)?.info ?? { dtype, shape: [], dataOffsets: [0, 0] };
        return { name, info, problem };
      });
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

/** Keys of metadata about quantization. Programs that read them would take the weights for quantized ones. */
const LABELS: readonly string[] = [
  MARKERS_KEY,
  'quantization_config',
  'compression_config',
  'quantization',
];

function isLabelled(metadata: ReadonlyMap<string, string> | null): boolean {
  return LABELS.some((key) => metadata?.has(key));
}

/**
 * Metadata of plain weights. Some tools count codes as parameters: the number of a quantized model tells nothing about
 * the plain one.
 */
function withoutLabels(
  metadata: ReadonlyMap<string, string> | null,
): ReadonlyMap<string, string> | null {
  if (metadata === null) return null;
  const dropped = [...LABELS, TOTAL_PARAMETERS];
  return new Map([...metadata].filter(([key]) => !dropped.includes(key)));
}

/** What computes the weights of a source. */
interface Weights {
  readonly model: DequantizedCheckpoint;
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

  constructor(
    weights: Weights,
    name: string,
    dtype: Dtype,
    parts: readonly SourceTensor<TensorInfo>[],
  ) {
    const { shape } = weights.model.info(name);
    const [codes] = parts as readonly [SourceTensor<TensorInfo>];
    this.name = name;
    this.info = Object.freeze({ dtype, shape, dataOffsets: codes.info.dataOffsets });
    this.parts = parts;
    this.#weights = weights;
  }

  get memory(): TensorMemory {
    const { name, info } = this;
    const { dtype, shape } = info;
    const storageByteLength = tensorByteLength({ dtype, shape });
    return { name, dtype, shape, storage: this, storageByteLength, byteOffset: 0 };
  }

  get payload(): MadePayload {
    const payloads = this.parts.map(({ payload }) => payload);
    const verify = (): void => {
      for (const payload of payloads) {
        if (payload.kind === 'made') payload.verify();
        else payload.storage.verify();
      }
    };
    const { model, signal, compare } = this.#weights;
    const fill = rowsInOrder({
      open: () => model.getTensor(this.name),
      end: () => compare(this.parts.map(({ name }) => name)),
      signal,
    });
    return { kind: 'made', fill, verify, storage: payloads[0]?.storage };
  }
}

/** A weight that is filled from its first row to its last. */
interface Rows {
  open(): LogicalTensor | Promise<LogicalTensor>;
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
    tensor ??= await open();
    const columns = tensor.shape.at(-1) ?? 1;
    const values = floatsOver(target);
    const start = begin / Float32Array.BYTES_PER_ELEMENT;
    for (let at = 0; at < values.length; ) {
      const row = Math.floor((start + at) / columns);
      const column = (start + at) % columns;
      const rows = Math.floor((values.length - at) / columns);
      if (column === 0 && rows > 0) {
        const whole = values.subarray(at, at + rows * columns);
        await LogicalTensor.fill(tensor, row, whole, 'F32', signal);
        at += whole.length;
        continue;
      }
      if (shared.row !== row) {
        const own = shared.values.length === columns ? shared.values : new Float32Array(columns);
        shared = { row: -1, values: own };
        await LogicalTensor.fill(tensor, row, own, 'F32', signal);
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

/** The target as numbers; numbers of their own where it is not aligned. */
function floatsOver({ buffer, byteOffset, byteLength }: Uint8Array): Float32Array {
  const width = Float32Array.BYTES_PER_ELEMENT;
  const isAligned = byteOffset % width === 0;
  return isAligned
    ? new Float32Array(buffer, byteOffset, byteLength / width)
    : new Float32Array(byteLength / width);
}
