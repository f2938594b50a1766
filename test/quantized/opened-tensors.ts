/** Opens a few tensors in memory as a quantized checkpoint. */
import { expect } from 'vitest';
import {
  type Checkpoint,
  dequantized,
  parse,
  type Quantization,
  type SafetensorsError,
  serialize,
} from '../support/api.js';
import { bytesOf, type Content, type MadeTensor } from './generated-tensors.js';

/** Tensors of a module `m`: dtype, shape, and perhaps what they hold. */
export type Tensors = Readonly<
  Record<string, readonly [MadeTensor['dtype'], readonly number[], Content?]>
>;

/** A file in memory. */
export function fileOf(
  tensors: Tensors,
  metadata: Readonly<Record<string, string>> = {},
): Checkpoint {
  return parse(bytesOfFile(tensors, metadata));
}

/** The bytes of a file. */
export function bytesOfFile(
  tensors: Tensors,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array<ArrayBuffer> {
  const entries = Object.entries(tensors).map(([name, [dtype, shape, content = 'random']]) => {
    const data = bytesOf({ dtype, shape, content }, 1);
    return [name, { dtype, shape, data }] as const;
  });
  return serialize(new Map(entries), { metadata });
}

/** The dequantized view. */
export const open = (tensors: Tensors, config?: unknown): Promise<Checkpoint> =>
  dequantized(fileOf(tensors), { config });

/** Info about a quantized weight. */
export interface WeightInfo extends Quantization {
  readonly shape: readonly number[];
}

/** Info about the only tensor, a quantized weight. */
export async function infoOf(
  tensors: Tensors,
  config?: unknown,
  name = 'm.weight',
): Promise<WeightInfo> {
  const model = await open(tensors, config);
  expect(model.problems).toEqual([]);
  expect(model.keys()).toEqual([name]);
  const { dtype, shape, quantization } = model.info(name);
  expect(dtype).toBe('F32');
  return { shape, ...(quantization as Quantization) };
}

/** The code and the message of the only problem, without its beginning. */
export async function problemOf(
  tensors: Tensors,
  config?: unknown,
  name = 'm.weight',
): Promise<string> {
  const model = await open(tensors, config);
  expect(model.problems.map((problem) => problem.tensor)).toEqual([name]);
  expect(model.has(name)).toBe(false);
  const [problem] = model.problems as [SafetensorsError];
  expect(() => model.getTensor(name)).toThrow(problem);
  expect(() => model.info(name)).toThrow(problem);
  const kind = problem.code.replace('SAFETENSORS_QUANTIZATION_', '');
  return `${kind}: ${problem.message.replace(/^tensor "[^"]*": /, '')}`;
}

/** A configuration. */
export const quantization = (fields: object): unknown => ({ quantization_config: fields });
/** A configuration of FP8. */
export const fp8 = (fields: object = {}): unknown =>
  quantization({ quant_method: 'fp8', ...fields });
/** A configuration of compressed-tensors with one group. */
export const group = (weights: object, more: object = {}): unknown =>
  quantization({
    quant_method: 'compressed-tensors',
    config_groups: { group_0: { targets: ['Linear'], weights } },
    ...more,
  });

/** Rows of a tensor, which run along its last dimension. */
export function rowCountOf({ shape }: { readonly shape: readonly number[] }): number {
  return shape.slice(0, -1).reduce((product, size) => product * size, 1);
}
