// What is done while calls fail, while the power goes and while processes are killed: every operation that reads
// or writes files, by its public entry, on files that are as small as they can be.
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import {
  createWriter,
  editMetadata,
  loadCheckpoint,
  loadFile,
  openCheckpoint,
  openCheckpointAsync,
  reshard,
  safeOpen,
  safeOpenAsync,
  saveCheckpoint,
  saveFile,
  saveFileSync,
  serialize,
} from '../../lib/index.js';
import {
  BYTE_LENGTH,
  both,
  checkpoint,
  copied,
  empty,
  fetchNew,
  fetchOnce,
  file,
  NEW,
  oldFile,
  put,
  REPOSITORY,
  roomyFile,
  SHARD,
  SMALL_SHARD,
} from './material.mjs';

/** Loads what a group needs beside the core, so that processes for others start sooner. */
export async function load(group) {
  if (group === 'open' || group === 'convert') await import('../../lib/convert.js');
  if (group === 'download') await import('../../lib/remote.js');
}

async function convert(...args) {
  return (await import('../../lib/convert.js')).convert(...args);
}

async function download(...args) {
  return (await import('../../lib/remote.js')).download(...args);
}

const pathIn = (root) => join(root, 'model.safetensors');
const values = (tensors) => Array.from(tensors, ([name, { bytes }]) => [name, [...bytes].join()]);

async function* piecesOf({ data }) {
  const bytes = new Uint8Array(data.buffer);
  yield bytes.subarray(0, 1000);
  yield bytes.subarray(1000);
}

/** Uses what was opened, and lets all of it go. */
async function using(opened, use) {
  try {
    return await use(opened);
  } finally {
    opened.close({ detach: true });
  }
}

const opening = [
  ['safeOpen', file, (root) => using(safeOpen(pathIn(root)), (opened) => opened.keys())],
  [
    'safeOpenAsync',
    file,
    async (root) => using(await safeOpenAsync(pathIn(root)), (opened) => opened.keys()),
  ],
  [
    'openCheckpoint',
    checkpoint('model', SHARD),
    (root) =>
      using(openCheckpoint(join(root, 'model')), (opened) => [
        opened.keys(),
        opened.summary(),
        values(opened.getTensors()),
      ]),
  ],
  [
    'openCheckpointAsync',
    checkpoint('model', SHARD),
    async (root) =>
      using(await openCheckpointAsync(join(root, 'model')), (opened) => opened.summary()),
  ],
  [
    'openTorchCheckpoint',
    copied('zip-all-dtypes.pt'),
    async (root) =>
      using(
        (await import('../../lib/convert.js')).openTorchCheckpoint(join(root, 'zip-all-dtypes.pt')),
        (opened) => values(opened.keys().map((name) => [name, opened.getTensor(name)])),
      ),
  ],
  [
    'openNumpy',
    copied('np-savez.npz'),
    async (root) =>
      using(
        (await import('../../lib/convert.js')).openNumpy(join(root, 'np-savez.npz')),
        (opened) => values(opened.keys().map((name) => [name, opened.getTensor(name)])),
      ),
  ],
  [
    'scanPickle',
    copied('zip-all-dtypes.pt'),
    async (root) =>
      (await import('../../lib/convert.js')).scanPickle(join(root, 'zip-all-dtypes.pt')).verdict,
  ],
];

const mapping = [
  [
    'mapped tensors',
    file,
    (root) =>
      using(safeOpen(pathIn(root)), (opened) => [
        opened.storage,
        values(opened.getTensors()),
        opened.ok,
        opened.residency(),
      ]),
  ],
  [
    'prefetch',
    file,
    (root) =>
      using(safeOpen(pathIn(root)), async (opened) => {
        await opened.prefetch();
        return values(opened.getTensors());
      }),
  ],
  [
    'stream',
    file,
    (root) =>
      using(safeOpen(pathIn(root)), async (opened) => {
        const found = [];
        for await (const each of opened.stream()) found.push(...values([each]));
        return found;
      }),
  ],
  [
    'take and convert',
    file,
    (root) =>
      using(safeOpen(pathIn(root)), async (opened) => {
        const rows = await opened.getTensor('a').takeAsync([3, 0]);
        const floats = await opened.getTensor('b').toFloat32Async();
        return [[...rows.bytes], [...floats]];
      }),
  ],
];

