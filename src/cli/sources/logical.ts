/** A model with logical weights in place of codes, scales and zero points. */

import { elementCountOf } from '../../header/tensor-spec.js';
import {
  type AnyCheckpoint,
  type DequantizeOptions,
  dequantize,
  type Quantization,
  type TensorEntry,
} from '../../index.js';
import { blockTypeOf } from '../../quantized/blocks/types.js';
import { isMarker, MARKERS_KEY } from '../../quantized/plan/markers.js';
import { mayBeQuantized } from '../../quantized/plan/plan.js';

/** Quantized weights of one kind. */
interface QuantizedKind {
  readonly scheme: string;
  readonly bits: number;
  readonly block: readonly number[] | null;
  readonly weights: number;
}

/** The logical tensors of a source, counted. */
export interface LogicalCounts {
  readonly tensors: number;
  readonly parameters: number;
  readonly quantized: readonly QuantizedKind[];
  /** Why other weights cannot be dequantized, by their names. */
  readonly problems: Readonly<Record<string, string>>;
}

/** A dequantized view. */
export interface LogicalModel {
  readonly view: AnyCheckpoint;
  readonly tensors: readonly TensorEntry[];
}

/**
 * The dequantized view of a model with these stored tensors; null for one without quantized weights. Reads the
 * configuration when their dtypes let expect any.
 *
 * @throws QuantizationError for a configuration that no tensor can be read by
 */
export async function logicalModel(
  checkpoint: AnyCheckpoint,
  tensors: readonly { readonly dtype: string; readonly name: string }[],
  signal: AbortSignal,
): Promise<LogicalModel | null> {
  if (!mayBeQuantized(tensors)) return null;
  const model = await dequantizedModel(checkpoint, { signal });
  const { view } = model;
  const isAny = model.tensors.some(({ quantization }) => quantization !== undefined);
  const isDeclared = (): boolean =>
    view.quantMethod !== null ||
    checkpoint.metadata?.has(MARKERS_KEY) === true ||
    tensors.some(({ name }) => isMarker(name)) ||
    // Weights of a known layout, in an order that is unknown.
    view.problems.some(({ advice }) => advice?.some(({ option }) => option === 'assume'));
  return isAny || (view.problems.length > 0 && isDeclared()) ? model : null;
}

/** The dequantized view of a model. */
export async function dequantizedModel(
  checkpoint: AnyCheckpoint,
  options: DequantizeOptions & { readonly signal: AbortSignal },
): Promise<LogicalModel> {
  const view = await dequantize(checkpoint, options);
  return { view, tensors: await view.tensors({ signal: options.signal }) };
}

/** Counts the logical tensors. */
export function logicalCounts({ view, tensors }: LogicalModel): LogicalCounts {
  const kinds = new Map<string, QuantizedKind>();
  let parameters = 0;
  for (const { shape, quantization } of tensors) {
    parameters += elementCountOf(shape);
    if (quantization === undefined) continue;
    const { scheme, bits, block } = quantization;
    const key = JSON.stringify([scheme, bits, block]);
    const weights = (kinds.get(key)?.weights ?? 0) + 1;
    kinds.set(key, { scheme, bits, block, weights });
  }
  return {
    ...{ tensors: tensors.length, parameters },
    quantized: [...kinds.values()].sort((a, b) => b.weights - a.weights),
    problems: Object.fromEntries(
      view.problems.map(({ tensor = '', message }) => [tensor, message]),
    ),
  };
}

/**
 * How the quantized weight of that name is stored; undefined when it is not one.
 *
 * @throws QuantizationError for a weight that cannot be dequantized
 */
export function quantizationIn(
  { view, tensors }: LogicalModel,
  name: string,
): Quantization | undefined {
  const problem = view.problems.find(({ tensor }) => tensor === name);
  if (problem !== undefined) throw problem;
  return tensors.find((entry) => entry.name === name)?.quantization;
}

/** Schemes that are named by more than one of their variants. */
const SCHEMES: Readonly<Record<string, string>> = {
  fp8: 'FP8',
  mxfp8: 'MXFP8',
  mxfp4: 'MXFP4',
  nvfp4: 'NVFP4',
  int8: 'INT8',
  'int8-convrot': 'rotated INT8',
  gptq: 'GPTQ',
  awq: 'AWQ',
};

/** The name of a scheme, such as `FP8`. */
export function schemeName(scheme: string): string {
  return SCHEMES[scheme] ?? blockTypeOf(scheme) ?? scheme;
}

/** A kind in words, such as `FP8 in 128 × 128 blocks`. */
export function formatKind({
  scheme,
  bits,
  block,
}: Pick<Quantization, 'scheme' | 'bits' | 'block'>): string {
  const name = schemeName(scheme);
  const width = /\d/.test(name) ? name : `${name} of ${bits} bits`;
  if (block === null) return width;
  const sides = block.filter((length) => length !== 1);
  return sides.length < 2
    ? `${width} in groups of ${sides[0] ?? 1}`
    : `${width} in ${sides.join(' × ')} blocks`;
}
