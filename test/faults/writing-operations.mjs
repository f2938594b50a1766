// Operations that write, by their public entries, on files that are as small as they can be: a name, the preparation
// of the folder, the call, and its needs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import {
  convert,
  createWriter,
  download,
  editMetadata,
  mergeAdapters,
  mergeModels,
  safeOpen,
  saveCheckpoint,
  saveFile,
  serialize,
} from '../../lib/index.js';
import {
  adapterFile,
  BYTE_LENGTH,
  both,
  checkpoint,
  copied,
  empty,
  fetchNew,
  fetchOnce,
  file,
  MERGED_WEIGHT,
  NEW,
  oldFile,
  pathIn,
  pipelineArchive,
  put,
  QUANTIZED,
  QUANTIZED_CONFIG,
  REPOSITORY,
  roomyFile,
  SHARD,
  SMALL_SHARD,
  using,
  WEIGHTS,
} from './material.mjs';

const RUN_ONCE = fileURLToPath(new URL('children/run-once.mjs', import.meta.url));
const INTO_CACHE = 'download into the Hub cache';

async function* piecesOf({ data }) {
  const bytes = new Uint8Array(data.buffer);
  yield bytes.subarray(0, 1000);
  yield bytes.subarray(1000);
}

export const saving = [
  ['saveFile, new', empty, (root) => saveFile(pathIn(root), NEW)],
  ['saveFile', file, (root) => saveFile(pathIn(root), NEW)],
  ['saveFile, not durable', file, (root) => saveFile(pathIn(root), NEW, { durable: false })],
  ['saveFile with digests', file, (root) => saveFile(pathIn(root), NEW, { digests: true })],
  [
    'saveFile of a file',
    both(file, put('source.safetensors', serialize(NEW))),
    (root) =>
      using(safeOpen(join(root, 'source.safetensors')), (opened) => saveFile(pathIn(root), opened)),
  ],
  [
    'saveFile of slices',
    both(file, put('source.safetensors', serialize(NEW))),
    (root) =>
      using(safeOpen(join(root, 'source.safetensors'), { storage: 'read' }), (opened) => {
        const slices = opened.keys().map((name) => [name, opened.getSlice(name, null, [0, 3])]);
        return saveFile(pathIn(root), slices);
      }),
  ],
  [
    'saveFile of streams',
    file,
    (root) => {
      const streams = Object.entries(NEW).map(([name, tensor]) => [
        name,
        { dtype: 'F32', shape: tensor.shape, data: () => piecesOf(tensor) },
      ]);
      return saveFile(pathIn(root), streams);
    },
  ],
  [
    'saveFile through a link',
    both(put('store/model.safetensors', oldFile), (root) =>
      symlinkSync('store/model.safetensors', pathIn(root)),
    ),
    (root) => saveFile(pathIn(root), NEW),
  ],
  [
    'createWriter',
    file,
    async (root) => {
      const specs = Object.entries(NEW).map(([name, { dtype, shape }]) => [name, { dtype, shape }]);
      const writer = await createWriter(pathIn(root), Object.fromEntries(specs));
      try {
        for (const [name, tensor] of Object.entries(NEW)) await writer.write(name, tensor.data);
        await writer.close();
      } finally {
        await writer.abort();
      }
    },
  ],
  [
    'saveCheckpoint, new',
    empty,
    (root) => saveCheckpoint(join(root, 'deep/model'), NEW, SHARD).then(() => {}),
  ],
  [
    'saveCheckpoint, a file to shards',
    checkpoint('model', {}),
    (root) => saveCheckpoint(join(root, 'model'), NEW, SHARD),
  ],
  [
    'saveCheckpoint, shards to shards',
    checkpoint('model', SHARD),
    (root) => saveCheckpoint(join(root, 'model'), NEW, SHARD),
  ],
  [
    'saveCheckpoint, shards to a file',
    checkpoint('model', SMALL_SHARD),
    (root) => saveCheckpoint(join(root, 'model'), NEW),
  ],
];

export const editing = [
  ['editMetadata', file, (root) => editMetadata(pathIn(root), { license: 'mit', format: null })],
  [
    'editMetadata in place',
    put('model.safetensors', roomyFile),
    (root) => editMetadata(pathIn(root), { license: 'mit' }, { inPlace: true }),
  ],
  [
    'editMetadata with digests',
    file,
    (root) => editMetadata(pathIn(root), { license: 'mit' }, { digests: true }),
  ],
];

export const resharding = [
  [
    'reshard',
    both(checkpoint('source', SHARD, NEW), checkpoint('model', SMALL_SHARD)),
    (root) =>
      convert(join(root, 'source'), join(root, 'model'), {
        copyOtherFiles: true,
        maxShardSize: 2.25 * BYTE_LENGTH,
        overwrite: true,
      }),
  ],
  [
    'reshard into itself, cast',
    checkpoint('model', SHARD),
    (root) =>
      convert(join(root, 'model'), join(root, 'model'), {
        dtype: 'BF16',
        maxShardSize: BYTE_LENGTH,
      }),
  ],
  [
    'reshard into itself, dequantized',
    both(
      checkpoint('model', SHARD, QUANTIZED),
      put('model/config.json', QUANTIZED_CONFIG),
      put('model/quantize_config.json', '{}'),
    ),
    (root) =>
      convert(join(root, 'model'), join(root, 'model'), {
        dequantize: 'F16',
        maxShardSize: BYTE_LENGTH,
      }),
  ],
];

