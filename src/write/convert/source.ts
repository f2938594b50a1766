/** An open file of another format as the source of a checkpoint. */

import type { SafetensorsError } from '../../errors/errors.js';
import type { SourceMetadata } from '../../file/shards/metadata.js';
import type { Quantization, TensorInfo } from '../../file/source/facts.js';
import type { RootKeys } from '../../file/source/plain-value.js';
import type { ArchiveContent } from '../../foreign/checksums.js';
import { type ForeignTensor, heldRange } from '../../foreign/tensors/foreign-tensor.js';
import type { Dtype } from '../../header/dtype.js';
import type { LendingStorage } from '../../tensor/storage/storage.js';
import { forEachYielding, mapYielding } from '../../work/items.js';
import type { CheckpointSource, SourceTensor } from '../checkpoint/source.js';
import { selectionSource } from '../selection/select.js';
import { SourceBytes } from './source-bytes.js';

/** The facts of a source's tensor. */
export interface SourceTensorInfo {
  /** Its dtype in safetensors; null for a tensor that cannot be converted. */
  readonly dtype: Dtype | null;
  /** Dimensions in elements, outermost first; empty for a scalar, and for a tensor that cannot be converted. */
  readonly shape: readonly number[];
  /** Of a tensor of GGUF blocks how they are stored; else undefined. */
  readonly quantization?: Quantization | undefined;
}

/** Anything that can be converted. */
export interface ConversionSource extends CheckpointSource<SourceTensorInfo> {
  /** The keys that lead to the state dict of a torch checkpoint; absent for other formats. */
  readonly root?: RootKeys | undefined;
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
  readonly archives: ReadonlyMap<LendingStorage, ArchiveContent>;
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
