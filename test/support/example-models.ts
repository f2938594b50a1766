/**
 * The checkpoints that examples read.
 *
 * The folder of every example has two fixtures, which hold the same tensors:
 * `model.safetensors`, with the metadata `format: pt`, and `my-model`, a folder of two shards with
 * an index and a config. At the Hub the repository `org/name` has what `my-model` has.
 * `embed.weight` is BF16 of shape [8, 4] and counts 0, 0.25, 0.5 …; `norm.weight` is F32 of shape [4] and all
 * zeros. `model.ckpt` is a PyTorch checkpoint, whose state dict has `w`, F32 of shape [2, 3], and `b`, F32 of
 * shape [2]; `stranger.pt` is one that would run a command, and `torch-model` has one in two shards with a config;
 * `arrays.npz` has NumPy arrays, `model.gguf` blocks of Q4_0, `distributed` the pieces of two ranks; `quantized` has
 * `up_proj.weight`, FP8 of shape [4, 8] in blocks of 2 × 4, whose rows count 0, 0.25 … and begin 0.5 higher each, and
 * `norm.weight`. `my-adapter` is a PEFT LoRA that adds 1 to the first row of `embed.weight`. `my-pipeline`, at the Hub
 * `org/pipeline`, is a Diffusers pipeline: the same tensors in `text_encoder` and `unet`, also as the variant `fp16`;
 * `pipeline.dduf` is its archive.
 */
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { storedArchive } from '../foreign/stored-archive.js';
import { fromFloat32 } from './api.js';
import { writeBelow, writeCheckpoint } from './make-checkpoint.js';
import { type Entry, fileBytes } from './make-file.js';
import { MODEL_INDEX } from './model-index.js';

const TENSORS: readonly Entry[] = [
  {
    name: 'embed.weight',
    dtype: 'BF16',
    shape: [8, 4],
    bytes: new Uint8Array(
      fromFloat32(
        Float32Array.from({ length: 32 }, (_, i) => i / 4),
        'BF16',
      ).buffer,
    ),
  },
  { name: 'norm.weight', dtype: 'F32', shape: [4], bytes: new Uint8Array(16) },
];

const BLOCKS: readonly Entry[] = [
  {
    name: 'up_proj.weight',
    dtype: 'F8_E4M3',
    shape: [4, 8],
    bytes: new Uint8Array(
      fromFloat32(
        Float32Array.from({ length: 32 }, (_, i) => (i % 8) + 2 * Math.floor(i / 8)),
        'F8_E4M3',
      ).buffer,
    ),
  },
  {
    name: 'up_proj.weight_scale_inv',
    dtype: 'F32',
    shape: [2, 2],
    bytes: new Uint8Array(Float32Array.of(0.25, 0.25, 0.25, 0.25).buffer),
  },
  { name: 'norm.weight', dtype: 'F32', shape: [4], bytes: new Uint8Array(16) },
];

const ADAPTER: readonly Entry[] = [
  {
    name: 'base_model.model.embed.lora_A.weight',
    dtype: 'F32',
    shape: [1, 4],
    bytes: new Uint8Array(Float32Array.of(1, 1, 1, 1).buffer),
  },
  {
    name: 'base_model.model.embed.lora_B.weight',
    dtype: 'F32',
    shape: [8, 1],
    bytes: new Uint8Array(Float32Array.of(0.5, 0, 0, 0, 0, 0, 0, 0).buffer),
  },
];

const ADAPTER_CONFIG = { peft_type: 'LORA', r: 1, lora_alpha: 2, target_modules: ['embed'] };

const BLOCKS_CONFIG = { quant_method: 'fp8', weight_block_size: [2, 4] };

/** The files of a pipeline. */
const PIPELINE: Readonly<Record<string, string | Uint8Array>> = {
  'model_index.json': MODEL_INDEX,
  'scheduler/scheduler_config.json': '{}',
  'text_encoder/config.json': '{}',
  'text_encoder/model.safetensors': fileBytes(TENSORS.toReversed()),
  'unet/config.json': '{}',
  'unet/diffusion_pytorch_model.fp16.safetensors': fileBytes(TENSORS.toReversed()),
  'unet/diffusion_pytorch_model.safetensors': fileBytes(TENSORS.toReversed()),
};

