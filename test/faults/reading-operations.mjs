// Operations that read, by their public entries, on files that are as small as they can be: a name, the preparation
// of the folder, the call.
import { join } from 'node:path';
import { loadFile, open, safeOpen, safeOpenAsync, scanPickle, verify } from '../../lib/index.js';
import { checkpoint, copied, file, pathIn, SHARD, using } from './material.mjs';

const values = (tensors) => Array.from(tensors, ([name, { bytes }]) => [name, [...bytes].join()]);

export const opening = [
  ['safeOpen', file, (root) => using(safeOpen(pathIn(root)), (opened) => opened.keys())],
  [
    'safeOpenAsync',
    file,
    async (root) => using(await safeOpenAsync(pathIn(root)), (opened) => opened.keys()),
  ],
  [
    'safeOpen',
    checkpoint('model', SHARD),
    (root) =>
      using(safeOpen(join(root, 'model')), async (opened) => [
        opened.keys(),
        await opened.summary(),
        values(opened.getTensors()),
      ]),
  ],
  [
    'safeOpenAsync',
    checkpoint('model', SHARD),
    async (root) => using(await safeOpenAsync(join(root, 'model')), (opened) => opened.summary()),
  ],
  [
    'open of torch',
    copied('torch/zip-all-dtypes.pt'),
    async (root) =>
      using(await open(join(root, 'zip-all-dtypes.pt')), (opened) =>
        values(opened.keys().map((name) => [name, opened.getTensor(name)])),
      ),
  ],
  [
    'open of NumPy',
    copied('torch/np-savez.npz'),
    async (root) =>
      using(await open(join(root, 'np-savez.npz')), (opened) =>
        values(opened.keys().map((name) => [name, opened.getTensor(name)])),
      ),
  ],
  [
    'open of GGUF',
    copied('gguf/q8_0/model.gguf'),
    async (root) =>
      using(await open(join(root, 'model.gguf')), (opened) =>
        values(opened.keys().map((name) => [name, opened.getTensor(name)])),
      ),
  ],
  [
    'open of a distributed checkpoint',
    copied('dcp/dcp-hf-two-ranks/ckpt'),
    async (root) =>
      using(await open(join(root, 'ckpt')), async (opened) => values(await opened.readTensors())),
  ],
  [
    'scanPickle',
    copied('torch/zip-all-dtypes.pt'),
    async (root) => (await scanPickle(join(root, 'zip-all-dtypes.pt'))).verdict,
  ],
];

export const mapping = [
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

export const reading = [
  [
    'read tensors',
    file,
    (root) =>
      using(safeOpen(pathIn(root), { storage: 'read' }), (opened) => values(opened.getTensors())),
  ],
  [
    'load',
    file,
    (root) => using(safeOpen(pathIn(root)), async (opened) => values(await opened.readTensors())),
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
    'loadFile',
    checkpoint('model', SHARD),
    (root) => values(loadFile(join(root, 'model'), { storage: 'read' })),
  ],
];

/** Throws for unreadable files, which a report lists as problems. */
function soundReport({ checks, problems }, path) {
  if (problems.length > 0) throw Object.assign(new Error('problems'), { path, problems });
  return checks;
}

export const verifying = [
  [
    'verify of a handle',
    checkpoint('model', SHARD),
    (root) => {
      const path = join(root, 'model');
      return using(safeOpen(path), async (opened) => soundReport(await opened.verify(), path));
    },
  ],
  [
    'verify of a path',
    checkpoint('model', SHARD),
    async (root) => {
      const path = join(root, 'model');
      return soundReport(await verify(path), path);
    },
  ],
];
