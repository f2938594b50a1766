/** Places for the files of a model, and how it is opened there. */
import { closeSync, openSync, utimesSync, writeFileSync } from 'node:fs';
import { open as openHandle } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, vi } from 'vitest';
import { storedArchive } from '../../foreign/stored-archive.js';
import { FileServer } from '../../remote/download/file-server.js';
import {
  type AnyCheckpoint,
  type OpenSourceOptions,
  open,
  openPipeline,
  parse,
  safeOpen,
} from '../../support/api.js';
import { HubCache } from '../../support/hub-cache.js';
import { useHub } from '../../support/hub-environment.js';
import { HubServer } from '../../support/hub-server.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { MODEL_INDEX } from '../../support/model-index.js';
import type { Files } from './files.js';
import { Traffic } from './traffic.js';

/** The files of a model where they were put. */
export interface Placed {
  /** Opens the model. */
  readonly open: (options?: OpenSourceOptions) => Promise<AnyCheckpoint>;
  /** Overwrites a file, if files can change there. */
  readonly write?: (name: string, bytes: Uint8Array) => void;
  /** The reads, if they are requests. */
  readonly traffic?: Traffic;
}

/** Puts files somewhere until the end of the test. */
export interface Place {
  (files: Files): Promise<Placed>;
  /** Whether its files are read by requests, which `traffic` counts. */
  readonly isRemote?: true;
}

/** A place whose files are read by requests. */
const remote = (place: Place): Place => Object.assign(place, { isRemote: true as const });

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
  vi.unstubAllEnvs();
});

let count = 0;

function writeFolder(files: Files): string {
  const folder = temporaryPath(`model-${count++}`);
  for (const [name, bytes] of files) writeBelow(folder, name, bytes);
  return folder;
}

/** Overwrites a file. A clock may stand still between two writes; the time of this one is later than any before. */
function overwrite(path: string, bytes: Uint8Array): void {
  writeFileSync(path, bytes);
  const later = Date.now() / 1000 + ++count;
  utimesSync(path, later, later);
}

/** The index, else the first file. */
function entryOf(files: Files): string {
  const names = [...files.keys()];
  return names.find((name) => name.endsWith('.index.json')) ?? (names[0] as string);
}

type OpenPath = (
  path: string,
  options: OpenSourceOptions,
) => AnyCheckpoint | Promise<AnyCheckpoint>;

/** A folder of this machine; `openPath` gets the path of the index or the only file. */
export function onDisk(openPath: OpenPath): Place {
  return async (files) => {
    const folder = writeFolder(files);
    const path = join(folder, entryOf(files));
    return {
      open: async (options = {}) => await openPath(path, options),
      write: (name, bytes) => overwrite(join(folder, name), bytes),
    };
  };
}

type ViewOf = (base: AnyCheckpoint) => AnyCheckpoint | Promise<AnyCheckpoint>;

/** A view of the checkpoint of another place, which stays open until the end of the test. */
export function viewed(place: Place, viewOf: ViewOf): Place {
  const placeView: Place = async (files) => {
    const placed = await place(files);
    return {
      ...placed,
      open: async (options) => {
        const base = await placed.open(options);
        ends.push(() => base.close());
        return await viewOf(base);
      },
    };
  };
  return place.isRemote ? remote(placeView) : placeView;
}

/** A folder of this machine, opened by its own path. */
export const inFolder: Place = async (files) => {
  const folder = writeFolder(files);
  return {
    open: async (options) => await open(folder, options),
    write: (name, bytes) => overwrite(join(folder, name), bytes),
  };
};

export const byUrl: Place = onDisk((path, options) => open(pathToFileURL(path), options));

export const byDescriptor: Place = onDisk((path, options) => {
  const descriptor = openSync(path, 'r');
  ends.push(() => closeSync(descriptor));
  return open(descriptor, options);
});

export const byFileHandle: Place = onDisk(async (path, options) => {
  const handle = await openHandle(path);
  ends.push(() => handle.close());
  return await open(handle, options);
});

/** The bytes of the only file, in memory. */
export const inMemory: Place = async (files) => ({
  open: async () => parse([...files.values()][0] as Uint8Array),
});

/** A repository in the Hub cache. */
export const inHubCache: Place = async (files) => {
  const cache = new HubCache(`hub-cache-${count++}`);
  for (const [name, bytes] of files) cache.addPlain(name, bytes);
  vi.stubEnv('HF_HUB_CACHE', cache.folder);
  return {
    open: async () => safeOpen('org/name'),
    write: (name, bytes) => overwrite(join(cache.snapshot(), name), bytes),
  };
};

