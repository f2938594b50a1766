/** Counts the weights that `--dtype` spares because they are quantized or stored in floats of 8 bits or less. */

import type { AnyCheckpoint, TensorEntry } from '../../index.js';
import { logicalModel, schemeName } from './logical.js';
import { modelsOf, type OpeningOptions, openSource } from './open-source.js';

/** Quantized weights: their number, and the name of their scheme; null for several schemes, and for unknown ones. */
interface QuantizedWeights {
  readonly count: number;
  readonly scheme: string | null;
  /** Tensors in other floats of 8 bits or less than the target, with or without scales. */
  readonly smallFloats: number;
}

const SMALL_FLOAT = /^F[468]_/;

/**
 * Counts the chosen weights that are quantized.
 *
 * @param isChosen whether a stored tensor is to be written
 * @param target the dtype to cast to
 */
export async function quantizedWeights(
  source: string,
  opening: OpeningOptions,
  isChosen: (name: string) => boolean,
  target: string,
): Promise<QuantizedWeights> {
  const opened = await openSource(source, opening);
  const schemes = new Map<string, number>();
  let smallFloats = 0;
  try {
    for (const model of modelsOf(opened).values()) {
      const entries = await model.tensors({ signal: opening.signal });
      await countSchemes(model, entries, isChosen, schemes, opening.signal);
      for (const { name, dtype } of entries) {
        if (SMALL_FLOAT.test(dtype) && dtype !== target && isChosen(name)) smallFloats++;
      }
    }
  } finally {
    opened.close();
  }
  const count = [...schemes.values()].reduce((sum, one) => sum + one, 0);
  const [only = '', other] = schemes.keys();
  const scheme = other === undefined && only !== '' ? schemeName(only) : null;
  return { count, scheme, smallFloats };
}

/** Counts quantized weights by scheme; those that cannot be dequantized under an empty name. */
async function countSchemes(
  checkpoint: AnyCheckpoint,
  entries: readonly TensorEntry[],
  isChosen: (name: string) => boolean,
  schemes: Map<string, number>,
  signal: AbortSignal,
): Promise<void> {
  const names = new Set(entries.map(({ name }) => name));
  const model = await logicalModel(checkpoint, entries, signal);
  const add = (scheme: string): void => void schemes.set(scheme, (schemes.get(scheme) ?? 0) + 1);
  for (const { quantization, name } of model?.tensors ?? []) {
    if (quantization === undefined) continue;
    const { scheme, storedAs } = quantization;
    if (isChosen(storedAs['weight'] ?? name)) add(scheme);
  }
  for (const { tensor = '' } of model?.view.problems ?? []) {
    // Scales whose weight is in another shard are spared, and say nothing about the weights of this one.
    const codes = codeNames(tensor).find((name) => names.has(name));
    if (codes !== undefined && isChosen(codes)) add('');
  }
}

/** Names that the codes of a weight may have. */
function codeNames(weight: string): string[] {
  return [
    weight,
    `${weight}_packed`,
    `${weight}_blocks`,
    `${weight}.blocks`,
    weight.replace(/weight$/, 'qweight'),
  ];
}
