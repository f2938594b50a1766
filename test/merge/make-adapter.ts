/** Makes bases and adapters in memory, and the naive formulas that merged weights are compared with. */
import { expect } from 'vitest';
import {
  type AdapterInput,
  type Checkpoint,
  fromFloat32,
  type MergedInfo,
  mergeAdapters,
  parse,
  type Source,
  serialize,
} from '../support/api.js';
import type { Random } from '../support/random.js';

/** A tensor of float32 values. */
export interface Values {
  readonly shape: readonly number[];
  readonly values: Float32Array<ArrayBuffer>;
}

export type Tensors = Readonly<Record<string, Values>>;

const PEFT = 'base_model.model.';

/** Values from -1 to 1. */
export function random(generator: Random, ...shape: readonly number[]): Values {
  const length = shape.reduce((product, size) => product * size, 1);
  const values = Float32Array.from({ length }, () => generator.from(-1000, 1000) / 1000);
  return { shape, values };
}

export function valuesOf(shape: readonly number[], values: Iterable<number>): Values {
  return { shape, values: Float32Array.from(values) };
}

/** A checkpoint in memory. */
export function checkpoint(
  tensors: Tensors,
  dtype: 'F32' | 'BF16' | 'F16' = 'F32',
  metadata: Readonly<Record<string, string>> = {},
): Checkpoint {
  const entries = Object.entries(tensors).map(([name, { shape, values }]) => {
    return [name, { dtype, shape, data: fromFloat32(values, dtype) }] as const;
  });
  return parse(serialize(new Map(entries) as never, { metadata }));
}

/** A PEFT adapter, with the prefix of its keys. */
export function peft(
  tensors: Tensors,
  config: Readonly<Record<string, unknown>> = {},
): AdapterInput<Source> {
  const prefixed = Object.entries(tensors).map(([name, tensor]) => [PEFT + name, tensor]);
  return {
    source: checkpoint(Object.fromEntries(prefixed)),
    config: { peft_type: 'LORA', r: 2, lora_alpha: 4, ...config },
  };
}

/** Merges into a base of F32 or another dtype. */
export async function merged(
  base: Tensors,
  adapter: AdapterInput<Source>,
  dtype: 'F32' | 'BF16' | 'F16' = 'F32',
): Promise<Checkpoint & MergedInfo> {
  return await mergeAdapters(checkpoint(base, dtype), [adapter]);
}

/** Element [i, j] of a product of `[n, r]` and `[r, m]`, whatever other dimensions of 1 there are. */
export function product(left: Values, right: Values): (i: number, j: number) => number {
  const rank = right.shape[0] as number;
  const columns = right.values.length / rank;
  return (i, j) => {
    let sum = 0;
    for (let k = 0; k < rank; k++) {
      sum += (left.values[i * rank + k] as number) * (right.values[k * columns + j] as number);
    }
    return sum;
  };
}

/** The values of a weight whose elements `change` computes from the old ones. */
export function changed(
  { shape, values }: Values,
  change: (value: number, row: number, column: number) => number,
): number[] {
  const columns = values.length / (shape[0] as number);
  return Array.from(values, (value, i) => change(value, Math.floor(i / columns), i % columns));
}

/** Expects a weight of F32 within 3e-7 of its largest value. */
export function expectValues(model: Checkpoint, name: string, expected: readonly number[]): void {
  const found = model.getTensor(name).toFloat32();
  expect(found.length).toBe(expected.length);
  const tolerance = 3e-7 * Math.max(...expected.map(Math.abs), 1e-30);
  for (const [i, value] of expected.entries()) {
    const difference = Math.abs((found[i] as number) - value);
    if (!(difference <= tolerance)) expect.fail(`${name}[${i}] is ${found[i]}, not ${value}`);
  }
}
