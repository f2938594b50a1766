/** Changes without factors: IA3, whole differences, biases, and what replaces tensors. */

import type { Tensor } from '../../tensor/tensor.js';
import type { Slot, Step, WeightChange } from './change.js';
import { invalidAdapter, shapeMismatch } from './errors.js';
import { valuesOf } from './factors.js';
import type { PartTensor } from './keys.js';
import { type ModuleAdapter, sameShape } from './low-rank.js';
import { addTensor, multiplyColumns, multiplyRows, replaceAll, replaceRows } from './steps.js';

/** How IA3 multiplies. */
export interface Ia3Factors {
  readonly tensor: PartTensor;
  /** Whether factors belong to columns of the matrix. */
  readonly byColumn: boolean;
  /** Turns a trained value into a factor, by the caller's strength. */
  factorOf(trained: number): number;
}

/** IA3: multiplies rows or columns. */
export function ia3Change(
  { strength, context }: ModuleAdapter,
  slot: Slot,
  { tensor: { tensor, key }, byColumn, factorOf }: Ia3Factors,
): WeightChange {
  const count = byColumn ? (slot.shape[1] ?? 1) : slot.rows;
  if (tensor.elementCount !== count) {
    throw shapeMismatch(key, slot.entry.name, slot.shape, context);
  }
  return {
    kind: 'ia3',
    rank: null,
    scale: strength,
    open: () => {
      const factors = valuesOf(tensor).map(factorOf);
      return [(byColumn ? multiplyColumns : multiplyRows)(factors, slot.columns)];
    },
  };
}

/** Adds a tensor of the same shape. */
export function addedTensor(
  kind: 'diff' | 'bias',
  { tensor, key }: PartTensor,
  slot: Slot,
  scale: number,
  { context }: Pick<ModuleAdapter, 'context'>,
): WeightChange {
  requireShape(tensor, key, slot, context.path);
  return { kind, rank: null, scale, open: () => [addTensor(tensor, slot.columns, scale)] };
}

/** Replaces a tensor by one of the same shape. */
export function replacedTensor(
  { tensor, key }: PartTensor,
  slot: Slot,
  path: string | undefined,
): WeightChange {
  requireShape(tensor, key, slot, path);
  return { kind: 'replaced', rank: null, scale: 1, open: () => [replaceAll(tensor, slot.columns)] };
}

/** Replaces rows of an embedding. */
export function replacedTokens(
  { tensor, key }: PartTensor,
  slot: Slot,
  positions: readonly number[],
  path: string | undefined,
): WeightChange {
  const [count = 0, columns = 0] = tensor.shape;
  if (tensor.shape.length !== 2 || columns !== slot.columns) {
    throw shapeMismatch(key, slot.entry.name, slot.shape, { path });
  }
  if (count !== positions.length) {
    const message = `trainable_token_indices lists ${positions.length} rows, but ${key} has ${count}`;
    throw invalidAdapter(message, { path });
  }
  const outside = positions.find((position) => position >= slot.rows);
  if (outside !== undefined) {
    const message = `trainable_token_indices lists row ${outside}, but ${slot.entry.name} has ${slot.rows}`;
    throw invalidAdapter(message, { path });
  }
  const open = (): Step[] => [replaceRows(tensor, columns, positions)];
  return { kind: 'tokens', rank: null, scale: 1, open };
}

function requireShape(tensor: Tensor, key: string, slot: Slot, path: string | undefined): void {
  if (sameShape(tensor.shape, slot.shape)) return;
  throw shapeMismatch(`${key} of shape [${tensor.shape.join(', ')}]`, slot.entry.name, slot.shape, {
    path,
  });
}
