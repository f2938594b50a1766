/** An open checkpoint as the source of a conversion: of bytes, descriptors, Blobs and readers. */

import { argumentRangeError } from '../../errors/arguments.js';
import type { SafetensorsError } from '../../errors/errors.js';
import type { SourceMetadata } from '../../file/shards/metadata.js';
import type { PlainValue } from '../../file/source/plain-value.js';
import { ranksFound } from '../../file/source/ranks-found.js';
import type { Quantization, SiblingFile, TensorEntry } from '../../file/source/tensor-info.js';
import type { GgufMetadata } from '../../foreign/gguf/llama-names.js';
import { dequantize } from '../../quantized/dequantize.js';
import type { QuantizedSource } from '../../quantized/source.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { CACHED_BYTE_LENGTH, cut } from '../../work/byte-ranges.js';
import { mapYielding } from '../../work/items.js';
import { immediate } from '../../work/work.js';
import { configNames } from '../checkpoint/dequantized-files.js';
import type { SourceTensor } from '../checkpoint/source.js';
import { blockError, isStoredBlocks } from '../input/block-tensors.js';
import {
  type ComputedPayload,
  type FilePayload,
  type MemoryPayload,
  payloadOfTensor,
} from '../input/tensor-input.js';
import { payloadFill } from '../save/verifying-fill.js';
import { selectionSource, throwTogether } from '../selection/select.js';
import { ggufMetadata } from './gguf-source.js';
import { hfSource } from './hf-source.js';
import type { ConversionOpening, ConversionSource, SourceTensorInfo } from './source.js';

