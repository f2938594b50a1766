/** Faulty shards have the same errors over every kind of source with several files. */
import { describe, expect, test } from 'vitest';
import { fileBytes } from '../support/make-file.js';
import { type Files, INDEX, SHARDS, TENSORS } from './kinds/files.js';
import { type Handle, type Kind, NAMED_KINDS, openUntilEnd } from './kinds/kinds.js';
import { type ErrorFacts, errorOf } from './kinds/outcome.js';

const [FIRST, SECOND] = SHARDS as [string, string];

/** The files with another content of one. */
function changed(files: Files, name: string, bytes: Uint8Array): Files {
  return new Map([...files, [name, bytes]]);
}

/** The files with a text of the index replaced. */
function indexedAs(files: Files, text: string, replacement: string): Files {
  const index = Buffer.from(files.get(INDEX) as Uint8Array).toString();
  return changed(files, INDEX, Buffer.from(index.replaceAll(text, replacement)));
}

/** A fault, the calls that meet it, and their error. */
interface Fault {
  readonly files: (files: Files) => Files;
  readonly calls: Readonly<Record<string, (handle: Handle) => unknown>>;
  readonly error: ErrorFacts;
  /** Kinds of other errors, with their reason. */
  readonly others?: Readonly<Record<string, ErrorFacts>>;
}

/** Calls that need all headers. */
const ALL_HEADERS: Fault['calls'] = {
  tensors: (handle) => handle.tensors(),
  offsetKeys: (handle) => handle.offsetKeys(),
  readTensors: (handle) => handle.readTensors(),
};

/** Calls for a tensor of the second shard. */
const ONE_TENSOR: Fault['calls'] = {
  info: (handle) => handle.info('ids'),
  getTensor: (handle) => handle.getTensor('ids'),
  getSlice: (handle) => handle.getSlice('ids', 0),
  getPartition: (handle) => handle.getPartition('ids', { rank: 0, worldSize: 1 }),
  readTensors: (handle) => handle.readTensors(['ids']),
};

const FAULTS: Readonly<Record<string, Fault>> = {
  'a shard that is missing': {
    files: (files) => new Map([...files].filter(([name]) => name !== SECOND)),
    calls: { ...ALL_HEADERS, ...ONE_TENSOR, headers: (handle) => handle.headers() },
    error: {
      type: 'SafetensorsError',
      code: 'SAFETENSORS_MISSING_SHARDS',
      tensor: undefined,
      path: INDEX,
      message: `expected 2 shards, found 1 of them missing: "${SECOND}"`,
    },
    others: {
      // The address of an index shows no other files: the answer for the shard does.
      'an index over HTTP': {
        type: 'RemoteError',
        code: 'SAFETENSORS_REMOTE_NOT_FOUND',
        path: SECOND,
        message: 'found status 404: no such file; check the URL',
      },
      // The message has the one above, and the commands that fetch the shard.
      'a cached repository': {
        type: 'SafetensorsError',
        code: 'SAFETENSORS_NOT_IN_CACHE',
        path: 'name',
        message: expect.stringContaining(`found 1 of them missing: "${SECOND}"`),
      },
    },
  },
  'a shard with a broken header': {
    files: (files) => changed(files, SECOND, Buffer.from('\x07\0\0\0\0\0\0\0{"a":1}')),
    calls: { ...ALL_HEADERS, ...ONE_TENSOR, headers: (handle) => handle.headers() },
    error: {
      type: 'FormatError',
      code: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
      tensor: 'a',
      path: SECOND,
      message:
        'tensor "a": expected an object that describes the tensor at header byte 5, found "1"',
    },
  },
  'a shard without a tensor of the index': {
    files: (files) => changed(files, SECOND, fileBytes(TENSORS.slice(4))),
    calls: { ...ALL_HEADERS, ...ONE_TENSOR },
    error: {
      type: 'FormatError',
      code: 'SAFETENSORS_INDEX_MISMATCH',
      tensor: 'ids',
      path: INDEX,
      message: `tensor "ids": expected the tensor in "${SECOND}", as the index lists it, found none`,
    },
  },
  'a shard outside of the folder': {
    files: (files) => indexedAs(files, SECOND, '../model.safetensors'),
    calls: { keys: (handle) => handle.keys() },
    error: {
      type: 'FormatError',
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
      tensor: 'ids',
      path: INDEX,
      message:
        'tensor "ids": expected a shard\'s name to be a relative path that ends with .safetensors, ' +
        'found a ".." part in "../model.safetensors"',
    },
  },
};

const isIndexed = ({ layout, format }: Kind): boolean =>
  layout === 'index' && format === 'safetensors';

describe.each(NAMED_KINDS.filter(([, kind]) => isIndexed(kind)))('%s', (name, kind) => {
  test.each(Object.entries(FAULTS))('has %s', async (_, { files, calls, error, others }) => {
    const expected = others?.[kind.base ?? name] ?? error;
    for (const [label, call] of Object.entries(calls)) {
      const placed = await kind.place(files(kind.files()));
      const found = await errorOf(async () => await call(await openUntilEnd(placed)));
      expect(found, label).toMatchObject(expected);
    }
  });

  // A view has read the headers of all shards.
  test.runIf(kind.base === undefined)('reads tensors of the other shard', async () => {
    const { files } = FAULTS['a shard without a tensor of the index'] as Fault;
    const handle = await openUntilEnd(await kind.place(files(kind.files())));
    const [tensor] = TENSORS;
    expect(new Set(handle.shards)).toEqual(new Set([FIRST, SECOND]));
    expect((await handle.getTensor('embed.weight')).bytes).toEqual(tensor?.bytes);
  });
});
