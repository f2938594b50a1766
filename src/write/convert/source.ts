/** An open file of another format as the source of a checkpoint: its tensors are copied or computed, and checked. */

import type { SafetensorsError } from '../../errors/errors.js';
import type { SourceMetadata } from '../../file/shards/metadata.js';
import type { RanksFound } from '../../file/shards/verification-report.js';
import type { RootKeys } from '../../file/source/plain-value.js';
import type { Quantization, TensorInfo } from '../../file/source/tensor-info.js';
import { type ArchiveContent, checkedFill, verifyEntries } from '../../foreign/checksums.js';
import { InflatedStorage } from '../../foreign/inflated-data.js';
import { requireCrc32 } from '../../foreign/read-entry.js';
import { StridedStorage } from '../../foreign/strided-storage.js';
import { type ForeignTensor, heldBytes, heldRange } from '../../foreign/tensors/foreign-tensor.js';
import type { ArchiveEntry } from '../../foreign/zip/archive.js';
import type { Dtype } from '../../header/dtype.js';
import { storageFill } from '../../platform/storage/storage-fill.js';
import type { StorageBytes } from '../../tensor/storage/computed.js';
import { isLeasable, type LeasableStorage, type Storage } from '../../tensor/storage/storage.js';
import { forEachYielding, mapYielding } from '../../work/items.js';
import type { CheckpointSource, SourceTensor } from '../checkpoint/source.js';
import { type ComputedPayload, computedPayload, type FilePayload } from '../input/tensor-input.js';
import { selectionSource } from '../selection/select.js';

/** Maximum of bytes before a tensor in its entry, such as a NumPy header, to read both in one pass. */
const MAX_START_BYTE_LENGTH = 2 ** 16;

/** The entries of a file in the order of their bytes. */
interface SortedArchive extends ArchiveContent {
  readonly begins: Float64Array;
}

/** The bytes of a source. */
export class SourceBytes {
  readonly #archives = new Map<Storage, SortedArchive>();
  readonly #verify: boolean;

  /** With `verify` the checksums of files that have them are compared. */
  constructor(archives: ReadonlyMap<LeasableStorage, ArchiveContent>, verify: boolean) {
    this.#verify = verify;
    for (const [storage, { entries, limits }] of archives) {
      const sorted = entries.toSorted((a, b) => a.begin - b.begin);
      const begins = Float64Array.from(sorted, ({ begin }) => begin);
      this.#archives.set(storage, { entries: sorted, limits, begins });
    }
  }

  /**
   * Returns the source of a tensor's bytes. When they are the rest of an entry, the entry is read from start to end:
   * so a deflated entry need not be in memory as a whole, and its checksum is compared without a second read.
   */
  payloadOf({ data }: ForeignTensor): FilePayload | ComputedPayload {
    const { storage, begin } = data;
    if (storage instanceof InflatedStorage) {
      const fill = isRest(data, { begin: 0, end: storage.byteLength })
        ? storage.inOrder(begin)
        : storageFill(storage, begin);
      return computedPayload(storage, fill);
    }
    if (storage instanceof StridedStorage) return computedPayload(storage, storage.inOrder(begin));
    if (!isLeasable(storage)) return computedPayload(storage, storageFill(storage, begin));
    const entry = this.#checkedEntry(data);
    if (entry === undefined) return { kind: 'file', storage, position: begin };
    const fill = checkedFill(storage, entry, begin);
    if (begin > entry.begin) return computedPayload(storage, fill);
    const { path } = storage;
    const require = (found: number): void => requireCrc32(entry, found, { path });
    return { kind: 'file', storage, position: begin, checksum: { fill, require } };
  }

