/** A GGUF file as the source of a checkpoint: its blocks as numbers, or not at all. */

import type { SafetensorsError } from '../../errors/errors.js';
import type { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { SourceMetadata } from '../../file/shards/metadata.js';
import type { Quantization } from '../../file/source/tensor-info.js';
import type { ForeignTensor } from '../../foreign/tensors/foreign-tensor.js';
import type { Dtype } from '../../header/dtype.js';
import { runAsync } from '../../work/work.js';
import { dequantizedSource } from '../checkpoint/dequantized-source.js';
import { storedReader } from '../checkpoint/stored-reader.js';
import { blockError } from '../input/block-tensors.js';
import { openFilesOf } from './open-files.js';
import {
  type ConversionSource,
  type ConvertedTensor,
  conversionSource,
  type OpenSource,
} from './source.js';

/** Programs that load a model look for this key of its metadata. */
const PYTORCH = ['format', 'pt'] as const;

/** Options of {@link ggufSource}. */
interface GgufSourceOptions {
  readonly verify: boolean;
  /** The dtype of dequantized weights. */
  readonly dequantize: Dtype | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Takes ownership of the checkpoint, also when it throws. Without `dequantize`, a tensor of blocks is a problem unless
 * it is left out.
 */
export async function ggufSource(
  checkpoint: Checkpoint,
  { verify, dequantize, signal }: GgufSourceOptions,
): Promise<ConversionSource> {
  try {
    const files = {
      ...openFilesOf(checkpoint, undefined),
      metadata: ggufMetadata(checkpoint.metadata),
    };
    if (dequantize === undefined) return conversionSource(withoutBlocks(files), verify);
    const source = conversionSource(files, verify);
    const { tensors, unselectable } = await runAsync(source.list(), signal);
    const stored = {
      ...storedReader((tensor: ConvertedTensor) => {
        const { storage, begin } = tensor.memory.data;
        return { storage, position: begin };
      }),
      path: files.path,
      tensors: tensors as readonly ConvertedTensor[],
      digestOf: () => undefined,
      readSibling: async () => undefined,
    };
    return await dequantizedSource(source, { stored, dtype: dequantize, signal, unselectable });
  } catch (error) {
    checkpoint.close();
    throw error;
  }
}

/** The metadata of a converted GGUF model. */
export function ggufMetadata(metadata: ReadonlyMap<string, string> | null): SourceMetadata {
  return { files: [new Map([PYTORCH, ...(metadata ?? [])])], index: null };
}

/** The same files with problems in place of the tensors of blocks. */
function withoutBlocks(files: OpenSource): OpenSource {
  const { path, tensors, problems } = files;
  const isPlain = ({ quantization }: ForeignTensor): boolean => quantization === undefined;
  const blocks = tensors.filter((tensor) => !isPlain(tensor));
  const unwritten = blocks.map(({ name, quantization }): SafetensorsError => {
    return blockError((quantization as Quantization).scheme, name, path);
  });
  return { ...files, tensors: tensors.filter(isPlain), problems: [...problems, ...unwritten] };
}
