/** A source as its model means it: logical weights in place of codes, scales and zero points. */

import { elementCountOf } from '../../header/tensor-spec.js';
import {
  type DequantizedCheckpoint,
  dequantize,
  type LogicalInfo,
  type LogicalTensor,
  type SliceIndices,
} from '../../index.js';
import { isMarker, MARKERS_KEY } from '../../quantized/plan/markers.js';
import { mayBeQuantized } from '../../quantized/plan/plan.js';
import type { FoundTensor } from './get-tensor.js';
import type { Component, OpenedSource } from './open-source.js';

/** Quantized weights of one kind. */
export interface QuantizedKind {
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

/**
 * The logical tensors of a source with these stored ones; null for one without quantized weights. Reads the
 * configuration beside it when their dtypes let expect any.
 *
 * @throws QuantizationError for a configuration that no tensor can be read by
 */
export async function logicalModel(
  opened: OpenedSource | Component,
  tensors: Iterable<{ readonly dtype: string; readonly name?: string }>,
  signal: AbortSignal,
): Promise<DequantizedCheckpoint | null> {
  if (opened.kind !== 'local' && opened.kind !== 'remote') return null;
  if (!mayBeQuantized(tensors)) return null;
  const model = await dequantize(opened.checkpoint, { signal });
  const isAny = model.keys().some((name) => model.info(name).scheme !== null);
  const isDeclared = (): boolean =>
    model.method !== null ||
    opened.checkpoint.metadata?.has(MARKERS_KEY) === true ||
    [...tensors].some(({ name = '' }) => isMarker(name));
  return isAny || (model.problems.length > 0 && isDeclared()) ? model : null;
}

/** Counts the logical tensors. */
export function logicalCounts(model: DequantizedCheckpoint): LogicalCounts {
  const kinds = new Map<string, QuantizedKind>();
  let parameters = 0;
  for (const name of model.keys()) {
    const { shape, scheme, bits, block } = model.info(name);
    parameters += elementCountOf(shape);
    if (scheme === null) continue;
    const key = JSON.stringify([scheme, bits, block]);
    const weights = (kinds.get(key)?.weights ?? 0) + 1;
    kinds.set(key, { scheme, bits, block, weights });
  }
  return {
    ...{ tensors: model.size, parameters },
    quantized: [...kinds.values()].sort((a, b) => b.weights - a.weights),
    problems: Object.fromEntries(
      model.problems.map(({ tensor = '', message }) => [tensor, message]),
    ),
  };
}

/** The quantized weight of that name; undefined when it is not one. */
export function quantizedWeight(
  model: DequantizedCheckpoint | null,
  name: string,
): LogicalTensor | undefined {
  if (model === null) return undefined;
  const isRefused = model.problems.some(({ tensor }) => tensor === name);
  if (!isRefused && !model.has(name)) return undefined;
  const tensor = model.getTensor(name);
  return tensor.info.scheme === null ? undefined : tensor;
}

/** The weight as a tensor of float32 that can be sliced. */
export function foundWeight(tensor: LogicalTensor, signal: AbortSignal): FoundTensor {
  const slice = async (index: SliceIndices) => await tensor.slice(...(index as []), { signal });
  return { dtype: 'F32', shape: tensor.shape, slice };
}

/** Schemes that are named by more than one of their variants. */
const SCHEMES: Readonly<Record<string, string>> = {
  fp8: 'FP8',
  mxfp8: 'MXFP8',
  mxfp4: 'MXFP4',
  nvfp4: 'NVFP4',
  int8: 'INT8',
  gptq: 'GPTQ',
  awq: 'AWQ',
};

/** The name of a scheme, such as `FP8`. */
export function schemeName(scheme: string): string {
  return SCHEMES[scheme] ?? scheme;
}

/** A kind in words, such as `FP8 in 128 × 128 blocks`. */
export function kindText({
  scheme,
  bits,
  block,
}: Pick<LogicalInfo, 'bits' | 'block'> & { readonly scheme: string | null }): string {
  const name = schemeName(scheme ?? '');
  const width = /\d/.test(name) ? name : `${name} of ${bits} bits`;
  if (block === null) return width;
  const sides = block.filter((length) => length !== 1);
  return sides.length < 2
    ? `${width} in groups of ${sides[0] ?? 1}`
    : `${width} in ${sides.join(' × ')} blocks`;
}