/** Makes a folder with the fixtures. */
export function writeModels(folder: string): void {
  mkdirSync(folder);
  writeFileSync(
    join(folder, 'model.safetensors'),
    // In the order of every writer that sorts by dtype, as the reference does.
    fileBytes(TENSORS.toReversed(), { metadata: { format: 'pt' } }),
  );
  const [embed, norm] = TENSORS.map((tensor) => [tensor]);
  const shards = {
    'model-00001-of-00002.safetensors': embed ?? [],
    'model-00002-of-00002.safetensors': norm ?? [],
  };
  writeCheckpoint({ metadata: { total_size: 80 }, shards }, join(folder, 'my-model'));
  writeFileSync(join(folder, 'my-model/config.json'), '{"model_type":"example"}');
  mkdirSync(join(folder, 'quantized'));
  writeFileSync(join(folder, 'quantized/model.safetensors'), fileBytes(BLOCKS));
  writeFileSync(
    join(folder, 'quantized/config.json'),
    JSON.stringify({ quantization_config: BLOCKS_CONFIG }),
  );
  mkdirSync(join(folder, 'my-adapter'));
  writeFileSync(join(folder, 'my-adapter/adapter_model.safetensors'), fileBytes(ADAPTER));
  writeFileSync(join(folder, 'my-adapter/adapter_config.json'), JSON.stringify(ADAPTER_CONFIG));
  const torch = fileURLToPath(new URL('../fixtures/torch/', import.meta.url));
  cpSync(join(torch, 'zip-lightning.ckpt'), join(folder, 'model.ckpt'));
  cpSync(join(torch, 'evil-os-system.pt'), join(folder, 'stranger.pt'));
  cpSync(join(torch, 'np-savez.npz'), join(folder, 'arrays.npz'));
  cpSync(join(torch, '../gguf/q4_0/model.gguf'), join(folder, 'model.gguf'));
  cpSync(join(torch, '../dcp/dcp-hf-two-ranks/ckpt'), join(folder, 'distributed'), {
    recursive: true,
  });
  const [first, second] = [1, 2].map((shard) => `pytorch_model-0000${shard}-of-00002.bin`);
  cpSync(join(torch, 'zip-state-dict.pt'), join(folder, 'torch-model', `${first}`));
  cpSync(join(torch, 'zip-rezipped.pt'), join(folder, 'torch-model', `${second}`));
  writeFileSync(
    join(folder, 'torch-model/pytorch_model.bin.index.json'),
    JSON.stringify({ weight_map: { 'l1.weight': first, w: second } }),
  );
  writeFileSync(join(folder, 'torch-model/config.json'), '{}');
  for (const [path, content] of Object.entries(PIPELINE)) {
    writeBelow(join(folder, 'my-pipeline'), path, content);
  }
  writeFileSync(join(folder, 'pipeline.dduf'), storedArchive(PIPELINE));
}

/** Makes the folder `resolve/main` of a repository one that the Hub lists and pins by a commit. */
export function writeHubLists(models: string, id: string): void {
  const commit = '1'.repeat(40);
  const files = join(models, id, 'resolve/main');
  symlinkSync(files, join(models, id, 'resolve', commit), 'dir');
  const entries = readdirSync(files, { recursive: true, withFileTypes: true }).map((entry) => {
    const path = relative(files, join(entry.parentPath, entry.name)).replaceAll('\\', '/');
    if (entry.isDirectory()) return { type: 'directory', size: 0, path };
    const bytes = readFileSync(join(files, path));
    const hash = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes);
    return { type: 'file', size: bytes.length, oid: hash.digest('hex'), path };
  });
  const tree = `api/models/${id}/tree`;
  for (const name of ['main', commit])
    writeBelow(models, `${tree}/${name}`, JSON.stringify(entries));
  writeBelow(models, `api/models/${id}/revision/main`, JSON.stringify({ sha: commit }));
}
