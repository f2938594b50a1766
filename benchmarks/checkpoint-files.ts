/** The benchmarks' own checkpoints: tensors in shards, and the index that names them. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TensorSpec } from './model.js';

/** Tensors by the name of their shard. */
export type Shards = ReadonlyMap<string, readonly TensorSpec[]>;

/** Tensors of one expert: three matrices in eight bits, each with the scales of its blocks. */
const MATRICES = ['gate_proj', 'up_proj', 'down_proj'];
const EXPERTS = 256;
const PER_LAYER = EXPERTS * MATRICES.length * 2;

function expertTensor(index: number): TensorSpec {
  const layer = Math.floor(index / PER_LAYER);
  const expert = Math.floor((index % PER_LAYER) / (MATRICES.length * 2));
  const name = `model.layers.${layer}.mlp.experts.${expert}.${MATRICES[(index >> 1) % MATRICES.length]}`;
  return index % 2 === 0
    ? { name: `${name}.weight`, dtype: 'F8_E4M3', shape: [8192, 2048], byteLength: 2 ** 24 }
    : { name: `${name}.weight_scale_inv`, dtype: 'F32', shape: [64, 16], byteLength: 4096 };
}

/** So many tensors with names, dtypes and shapes as in a large mixture of experts, in their order. */
export function expertTensors(count: number): TensorSpec[] {
  return Array.from({ length: count }, (_, index) => expertTensor(index));
}

/** Spreads tensors in their order over so many shards, as evenly as by number it goes. */
export function spread(tensors: readonly TensorSpec[], shardCount: number): Shards {
  const digits = (number: number): string => String(number).padStart(5, '0');
  const bound = (shard: number): number => Math.round((shard * tensors.length) / shardCount);
  return new Map(
    Array.from({ length: shardCount }, (_, shard) => [
      `model-${digits(shard + 1)}-of-${digits(shardCount)}.safetensors`,
      tensors.slice(bound(shard), bound(shard + 1)),
    ]),
  );
}

/**
 * Makes the folder with all shards, each written by `write`, and their index, in the order of the names
 * as the Hub's library writes it; gives the path of the index.
 */
export async function writeCheckpoint(
  folder: string,
  shards: Shards,
  write: (path: string, tensors: readonly TensorSpec[]) => Promise<void>,
): Promise<string> {
  await mkdir(folder);
  const shardByName = new Map<string, string>();
  let totalSize = 0;
  for (const [shard, tensors] of shards) {
    await write(join(folder, shard), tensors);
    for (const { name, byteLength } of tensors) {
      shardByName.set(name, shard);
      totalSize += byteLength;
    }
  }
  const weightMap = Object.fromEntries([...shardByName].sort(([a], [b]) => (a < b ? -1 : 1)));
  const index = { metadata: { total_size: totalSize }, weight_map: weightMap };
  const path = join(folder, 'model.safetensors.index.json');
  await writeFile(path, `${JSON.stringify(index, null, 2)}\n`);
  return path;
}
