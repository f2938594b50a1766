/** Every kind of source that holds tensors: one entry in the table for each. */
import { afterEach } from 'vitest';
import {
  type AnyCheckpoint,
  type Checkpoint,
  dequantized as dequantize,
  open,
  safeOpen,
  select,
} from '../../support/api.js';
import {
  ARRAYS,
  CUT_NAMES,
  type Files,
  indexFiles,
  numpyArchive,
  rankFiles,
  type Stored,
  shardFiles,
  singleFile,
  TENSORS,
  torchFile,
  torchIndex,
} from './files.js';
import {
  byDescriptor,
  byFileHandle,
  byReader,
  byUrl,
  inArchive,
  inBlob,
  inBlobs,
  inFolder,
  inHubCache,
  inMemory,
  inPipeline,
  onDisk,
  onHub,
  onServer,
  type Place,
  type Placed,
  viewed,
} from './places.js';

/** How the tensors are divided into files. */
type Layout = 'file' | 'index' | 'shards';

/** A kind of source. */
export interface Kind {
  readonly name: string;
  readonly layout: Layout;
  readonly format: Checkpoint['format'];
  readonly files: () => Files;
  readonly place: Place;
  /** Of a view the kind of the checkpoint that it is of. */
  readonly base?: string;
  /** Names of tensors that are assembled from pieces in several files. */
  readonly assembled?: readonly string[];
  /** The tensors that it can hold. */
  readonly tensors: readonly Stored[];
}

/** Any handle, by the members of a local one; results of a remote one are promises. */
export type Handle = Omit<Checkpoint, 'local'> & { readonly local: boolean };

type Row = readonly [name: string, place: Place];

const OF_FILE: readonly Row[] = [
  ['a mapped file', onDisk(safeOpen)],
  ['a file that is read', onDisk((path) => safeOpen(path, { storage: 'read' }))],
  ['a file URL', byUrl],
  ['a descriptor', byDescriptor],
  ['a FileHandle', byFileHandle],
  ['bytes', inMemory],
  ['a folder with a file', inFolder],
  ['a file over HTTP', onServer],
  ['a Blob', inBlob],
  ['a reader', byReader],
];

const OF_INDEX: readonly Row[] = [
  ['an index', onDisk(safeOpen)],
  ['a folder with an index', inFolder],
  ['a cached repository', inHubCache],
  ['a model of a pipeline', inPipeline],
  ['a model of a DDUF archive', inArchive],
  ['an index over HTTP', onServer],
  ['a repository on the Hub', onHub],
  ['a folder of Blobs', inBlobs],
];

const OF_SHARDS: readonly Row[] = [
  ['a folder of shards', inFolder],
  ['Blobs of shards', inBlobs],
];

const kindsOf = (rows: readonly Row[], layout: Layout, files: () => Files): readonly Kind[] =>
  rows.map(([name, place]) => ({
    name,
    layout,
    format: 'safetensors',
    files,
    place,
    tensors: TENSORS,
  }));

/** Views of a local and of a remote checkpoint that show all tensors as they are. */
const viewsOf = (
  what: string,
  viewOf: (base: AnyCheckpoint) => Promise<AnyCheckpoint>,
): readonly Kind[] => {
  const view = (name: string, place: Place): readonly Row[] => [[name, viewed(place, viewOf)]];
  return [
    [kindsOf(view(`${what} view`, onDisk(safeOpen)), 'file', singleFile), 'a mapped file'],
    [kindsOf(view(`${what} view of an index`, inFolder), 'index', indexFiles), 'an index'],
    [kindsOf(view(`${what} view over HTTP`, onServer), 'index', indexFiles), 'an index over HTTP'],
  ].flatMap(([kinds, base]) =>
    (kinds as readonly Kind[]).map((kind) => ({ ...kind, base: base as string })),
  );
};

const TORCH = { format: 'torch', place: onDisk((path) => open(path)), tensors: TENSORS } as const;
const ARRAYS_OF_NUMPY = {
  layout: 'file',
  format: 'numpy',
  place: onDisk((path) => open(path, { voidDtype: 'BF16' })),
  tensors: ARRAYS,
} as const;

/** All kinds; a new one is a row here. */
export const KINDS: readonly Kind[] = [
  ...kindsOf(OF_FILE, 'file', singleFile),
  ...kindsOf(OF_INDEX, 'index', indexFiles),
  ...kindsOf(OF_SHARDS, 'shards', shardFiles),
  ...viewsOf('a selected', async (base) => {
    await base.tensors();
    return select(base, { names: (name) => name !== '', rename: (name) => name });
  }),
  ...viewsOf('a dequantized', (base) => dequantize(base, { config: null })),
  {
    name: 'files of ranks',
    layout: 'shards',
    format: 'dcp',
    files: rankFiles,
    place: inFolder,
    assembled: CUT_NAMES,
    tensors: TENSORS,
  },
  { name: 'a torch file', layout: 'file', files: torchFile, ...TORCH },
  { name: 'a torch index', layout: 'index', files: torchIndex, ...TORCH },
  { name: 'an archive of arrays', files: () => numpyArchive(false), ...ARRAYS_OF_NUMPY },
  { name: 'a deflated archive', files: () => numpyArchive(true), ...ARRAYS_OF_NUMPY },
];

/** The same as arguments of `test.each`. */
export const NAMED_KINDS: readonly (readonly [name: string, kind: Kind])[] = KINDS.map((kind) => [
  kind.name,
  kind,
]);

const opened: AnyCheckpoint[] = [];
afterEach(() => {
  for (const checkpoint of opened.splice(0)) checkpoint.close();
});

/** A handle that is closed at the end of the test. */
export async function openUntilEnd(placed: Placed): Promise<Handle> {
  const checkpoint = await placed.open();
  opened.push(checkpoint);
  return checkpoint as Handle;
}

/** A handle of that kind. */
export async function openKind({ place, files }: Kind): Promise<Handle> {
  return await openUntilEnd(await place(files()));
}

/** A mapped handle of safetensors with the tensors, the metadata and the layout of a kind. */
export async function openReference({ layout, tensors, format }: Kind): Promise<Handle> {
  const hasMetadata = format === 'safetensors';
  const files = {
    file: () => singleFile(tensors, hasMetadata),
    index: () => indexFiles(hasMetadata),
    shards: shardFiles,
  };
  const place = layout === 'shards' ? inFolder : onDisk(safeOpen);
  return await openUntilEnd(await place(files[layout]()));
}