  /**
   * Compares the checksums of these tensors' entries, except those compared during the writes.
   *
   * @throws As `verifyEntries`
   */
  async verifyOthers(
    tensors: Iterable<ForeignTensor>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (!this.#verify) return;
    const others = new Map<LeasableStorage, Set<ArchiveEntry>>();
    const checked = new Set<ArchiveEntry>();
    for (const tensor of tensors) {
      const held = heldBytes(tensor);
      const entry = this.#entryOf(held);
      if (entry === undefined || entry.method === 'deflated') continue;
      if (this.#checkedEntry(tensor.data) !== undefined) checked.add(entry);
      const storage = held.storage as LeasableStorage;
      others.set(storage, (others.get(storage) ?? new Set()).add(entry));
    }
    for (const [storage, found] of others) {
      const entries = [...found].filter((entry) => !checked.has(entry));
      const { limits } = this.#archives.get(storage) as SortedArchive;
      await verifyEntries(storage, { entries, limits }, { signal });
    }
  }

  /** Returns the entry whose checksum is compared while these bytes are written. */
  #checkedEntry(bytes: StorageBytes): ArchiveEntry | undefined {
    if (!this.#verify || !isLeasable(bytes.storage)) return undefined;
    const entry = this.#entryOf(bytes);
    return entry !== undefined && isRest(bytes, entry) ? entry : undefined;
  }

  /** Returns the stored or deflated entry with the bytes: the last one that begins at or before them. */
  #entryOf({ storage, begin }: StorageBytes): ArchiveEntry | undefined {
    const archive = this.#archives.get(storage);
    if (archive === undefined) return undefined;
    const { begins, entries } = archive;
    let [low, high] = [0, begins.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((begins[middle] as number) <= begin) low = middle + 1;
      else high = middle;
    }
    return entries[low - 1];
  }
}

/** Whether these bytes reach to the end of an entry and are nearly all of it. */
function isRest(
  { begin, byteLength }: Omit<StorageBytes, 'storage'>,
  entry: { readonly begin: number; readonly end: number },
): boolean {
  const isEnd = begin + byteLength === entry.end;
  return isEnd && byteLength > 0 && begin - entry.begin <= MAX_START_BYTE_LENGTH;
}

/** The facts of a source's tensor. */
export interface SourceTensorInfo {
  /** Its dtype in safetensors; null for a tensor that cannot be converted. */
  readonly dtype: Dtype | null;
  /** Dimensions in elements, outermost first; empty for a scalar, and for a tensor that cannot be converted. */
  readonly shape: readonly number[];
  /** Of a tensor of GGUF blocks how they are stored; else undefined. */
  readonly quantization?: Quantization | undefined;
}

/** The conversion's own options for its source. */
export interface ConversionOpening {
  /** Whether to compare bytes with the digests and checksums that the source declares. */
  readonly verify: boolean;
  /** The dtype of dequantized weights. */
  readonly dequantize: Dtype | undefined;
  /** Whether a GGUF model gets the names and rows of Transformers. */
  readonly naming?: 'hf' | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Anything that can be converted. */
export interface ConversionSource extends CheckpointSource<SourceTensorInfo>, RanksFound {
  /** The keys that lead to the state dict of a torch checkpoint; absent for other formats. */
  readonly root?: RootKeys | undefined;
  /** What is missing for a generated configuration; absent when there is one, or none is generated. */
  readonly missingConfig?: readonly string[];
}

/** Open files of another format. */
export interface OpenSource {
  /** As given, for messages. */
  readonly path: string;
  /** Paths of all files. */
  readonly files: readonly string[];
  /** In the order of their bytes, file by file; names are unique. */
  readonly tensors: readonly ForeignTensor[];
  /** Names that several of the files have; `tensors` has one of each. */
  readonly duplicates: readonly string[];
  /** An error for every tensor that cannot be read, with its name. */
  readonly problems: readonly SafetensorsError[];
  readonly root: RootKeys | undefined;
  /** Null for formats without metadata. */
  readonly metadata: SourceMetadata | null;
  /** The files with checksums, and their entries. */
  readonly archives: ReadonlyMap<LeasableStorage, ArchiveContent>;
  /** Closes all files. */
  close(): void;
}

/** A tensor of another format. */
export interface ConvertedTensor extends SourceTensor<TensorInfo> {
  readonly memory: ForeignTensor;
}

/**
 * Makes the tensors of open files selectable and writable. `verify` compares checksums where a file has them, and reads
 * the written files back.
 */
export function conversionSource(source: OpenSource, verify: boolean): ConversionSource {
  const { path, files, duplicates, root } = source;
  const bytes = new SourceBytes(source.archives, verify);
  const tensorOf = (memory: ForeignTensor): ConvertedTensor => {
    const { name, dtype, shape, quantization } = memory;
    const { position, byteLength } = heldRange(memory);
    const dataOffsets = [position, position + byteLength] as const;
    const stored = quantization === undefined ? {} : { quantization };
    return {
      ...{ name, info: { dtype, shape, dataOffsets, ...stored }, memory },
      get payload() {
        return bytes.payloadOf(memory);
      },
    };
  };
  return {
    path,
    files,
    duplicates,
    root,
    isReadBack: verify,
    table: null,
    *list() {
      const tensors = yield* mapYielding(source.tensors, tensorOf);
      const unselectable = yield* mapYielding(source.problems, (problem) => ({
        name: problem.tensor as string,
        info: { dtype: null, shape: [] },
        problem,
      }));
      const names = new Set<string>();
      for (const some of [tensors, unselectable]) {
        yield* forEachYielding<{ readonly name: string }>(some, ({ name }) => void names.add(name));
      }
      return { ...selectionSource(names, null, path), tensors, unselectable };
    },
    metadataOf: () => source.metadata,
    verify: async (tensors: readonly ConvertedTensor[], signal) => {
      const written = tensors.map(({ memory }) => memory);
      await bytes.verifyOthers(written, signal);
    },
    close: () => source.close(),
  };
}
