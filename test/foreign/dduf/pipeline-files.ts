/** The files of a pipeline of diffusers: two shards with an index, a model with a variant, a folder without weights. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeBelow } from '../../support/make-checkpoint.js';
import { countedBytes, fileBytes, temporaryPath } from '../../support/make-file.js';
import { MODEL_INDEX } from '../../support/model-index.js';
import { storedArchive } from '../stored-archive.js';

type Files = Readonly<Record<string, string | Uint8Array>>;

export const UNET: Uint8Array = fileBytes([
  { name: 'wide', dtype: 'F32', shape: [300, 4], bytes: countedBytes(4800) },
  { name: 'odd', dtype: 'U8', shape: [3], bytes: Buffer.from('odd') },
]);

const INDEX = {
  metadata: { total_size: 8 },
  weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
};

export const FILES = {
  'model_index.json': MODEL_INDEX,
  'scheduler/scheduler_config.json': '{}',
  'text_encoder/config.json': '{}',
  'text_encoder/model-00001-of-00002.safetensors': fileBytes([
    { name: 'a', dtype: 'U8', shape: [4] },
  ]),
  'text_encoder/model-00002-of-00002.safetensors': fileBytes([
    { name: 'b', dtype: 'U8', shape: [4] },
  ]),
  'text_encoder/model.safetensors.index.json': JSON.stringify(INDEX),
  'unet/config.json': '{}',
  'unet/diffusion_pytorch_model.safetensors': UNET,
  'unet/diffusion_pytorch_model.fp16.safetensors': fileBytes([
    { name: 'half', dtype: 'U8', shape: [4] },
  ]),
} satisfies Readonly<Record<string, string | Uint8Array>>;

let count = 0;

export function archiveOf(files: Files): string {
  const path = temporaryPath(`pipeline-${count++}.dduf`);
  writeFileSync(path, storedArchive(files));
  return path;
}

export function folderOf(files: Files): string {
  const folder = temporaryPath(`pipeline-${count++}`);
  for (const [name, content] of Object.entries(files)) writeBelow(folder, name, content);
  return folder;
}

/** All files below a folder, as text, by their paths in it. */
export function contentsOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true }) as string[];
  const files = names.filter((name) => statSync(join(folder, name)).isFile()).sort();
  return Object.fromEntries(
    files.map((name) => [name, readFileSync(join(folder, name)).toString('hex')]),
  );
}
