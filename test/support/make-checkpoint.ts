/** Makes small checkpoints for tests. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach } from 'vitest';
import { type Checkpoint, safeOpen } from './api.js';
import { type Entry, type FileOptions, fileBytes, temporaryPath } from './make-file.js';

/** A folder with an index and its shards. */
export interface CheckpointDescription {
  /** Tensors by shard. */
  readonly shards: Readonly<Record<string, readonly Entry[]>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Instead of the true tensors of the shards. */
  readonly weightMap?: Readonly<Record<string, string>>;
  readonly indexName?: string;
  readonly fileOptions?: FileOptions;
}

/** Writes a file, and the folders that it is in. */
export function writeBelow(folder: string, name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

/** The files of a checkpoint by name: the shards, and the index. */
export function filesOf(description: CheckpointDescription): Map<string, Uint8Array> {
  const weightMap: Record<string, string> = {};
  const files = new Map<string, Uint8Array>();
  for (const [shard, entries] of Object.entries(description.shards)) {
    files.set(shard, fileBytes(entries, description.fileOptions));
    for (const { name } of entries) weightMap[name] = shard;
  }
  const { metadata, indexName = 'model.safetensors.index.json' } = description;
  const index = { metadata, weight_map: description.weightMap ?? weightMap };
  return files.set(indexName, new TextEncoder().encode(JSON.stringify(index)));
}

/** Writes a checkpoint into a folder, a temporary one by default; gives the folder. */
export function writeCheckpoint(
  description: CheckpointDescription,
  folder: string = temporaryPath('checkpoint'),
): string {
  for (const [name, bytes] of filesOf(description)) writeBelow(folder, name, bytes);
  return folder;
}

/** Two small shards. */
export const TWO_SHARDS: CheckpointDescription = {
  metadata: { total_size: 34, 'lm_head.weight': 'embed', 'b.bias': 'embed', lost: 'nowhere' },
  shards: {
    'model-00001-of-00002.safetensors': [
      { name: 'embed', dtype: 'U8', shape: [4, 2] },
      { name: 'a.weight', dtype: 'U8', shape: [2, 5] },
    ],
    'model-00002-of-00002.safetensors': [
      { name: 'b.weight', dtype: 'U16', shape: [2, 3] },
      { name: 'b.bias', dtype: 'U8', shape: [4] },
    ],
  },
};

const opened: Checkpoint[] = [];
afterEach(() => {
  for (const checkpoint of opened.splice(0)) checkpoint.close();
});

/** Opens a checkpoint, which is closed at the end of the test. */
export function openUntilEnd(path: string): Checkpoint {
  const checkpoint = safeOpen(path);
  opened.push(checkpoint);
  return checkpoint;
}