const reading = [
  [
    'read tensors',
    file,
    (root) =>
      using(safeOpen(pathIn(root), { storage: 'read' }), (opened) => values(opened.getTensors())),
  ],
  [
    'load',
    file,
    (root) => using(safeOpen(pathIn(root)), async (opened) => values(await opened.load())),
  ],
  [
    'loadFile',
    file,
    (root) => {
      const tensors = loadFile(pathIn(root), { storage: 'read' });
      return values(tensors);
    },
  ],
  [
    'loadCheckpoint',
    checkpoint('model', SHARD),
    (root) => values(loadCheckpoint(join(root, 'model'), { storage: 'read' })),
  ],
];

const verifying = [
  [
    'verify',
    checkpoint('model', SHARD),
    (root) => using(openCheckpoint(join(root, 'model')), (opened) => opened.verify()),
  ],
];

const saving = [
  ['saveFile, new', empty, (root) => saveFile(pathIn(root), NEW)],
  ['saveFile', file, (root) => saveFile(pathIn(root), NEW)],
  ['saveFile, not durable', file, (root) => saveFile(pathIn(root), NEW, { durable: false })],
  ['saveFileSync', file, async (root) => saveFileSync(pathIn(root), NEW)],
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

const editing = [
  ['editMetadata', file, (root) => editMetadata(pathIn(root), { license: 'mit', format: null })],
  [
    'editMetadata in place',
    put('model.safetensors', roomyFile),
    (root) => editMetadata(pathIn(root), { license: 'mit' }, { inPlace: true }),
  ],
];

const resharding = [
  [
    'reshard',
    both(checkpoint('source', SHARD, NEW), checkpoint('model', SMALL_SHARD)),
    (root) =>
      reshard(join(root, 'source'), join(root, 'model'), {
        copyOtherFiles: true,
        maxShardSize: 2.25 * BYTE_LENGTH,
      }),
  ],
  [
    'reshard into itself, cast',
    checkpoint('model', SHARD),
    (root) =>
      reshard(join(root, 'model'), join(root, 'model'), {
        dtype: 'BF16',
        maxShardSize: BYTE_LENGTH,
      }),
  ],
];

const converting = [
  [
    'convert to a file, verified',
    both(copied('zip-all-dtypes.pt'), file),
    (root) => convert(join(root, 'zip-all-dtypes.pt'), pathIn(root), { verify: true }),
  ],
  [
    'convert to a folder',
    both(copied('np-savez.npz'), checkpoint('model', SHARD)),
    (root) => convert(join(root, 'np-savez.npz'), join(root, 'model'), { maxShardSize: 100 }),
  ],
];

const downloading = [
  [
    'download of a file',
    file,
    (root) => download('https://models.example/new.safetensors', pathIn(root), { fetch: fetchNew }),
  ],
  [
    'download of tensors',
    file,
    (root) =>
      download('https://models.example/new.safetensors', pathIn(root), {
        fetch: fetchNew,
        names: ['b', 'd'],
      }),
  ],
  [
    'download of a folder',
    checkpoint('model', SMALL_SHARD),
    (root) => download(`hf://${REPOSITORY}`, join(root, 'model'), { fetch: fetchOnce }),
    'hub',
  ],
  [
    "download into the Hub's cache",
    (root) => mkdirSync(join(root, 'cache')),
    (root) => {
      process.env.HF_HUB_CACHE = join(root, 'cache');
      return download(`hf://${REPOSITORY}`, 'cache', { fetch: fetchOnce });
    },
    'hub',
  ],
];

/** Those whose target is the folder of a checkpoint. */
const CHECKPOINTS = /^(?:saveCheckpoint|reshard|convert to a folder|download of a folder)/;

/** Groups that write. */
const WRITING = ['save', 'edit', 'reshard', 'convert', 'download'];

/** All operations: what they belong to, how the folder is made, what is done, and what it needs. */
export const OPERATIONS = Object.entries({
  open: opening,
  map: mapping,
  read: reading,
  verify: verifying,
  save: saving,
  edit: editing,
  reshard: resharding,
  convert: converting,
  download: downloading,
}).flatMap(([group, operations]) =>
  operations.map(([name, make, run, needs]) => {
    const isCheckpoint = CHECKPOINTS.test(name);
    const isWriting = WRITING.includes(group);
    const isDurable = isWriting && !name.endsWith('not durable');
    return { group, name, make, run, needs, isCheckpoint, isWriting, isDurable };
  }),
);
