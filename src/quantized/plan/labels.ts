/** Metadata about quantization, which does not hold for the weights that a view shows. */

import { MARKERS_KEY } from './markers.js';

/** Programs that read these keys would take the weights for quantized ones. */
const LABELS: readonly string[] = [
  MARKERS_KEY,
  'quantization_config',
  'compression_config',
  'quantization',
  // GGUF.
  'general.file_type',
  'general.quantization_version',
];

/** Some tools count codes as parameters: the number is not that of the dequantized model. */
const COUNT = 'total_parameters';

/** Whether metadata has a key about quantization. */
export function isLabelled(metadata: ReadonlyMap<string, string> | null): boolean {
  return LABELS.some((key) => metadata?.has(key));
}

/** Returns the metadata without what only holds for quantized weights. */
export function withoutLabels(
  metadata: ReadonlyMap<string, string> | null,
): ReadonlyMap<string, string> | null {
  if (metadata === null) return null;
  const dropped = [...LABELS, COUNT];
  return new Map([...metadata].filter(([key]) => !dropped.includes(key)));
}
