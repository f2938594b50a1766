/**
 * Rejects tensors of GGUF blocks: safetensors has no dtype for them, and nothing would show that the bytes are codes.
 */

import type { Advice } from '../../errors/advice.js';
import { QuantizationError } from '../../errors/errors.js';
import type { Quantization, TensorEntry } from '../../file/source/tensor-info.js';
import { VIEW_OF } from '../../file/source/view.js';

/** Members of the library's handles. */
interface Handle {
  readonly format: string;
  readonly path: string | undefined;
  entriesNow(): TensorEntry[];
}

const DEQUANTIZE: Advice = { option: 'dequantize', text: 'dequantize them' };

/** The error for a tensor of blocks that is to be written; `scheme` names their type. */
export function blockError(
  scheme: string,
  tensor: string,
  path: string | undefined,
): QuantizationError {
  const message = `safetensors cannot hold blocks of ${scheme}: ${DEQUANTIZE.text}`;
  const context = { path, tensor, advice: [DEQUANTIZE] };
  return new QuantizationError('SAFETENSORS_QUANTIZATION_UNSUPPORTED', message, context);
}

/**
 * Checks the tensors of a call that writes them.
 *
 * @throws QuantizationError `SAFETENSORS_QUANTIZATION_UNSUPPORTED` for a checkpoint with tensors of blocks
 */
export function rejectBlocks(tensors: unknown): void {
  if (!isHandle(tensors) || tensors.format !== 'gguf') return;
  const blocks = tensors.entriesNow().find(isStoredBlocks);
  if (blocks === undefined) return;
  const { name, quantization } = blocks;
  throw blockError((quantization as Quantization).scheme, name, tensors.path);
}

/** Whether a tensor of a GGUF checkpoint is blocks as they are stored; the values of a dequantized view are F32. */
export function isStoredBlocks({ dtype, quantization }: TensorEntry): boolean {
  return quantization !== undefined && dtype === 'U8';
}

function isHandle(tensors: unknown): tensors is Handle {
  return typeof tensors === 'object' && tensors !== null && VIEW_OF in tensors;
}
