/** A sharded checkpoint with very many tensors, as of a large mixture of FP8 experts. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TensorSpec } from './model.js';
import { writeSparseModel } from './write-model.js';

/** Tensors of one expert: three matrices, each with the scales of its blocks. */
const MATRICES = ['gate_proj', 'up_proj', 'down_proj'];
const EXPERTS = 256;
const PER_EXPERT = MATRICES.length * 2;

/** Rows and columns of a large matrix: its weights take 16 MiB. */
const MATRIX: readonly [number, number] = [8192, 2048];

/** Rows and columns of its scales. */
const SCALES: readonly [number, number] = [64, 16];

/** The tensor at a position in the order of the modules. */
function expertTensor(index: number, [rows, columns]: readonly [number, number]): TensorSpec {
  const layer = Math.floor(index / (EXPERTS * PER_EXPERT));
  const expert = Math.floor(index / PER_EXPERT) % EXPERTS;
  const name = `model.layers.${layer}.mlp.experts.${expert}.${MATRICES[(index >> 1) % MATRICES.length]}`;
  return index % 2 === 0
    ? {
        name: `${name}.weight`,
        dtype: 'F8_E4M3',
        shape: [rows, columns],
        byteLength: rows * columns,
      }
    : { name: `${name}.weight_scale_inv`, dtype: 'F32', shape: SCALES, byteLength: 4096 };
}

/** How the checkpoint is written. */
interface ExpertOptions {
  /** Rows and columns of a matrix. */
  readonly matrix?: readonly [number, number];
  /** Writes a shard; a hole instead of data by default. */
  readonly write?: (path: string, tensors: readonly TensorSpec[]) => Promise<void>;
}

/**
 * Makes the folder with shards and their index, the names in order as the Hub's library writes them.
 * Gives the path of the index, and the name of a tensor of 4 kB in the last shard.
 */
export async function writeExpertCheckpoint(
  folder: string,
  tensorCount: number,
  shardCount: number,
  { matrix = MATRIX, write = writeSparseModel }: ExpertOptions = {},
): Promise<{ index: string; scales: string }> {
  await mkdir(folder);
  const digits = (number: number): string => String(number).padStart(5, '0');
  const weightMap: [name: string, shard: string][] = [];
  let totalSize = 0;
  for (let shard = 1; shard <= shardCount; shard++) {
    const file = `model-${digits(shard)}-of-${digits(shardCount)}.safetensors`;
    const [begin = 0, end = 0] = [shard - 1, shard].map((number) =>
      Math.round((number * tensorCount) / shardCount),
    );
    const tensors = Array.from({ length: end - begin }, (_, index) =>
      expertTensor(begin + index, matrix),
    );
    await write(join(folder, file), tensors);
    for (const { name, byteLength } of tensors) {
      weightMap.push([name, file]);
      totalSize += byteLength;
    }
  }
  const scales = weightMap.findLast(([name]) => name.endsWith('scale_inv'))?.[0] ?? '';
  const sorted = weightMap.sort(([a], [b]) => (a < b ? -1 : 1));
  const content = { metadata: { total_size: totalSize }, weight_map: Object.fromEntries(sorted) };
  const index = join(folder, 'model.safetensors.index.json');
  await writeFile(index, `${JSON.stringify(content, null, 2)}\n`);
  return { index, scales };
}
