/** Checkpoints of more shards than a process has descriptors. */
import { serialize } from './api.js';
import { writeBelow } from './make-checkpoint.js';
import { temporaryPath } from './make-file.js';

/** Writes a checkpoint of shards with one tensor each, whose value is its number; returns its folder. */
export function writeShards(count: number): string {
  const folder = temporaryPath('shards');
  const weightMap: Record<string, string> = {};
  const pad = (number: number): string => `${number}`.padStart(5, '0');
  for (let i = 0; i < count; i++) {
    const name = `model-${pad(i + 1)}-of-${pad(count)}.safetensors`;
    weightMap[`t${i}`] = name;
    writeBelow(folder, name, shardOf(i, i));
  }
  const index = JSON.stringify({ metadata: {}, weight_map: weightMap });
  writeBelow(folder, 'model.safetensors.index.json', index);
  return folder;
}

/** A shard with one tensor. */
export function shardOf(number: number, value: number): Uint8Array {
  const data = new Float32Array([value]);
  return serialize({ [`t${number}`]: { dtype: 'F32', shape: [1], data } });
}
