/** `dequantize`. Its code loads on the first call. */

import { VIEW_OF, type Viewable } from '../file/source/view.js';
import type { DequantizeOptions } from './model.js';
import type { QuantizedSource } from './source.js';

/**
 * Shows a checkpoint as the model means it: a view in which quantized weights are tensors of F32 under their logical
 * names, bit for bit as the reference of the scheme computes them, and all others are as they are stored. Reads
 * headers, the configuration and shapes, no weights; `docs/quantized.md` has the schemes.
 *
 * The view is a checkpoint of the kind that was given. It reads through that one, which stays the caller's to close:
 * afterwards the view's members throw `SAFETENSORS_FILE_CLOSED`, and its tensors go on working. Values are computed
 * when they are used, only those that a call returns, and the view retains none: `info(name).quantization`
 * describes how a weight is stored. Weights that cannot be read are in `problems`, each with its name; `getTensor` of
 * that name throws the error.
 *
 * @param checkpoint any checkpoint: local, remote or a view
 * @throws QuantizationError for a configuration that no tensor can be read by, such as one that is cut short
 * @throws As `tensors` of the checkpoint, and for a configuration that is there but cannot be read; `signal.reason`
 *
 * @example
 * ```ts
 * const model = await dequantize(safeOpen('quantized'));
 * console.log(model.keys()); // → [ 'norm.weight', 'up_proj.weight' ]
 * const weight = model.getTensor('up_proj.weight');
 * const row = weight.toFloat32({ rows: [0, 1] });
 * console.log(weight.dtype, row.subarray(0, 3)); // → F32 Float32Array(3) [ 0, 0.25, 0.5 ]
 * ```
 */
export async function dequantize<Opened extends QuantizedSource>(
  checkpoint: Opened,
  options: DequantizeOptions = {},
): Promise<Opened> {
  const { dequantizedParts } = await import('./view.js');
  const parts = await dequantizedParts(checkpoint, options);
  return (checkpoint as unknown as Viewable<Opened>)[VIEW_OF](parts);
}
