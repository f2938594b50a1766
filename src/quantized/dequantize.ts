/** `dequantize`. Its code loads on the first call. */

import type { DequantizedCheckpoint, DequantizeOptions } from './dequantized.js';
import type { QuantizedSource } from './source.js';

/**
 * Shows an open checkpoint as the model means it: quantized weights as numbers under their logical names, all others as
 * they are. Takes any open handle. Reads headers, the configuration
 * and shapes, no weights; `docs/quantized.md` has the schemes.
 *
 * @throws QuantizationError for a configuration that no tensor can be read by, such as one that is cut short
 * @throws As `tensors` of the source, and for a configuration that is there but cannot be read; `signal.reason`
 *
 * @example
 * ```ts
 * const model = await dequantize(safeOpen('quantized'));
 * console.log(model.keys()); // → [ 'norm.weight', 'up_proj.weight' ]
 * console.log(model.getTensor('up_proj.weight').toFloat32().subarray(0, 3)); // → Float32Array(3) [ 0, 0.25, 0.5 ]
 * ```
 */
export async function dequantize(
  source: QuantizedSource,
  options: DequantizeOptions = {},
): Promise<DequantizedCheckpoint> {
  const { DequantizedCheckpoint: Dequantized } = await import('./dequantized.js');
  return await Dequantized.of(source, options);
}