/** Members of the library's handles, local and remote. */
export interface OpenCheckpoint extends QuantizedSource {
  readonly local: boolean;
  readonly format: string;
  readonly path: string | undefined;
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly problems: readonly SafetensorsError[];
  tensors(options: { readonly signal: AbortSignal | undefined }): Promise<TensorEntry[]>;
  getTensor(
    name: string,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Tensor | Promise<Tensor>;
  sibling(
    name: string,
    options: { readonly signal: AbortSignal | undefined },
  ): Promise<SiblingFile | undefined>;
  extra(): Promise<PlainValue>;
  sourceMetadata(): SourceMetadata;
  close(): void;
}

/**
 * Takes ownership of the checkpoint, also when it throws. A local tensor is written from its file or memory; of a
 * remote checkpoint one tensor at a time is fetched whole, when its turn comes.
 *
 * @throws As `tensors` and `dequantize` of the checkpoint; `signal.reason`
 */
export async function openedSource(
  opened: OpenCheckpoint,
  { verify, dequantize: dtype, naming, signal }: ConversionOpening,
): Promise<ConversionSource> {
  try {
    if (naming !== undefined && opened.format !== 'gguf') {
      throw argumentRangeError('naming', 'left out for other formats than GGUF', naming);
    }
    const shown = dtype === undefined ? opened : await dequantize(opened, { signal });
    const listed = await shown.tensors({ signal });
    const { path, metadata } = shown;
    const blocks = shown.format === 'gguf' ? listed.filter(isStoredBlocks) : [];
    const entries = blocks.length === 0 ? listed : listed.filter((one) => !isStoredBlocks(one));
    const unwritten = blocks.map(({ name, quantization }): SafetensorsError => {
      return blockError((quantization as Quantization).scheme, name, path);
    });
    const problems = [...shown.problems, ...unwritten];
    // Those with a tensor matter only if it is selected.
    throwTogether(
      problems.filter(({ tensor }) => tensor === undefined),
      path,
    );
    const configs = new Map<string, SiblingFile | undefined>();
    if (dtype !== undefined) {
      for (const name of configNames(path ?? '')) {
        configs.set(name, await shown.sibling(name, { signal }));
      }
    }
    const tensorOf = (entry: TensorEntry): SourceTensor<SourceTensorInfo> =>
      openedTensor(shown, entry, { verify, dequantize: dtype, signal });
    const source: ConversionSource = {
      ...(await ranksFound(opened)),
      path: path ?? '',
      files: [],
      duplicates: [],
      table: null,
      readSibling: (name) => immediate(() => configs.get(name)),
      *list() {
        const tensors = yield* mapYielding(entries, tensorOf);
        const unselectable = problems.flatMap((problem) => {
          const { tensor } = problem;
          return tensor === undefined
            ? []
            : [{ name: tensor, info: { dtype: null, shape: [] }, problem }];
        });
        const names = new Set([...tensors, ...unselectable].map(({ name }) => name));
        return { ...selectionSource(names, metadata, path), tensors, unselectable };
      },
      metadataOf: () => (shown.format === 'gguf' ? ggufMetadata(metadata) : shown.sourceMetadata()),
      verify: async (tensors) => {
        const written = new Set(tensors.map(({ name }) => name));
        const weights = entries.filter(({ name }) => written.has(name));
        if (verify) await compareQuantized(opened, weights, signal);
      },
      close: () => opened.close(),
    };
    if (naming === undefined) return source;
    return await hfSource(source, (await opened.extra()) as GgufMetadata, signal);
  } catch (error) {
    opened.close();
    throw error;
  }
}

/**
 * Compares the stored tensors of quantized weights with the digests that their files declare. Their values are computed
 * from rows, which have no digests.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`; `signal.reason`
 */
async function compareQuantized(
  checkpoint: OpenCheckpoint,
  weights: readonly TensorEntry[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const names = new Set(
    weights.flatMap(({ quantization }) => Object.values(quantization?.storedAs ?? {})),
  );
  const buffer = new Uint8Array(CACHED_BYTE_LENGTH);
  for (const name of names) {
    // A requested tensor is compared as it arrives.
    const tensor = await checkpoint.getTensor(name, { signal });
    const payload = digestedPayload(tensor);
    if (!checkpoint.local || payload.digest === undefined) continue;
    const fill = payloadFill(payload, tensor.byteLength);
    for (const { begin, end } of cut(0, tensor.byteLength, buffer.length)) {
      signal?.throwIfAborted();
      await fill(buffer.subarray(0, end - begin), begin);
    }
  }
}

/** The bytes of a tensor with the digest that its file declares, also for a file in memory. */
function digestedPayload(tensor: Tensor): FilePayload | MemoryPayload {
  const payload = payloadOfTensor(tensor, tensor);
  const { headerDigest } = TensorOf.sourceOf(tensor);
  return { ...payload, digest: payload.digest ?? headerDigest };
}

/** A tensor of an open checkpoint. Tensors of safetensors never share bytes. */
function openedTensor(
  checkpoint: OpenCheckpoint,
  { name, dtype, shape, byteLength, quantization }: TensorEntry,
  { verify, dequantize: dequantizedTo, signal }: ConversionOpening,
): SourceTensor<SourceTensorInfo> {
  const isDequantized = quantization !== undefined && dequantizedTo !== undefined;
  const info = Object.freeze({ dtype: isDequantized ? dequantizedTo : dtype, shape, quantization });
  return {
    name,
    info,
    ...(isDequantized ? { valueDtype: dtype } : {}),
    memory: { name, dtype, shape, storage: {}, storageByteLength: byteLength, byteOffset: 0 },
    get payload() {
      if (!checkpoint.local) {
        const fetch = async (): Promise<Tensor> => await checkpoint.getTensor(name, { signal });
        return fetchedPayload(fetch, byteLength);
      }
      const tensor = checkpoint.getTensor(name) as Tensor;
      if (verify) return digestedPayload(tensor);
      return { ...payloadOfTensor(tensor, tensor), digest: undefined };
    },
  };
}

/** Fetches a tensor for its first piece, and drops it with its last one. */
function fetchedPayload(fetch: () => Promise<Tensor>, byteLength: number): ComputedPayload {
  let tensor: Promise<Tensor> | null = null;
  const fill = async (target: Uint8Array, begin: number): Promise<void> => {
    tensor ??= fetch();
    const fetching = tensor;
    if (begin + target.length === byteLength) tensor = null;
    const fetched = await fetching;
    TensorOf.sourceOf(fetched).copyTo(target, TensorOf.offsetOf(fetched) + begin);
  };
  return { kind: 'computed', fill, verify: () => {}, storage: undefined };
}
