/** Rejects options of one format for a source of another, which would ignore them. */

import { argumentRangeError } from '../../errors/arguments.js';
import type { DetectedFormat } from './detect-format.js';

type SourceFormat = NonNullable<DetectedFormat['format']>;

/** Options for some formats only. */
const ONLY_FOR: Readonly<
  Record<'root' | 'unknownGlobals' | 'voidDtype' | 'dequantize' | 'naming', readonly SourceFormat[]>
> = {
  root: ['torch'],
  unknownGlobals: ['torch'],
  voidDtype: ['numpy'],
  dequantize: ['safetensors', 'gguf'],
  naming: ['gguf'],
};

const KIND_TEXTS: Readonly<Record<SourceFormat, string>> = {
  safetensors: 'safetensors',
  torch: 'a torch file',
  numpy: 'a NumPy file',
  gguf: 'a GGUF file',
  dcp: 'a distributed checkpoint',
};

/** Throws a RangeError `ERR_OUT_OF_RANGE` for an option that the format has no use for. */
export function requireUsed(
  options: Readonly<Partial<Record<keyof typeof ONLY_FOR, unknown>>>,
  format: SourceFormat,
): void {
  for (const [name, only] of Object.entries(ONLY_FOR)) {
    const value = options[name as keyof typeof ONLY_FOR];
    if (value === undefined || only.includes(format)) continue;
    throw argumentRangeError(name, `left out for ${KIND_TEXTS[format]}`, value);
  }
}
