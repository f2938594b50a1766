/** A local safetensors checkpoint as the source of a new one. */

import type { SiblingPlace } from '../../file/checkpoint/find-files.js';
import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { openShards } from '../../file/checkpoint/open.js';
import { readSibling } from '../../file/checkpoint/sibling-files.js';
import type { SourceMetadata } from '../../file/shards/metadata.js';
import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import { type TensorInfo, tensorInfo } from '../../file/source/tensor-info.js';
import type { Dtype } from '../../header/dtype.js';
import { mapYielding } from '../../work/items.js';
import { runAsync, type Work } from '../../work/work.js';
import type { FilePayload } from '../input/tensor-input.js';
import { selectionSource } from '../selection/select.js';
import { dequantizedSource } from './dequantized-source.js';
import type { CheckpointSource, ListedTensors, SourceTensor } from './source.js';
import { SourceTensors } from './source-tensors.js';
import { storedReader } from './stored-reader.js';
import type { StoredBytes } from './stored-reads.js';

/** Options of opening a source. */
interface SafetensorsSourceOptions {
  readonly maxIndexByteLength?: number | undefined;
  /** The files of a variant in a folder. */
  readonly variant?: string | undefined;
  /** Whether to compare tensors with the digests that their files declare. */
  readonly verify: boolean;
  /** The dtype of dequantized weights; quantized tensors stay as they are by default. */
  readonly dequantize?: Dtype | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Opens anything that `safeOpen` opens, with all its shards.
 *
 * @throws As `safeOpen`; FormatError `SAFETENSORS_INDEX_MISMATCH` for a name of the index that no shard has;
 *   `signal.reason`
 */
export async function openSafetensorsSource(
  path: string | URL,
  { maxIndexByteLength, variant, verify, dequantize, signal }: SafetensorsSourceOptions,
): Promise<CheckpointSource<TensorInfo>> {
  // Read, not mapped: mapped pages of copied files would count as memory of the process.
  const options = { maxIndexByteLength, variant, storage: 'read' } as const;
  const shards = await runAsync(openShards(path, options), signal);
  return await safetensorsSource(shards, { verify, dequantize, signal });
}

/**
 * The same of shards that are all open and read, not mapped. Takes ownership of them, also when it throws.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH`; `signal.reason`
 */
export async function safetensorsSource(
  shards: LazyShards,
  { verify, dequantize, signal }: SafetensorsSourceOptions,
): Promise<CheckpointSource<TensorInfo>> {
  try {
    const table = new SourceTensors(shards, verify);
    const { index, path: label, readSibling: readInArchive } = shards.files;
    const metadata: SourceMetadata = { files: Array.from(shards, (file) => file.metadata), index };
    const source: CheckpointSource<TensorInfo> = {
      path: label,
      files: [label, ...shards.files.shards.map(({ path }) => path)],
      readSibling: readInArchive,
      table,
      duplicates: table.duplicates,
      list: () => listOf(table, metadata, label),
      metadataOf: () => metadata,
      close: () => shards.close({}),
    };
    if (dequantize === undefined) return source;
    const { tensors } = await runAsync(source.list(), signal);
    const stored = storedBytes(shards.files, tensors);
    return await dequantizedSource(source, { stored, dtype: dequantize, signal });
  } catch (error) {
    shards.close({});
    throw error;
  }
}

/** The tensors of a checkpoint, as dequantizing reads them. */
function storedBytes(
  place: SiblingPlace,
  tensors: readonly SourceTensor<TensorInfo>[],
): StoredBytes<SourceTensor<TensorInfo>> {
  const payloadOf = (tensor: SourceTensor<TensorInfo>): FilePayload =>
    (tensor as HeaderTensor).payload;
  return {
    ...storedReader(payloadOf),
    path: place.path,
    tensors,
    digestOf: (tensor) => payloadOf(tensor).digest,
    readSibling: (name, signal) => runAsync(readSibling(place, name), signal),
  };
}

function* listOf(
  table: SourceTensors,
  { files, index }: SourceMetadata,
  path: string,
): Work<ListedTensors<TensorInfo>> {
  const names = new Set<string>();
  const tensors = yield* mapYielding(table.byteLengths.keys(), (number) => {
    const tensor = new HeaderTensor(table, number);
    names.add(tensor.name);
    return tensor;
  });
  // The metadata that may name aliases, as with `safeOpen`.
  const aliases = index === null ? (files[0] ?? null) : index.metadata;
  return { ...selectionSource(names, aliases, path), tensors, unselectable: [] };
}

/** A tensor by its number. In this format tensors never share bytes. */
class HeaderTensor implements SourceTensor<TensorInfo> {
  readonly name: string;
  readonly info: TensorInfo;
  readonly #table: SourceTensors;
  readonly #number: number;

  constructor(table: SourceTensors, number: number) {
    const [header, entry] = [table.header(number), table.entry(number)];
    this.name = header.name(entry);
    this.info = tensorInfo(header, entry);
    this.#table = table;
    this.#number = number;
  }

  get memory(): TensorMemory {
    const { name, info } = this;
    const storageByteLength = this.#table.byteLengths[this.#number] as number;
    const { dtype, shape } = info;
    return { name, dtype, shape, storage: this, storageByteLength, byteOffset: 0 };
  }

  get payload(): FilePayload {
    return this.#table.payload(this.#number);
  }
}