const source = checkpoint('source', SMALL_SHARD);

/** Merges the open source and another file, and saves the view. */
const merged = (root, other, merge, save) =>
  using(safeOpen(join(root, 'source')), (base) =>
    using(safeOpen(join(root, other)), async (opened) => save(await merge(base, opened))),
  );

export const merging = [
  [
    'saveCheckpoint of a merged adapter',
    both(
      checkpoint('source', SMALL_SHARD, WEIGHTS),
      put('adapter.safetensors', adapterFile),
      checkpoint('model', SHARD),
    ),
    (root) =>
      merged(
        root,
        'adapter.safetensors',
        (base, source) => mergeAdapters(base, [{ source, scale: MERGED_WEIGHT }]),
        (view) => saveCheckpoint(join(root, 'model'), view, SHARD),
      ),
  ],
  [
    'saveCheckpoint of merged models',
    both(source, put('other.safetensors', serialize(NEW)), checkpoint('model', SMALL_SHARD)),
    (root) =>
      merged(
        root,
        'other.safetensors',
        (base, source) => {
          const models = [{ source, weight: MERGED_WEIGHT, density: 0.7 }];
          return mergeModels({ method: 'ties', base, normalize: false, models });
        },
        (view) => saveCheckpoint(join(root, 'model'), view, SHARD),
      ),
  ],
  [
    'saveFile of merged models',
    both(source, put('other.safetensors', serialize(NEW)), file),
    (root) =>
      merged(
        root,
        'other.safetensors',
        (base, source) => {
          const models = [{ source, weight: MERGED_WEIGHT, density: 0.7 }];
          return mergeModels({ method: 'dare_linear', base, models });
        },
        (view) => saveFile(pathIn(root), view),
      ),
  ],
];

export const converting = [
  [
    'convert to a file, verified',
    both(copied('torch/zip-all-dtypes.pt'), file),
    (root) => convert(join(root, 'zip-all-dtypes.pt'), pathIn(root), { overwrite: true }),
  ],
  [
    'convert to a folder',
    both(copied('torch/np-savez.npz'), checkpoint('model', SHARD)),
    (root) =>
      convert(join(root, 'np-savez.npz'), join(root, 'model'), {
        maxShardSize: 100,
        overwrite: true,
      }),
  ],
  [
    'convert of GGUF, dequantized',
    both(copied('gguf/q8_0/model.gguf'), file),
    (root) =>
      convert(join(root, 'model.gguf'), pathIn(root), { dequantize: 'F16', overwrite: true }),
  ],
  [
    'convert of a distributed checkpoint',
    both(copied('dcp/dcp-single/ckpt'), checkpoint('model', SHARD)),
    (root) =>
      convert(join(root, 'ckpt'), join(root, 'model'), { maxShardSize: 100, overwrite: true }),
  ],
  [
    'convert of a pipeline in an archive',
    both(
      put('source.dduf', pipelineArchive),
      checkpoint('model/unet', SMALL_SHARD),
      put('model/model_index.json', '{"old":1}'),
    ),
    (root) =>
      convert(join(root, 'source.dduf'), join(root, 'model'), { ...SHARD, overwrite: true }),
  ],
];

export const downloading = [
  [
    'download of a file',
    file,
    (root) =>
      download('https://models.example/new.safetensors', pathIn(root), {
        fetch: fetchNew,
        overwrite: true,
      }),
  ],
  [
    'download of tensors',
    file,
    (root) =>
      download('https://models.example/new.safetensors', pathIn(root), {
        fetch: fetchNew,
        overwrite: true,
        names: ['b', 'd'],
      }),
  ],
  [
    'download of a folder',
    checkpoint('model', SMALL_SHARD),
    (root) =>
      download(`hf://${REPOSITORY}`, join(root, 'model'), { fetch: fetchOnce, overwrite: true }),
    'hub',
  ],
  [
    'download of a folder, repaired',
    checkpoint('model', SMALL_SHARD),
    (root) =>
      download(`hf://${REPOSITORY}`, join(root, 'model'), { fetch: fetchOnce, repair: true }),
    'hub',
  ],
  [
    INTO_CACHE,
    (root) => mkdirSync(join(root, 'cache')),
    (root) => {
      process.env.HF_HUB_CACHE = join(root, 'cache');
      return download(`hf://${REPOSITORY}`, 'cache', { fetch: fetchOnce });
    },
    'hub',
  ],
  [
    'download into the Hub cache, repaired',
    damagedCache,
    (root) => {
      process.env.HF_HUB_CACHE = join(root, 'cache');
      return download(`hf://${REPOSITORY}`, 'cache', { fetch: fetchOnce, repair: true });
    },
    'hub',
  ],
];

/**
 * A downloaded repository in the Hub cache whose weights have other bytes of the same length. Another process
 * downloads it: the other lane of this one sets another cache in between.
 */
async function damagedCache(root) {
  const cache = join(root, 'cache');
  mkdirSync(cache);
  const child = spawn(process.execPath, [RUN_ONCE, INTO_CACHE, root], { stdio: 'inherit' });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${INTO_CACHE} ended with ${code}`);
  const snapshots = join(cache, 'models--org--model/snapshots');
  const [commit] = readdirSync(snapshots);
  const weights = join(snapshots, commit, 'part/model-00002-of-00002.safetensors');
  const bytes = readFileSync(weights);
  bytes[bytes.length - 1] ^= 1;
  writeFileSync(weights, bytes);
}