/** A folder of a Diffusers pipeline. */
export const inPipeline: Place = async (files) => {
  const folder = temporaryPath(`pipeline-${count++}`);
  writeBelow(folder, 'model_index.json', MODEL_INDEX);
  for (const [name, bytes] of files) writeBelow(folder, `unet/${name}`, bytes);
  return {
    open: async () => await modelOf(folder),
    write: (name, bytes) => overwrite(join(folder, 'unet', name), bytes),
  };
};

/** A DDUF archive. */
export const inArchive: Place = async (files) => {
  const path = temporaryPath(`pipeline-${count++}.dduf`);
  const archived = new Map<string, string | Uint8Array>([['model_index.json', MODEL_INDEX]]);
  const write = (name: string, bytes: Uint8Array): void => {
    archived.set(`unet/${name}`, bytes);
    overwrite(path, storedArchive(Object.fromEntries(archived)));
  };
  for (const [name, bytes] of files) write(name, bytes);
  return { open: async () => await modelOf(path), write };
};

async function modelOf(pipelinePath: string): Promise<AnyCheckpoint> {
  const pipeline = await openPipeline(pipelinePath);
  return pipeline.models.get('unet') as AnyCheckpoint;
}

/** Sends the requests of a source as they are, and counts them by the name of the file. */
function countedFetch(traffic: Traffic): typeof fetch {
  return async (input, init) => {
    const { pathname } = new URL(String(input));
    // A redirected request is one more for the same file.
    if (!pathname.startsWith('/blobs/')) await traffic.pass(basename(pathname));
    return await fetch(input, init);
  };
}

/** A server; the source is the address of the index or the only file. */
export const onServer: Place = remote(async (files) => {
  const server = await FileServer.start();
  ends.push(() => server.close());
  const traffic = new Traffic();
  const write = (name: string, bytes: Uint8Array): void =>
    void server.files.set(name, { bytes, tag: `"${count++}"` });
  for (const [name, bytes] of files) write(name, bytes);
  const url = server.url(entryOf(files));
  return {
    open: async (options) => await open(url, { fetch: countedFetch(traffic), ...options }),
    write,
    traffic,
  };
});

/** A repository on the Hub. */
export const onHub: Place = remote(async (files) => {
  const hub = await HubServer.start({ 'org/name': { files: Object.fromEntries(files) } });
  ends.push(() => hub.close());
  useHub(hub.url);
  const traffic = new Traffic();
  return {
    open: async (options) =>
      await open('hf://org/name', { fetch: countedFetch(traffic), ...options }),
    traffic,
  };
});

/** A Blob whose reads are counted. */
function countedBlob(bytes: Uint8Array, name: string, traffic: Traffic): Blob {
  const read = async (begin?: number, end?: number): Promise<ArrayBuffer> => {
    await traffic.pass(name);
    return new Uint8Array(bytes).slice(begin, end).buffer;
  };
  const slice = (begin?: number, end?: number) => ({ arrayBuffer: () => read(begin, end) });
  return { size: bytes.length, name, slice, arrayBuffer: read } as unknown as Blob;
}

/** A Blob of the only file. */
export const inBlob: Place = remote(async (files) => {
  const traffic = new Traffic();
  const [[name, bytes]] = [...files] as [[string, Uint8Array]];
  const blob = countedBlob(bytes, name, traffic);
  return { open: async (options) => await open(blob, options), traffic };
});

/** A Map of Blobs. */
export const inBlobs: Place = remote(async (files) => {
  const traffic = new Traffic();
  const blobs = new Map(
    Array.from(files, ([name, bytes]) => [name, countedBlob(bytes, name, traffic)]),
  );
  return { open: async (options) => await open(blobs, options), traffic };
});

/** A reader of the only file. */
export const byReader: Place = remote(async (files) => {
  const traffic = new Traffic();
  let [[name, bytes]] = [...files] as [[string, Uint8Array]];
  const reader = {
    name,
    get byteLength() {
      return bytes.length;
    },
    read: async (begin: number, end: number) => {
      await traffic.pass(name);
      return bytes.subarray(begin, end);
    },
  };
  const write = (_: string, changed: Uint8Array): void => {
    bytes = changed;
  };
  return { open: async (options) => await open(reader, options), write, traffic };
});
