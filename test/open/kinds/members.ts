/** A case for every member of the handles. */
import { inspect } from 'node:util';
import type { SiblingFile } from '../../support/api.js';
import type { Handle } from './kinds.js';

/** Calls of a member, each named for messages. */
export type Calls = Readonly<Record<string, (handle: Handle) => unknown>>;

/** A member: how it is called, and which handles have it. */
export interface Member {
  readonly calls: Calls;
  /** After `close()` it answers, or is a way to close; without this it throws FILE_CLOSED. */
  readonly closed?: 'answers' | 'closes';
  /** The handles that have it; both unless given. */
  readonly only?: 'local';
  /** A call that a signal ends, on both kinds of handles or on remote ones. */
  readonly abort?: (handle: Handle, signal: AbortSignal | undefined) => unknown;
  readonly abortOnly?: 'remote';
  /** Local handles finish it when `close()` is called meanwhile; all other calls end with FILE_CLOSED. */
  readonly outlives?: string;
  /** Successful calls for tensors with bytes notice that a file has changed. */
  readonly readsBytes?: true;
}

const NAME = 'embed.weight';
const ALIAS = 'head.weight';

const property = (name: keyof Handle): Calls => ({ read: (handle) => handle[name] });

async function collect<Item>(items: AsyncIterable<Item> | Iterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** Methods as remote handles have them, with options at the end. */
type Loose = Readonly<
  Record<
    'byteLength' | 'offsetKeys' | 'info' | 'getTensor' | 'getSlice' | 'getPartition',
    (...args: unknown[]) => unknown
  >
>;
const loose = (handle: Handle): Loose => handle as unknown as Loose;

const textOf = (file: SiblingFile | undefined): string | undefined =>
  file && Buffer.from(file.bytes).toString();

const nameOf = (handle: Handle): string => handle.constructor.name;

/** By name; symbols by their description. */
export const MEMBERS: Readonly<Record<string, Member>> = {
  local: { calls: property('local'), closed: 'answers' },
  format: { calls: property('format'), closed: 'answers' },
  root: { calls: property('root'), closed: 'answers' },
  extra: { calls: { all: (handle) => handle.extra() }, closed: 'answers' },
  path: { calls: property('path'), closed: 'answers' },
  shards: { calls: property('shards'), closed: 'answers' },
  ignoredFiles: { calls: property('ignoredFiles'), closed: 'answers' },
  storage: { calls: property('storage'), closed: 'answers', only: 'local' },
  problems: { calls: property('problems'), closed: 'answers' },
  checks: { calls: property('checks'), closed: 'answers' },
  ok: { calls: property('ok'), closed: 'answers' },
  size: { calls: property('size') },
  metadata: { calls: property('metadata') },
  byteLength: {
    calls: { all: (handle) => handle.byteLength() },
    abort: (handle, signal) => loose(handle).byteLength({ signal }),
    abortOnly: 'remote',
  },
  headers: {
    calls: { all: (handle) => handle.headers() },
    abort: (handle, signal) => handle.headers({ signal }),
  },
  keys: { calls: { all: (handle) => handle.keys() } },
  offsetKeys: {
    calls: { all: (handle) => handle.offsetKeys() },
    abort: (handle, signal) => loose(handle).offsetKeys({ signal }),
    abortOnly: 'remote',
  },
  has: {
    calls: {
      tensor: (handle) => handle.has(NAME),
      alias: (handle) => handle.has(ALIAS),
      unknown: (handle) => handle.has('author'),
      number: (handle) => handle.has(7 as never),
    },
  },
  info: {
    calls: {
      tensor: (handle) => handle.info(NAME),
      unaligned: (handle) => handle.info('norm.bias'),
      scalar: (handle) => handle.info('scale'),
      empty: (handle) => handle.info('none'),
      alias: (handle) => handle.info(ALIAS),
      unknown: (handle) => handle.info('embed.wieght'),
      number: (handle) => handle.info(7 as never),
      frozen: async (handle) => Object.isFrozen(await handle.info(NAME)),
    },
    abort: (handle, signal) => loose(handle).info(NAME, { signal }),
    abortOnly: 'remote',
  },
  tensors: {
    calls: {
      all: (handle) => handle.tensors(),
      frozen: async (handle) => (await handle.tensors()).every(Object.isFrozen),
      misspelt: (handle) => handle.tensors({ signals: 1 } as never),
      wrong: (handle) => handle.tensors({ signal: 1 } as never),
    },
    abort: (handle, signal) => handle.tensors({ signal }),
  },
  getTensor: {
    readsBytes: true,
    calls: {
      tensor: (handle) => handle.getTensor(NAME),
      float8: (handle) => handle.getTensor('codes'),
      unaligned: (handle) => handle.getTensor('norm.bias'),
      integers: (handle) => handle.getTensor('ids'),
      flags: (handle) => handle.getTensor('mask'),
      scalar: (handle) => handle.getTensor('scale'),
      empty: (handle) => handle.getTensor('none'),
      alias: (handle) => handle.getTensor(ALIAS),
      unknown: (handle) => handle.getTensor('embed.wieght'),
      author: (handle) => handle.getTensor('author'),
      number: (handle) => handle.getTensor(7 as never),
    },
    abort: (handle, signal) => loose(handle).getTensor(NAME, { signal }),
    abortOnly: 'remote',
  },
  getTensors: {
    readsBytes: true,
    calls: {
      all: (handle) => handle.getTensors(),
      some: (handle) => handle.getTensors(['scale', NAME]),
      text: (handle) => handle.getTensors(NAME),
    },
    only: 'local',
  },
  getSlice: {
    readsBytes: true,
    calls: {
      number: (handle) => handle.getSlice(NAME, 1),
      negative: (handle) => handle.getSlice(NAME, -1, -2),
      range: (handle) => handle.getSlice(NAME, [1, 3], [null, null, 2]),
      reversed: (handle) => handle.getSlice(NAME, [null, null, -1]),
      ellipsis: (handle) => handle.getSlice(NAME, '...', 0),
      text: (handle) => handle.getSlice(NAME, '1:3, ::-2'),
      whole: (handle) => handle.getSlice('scale'),
      empty: (handle) => handle.getSlice('none', [0, 0]),
      alias: (handle) => handle.getSlice(ALIAS, 0),
      beyond: (handle) => handle.getSlice(NAME, 4),
      beyondAlias: (handle) => handle.getSlice(ALIAS, 4),
      tooMany: (handle) => handle.getSlice('scale', 0),
      stepless: (handle) => handle.getSlice(NAME, [0, 1, 0]),
      badText: (handle) => handle.getSlice(NAME, '1:x'),
      badIndex: (handle) => handle.getSlice(NAME, true as never),
      unknown: (handle) => handle.getSlice('embed.wieght', 0),
      number7: (handle) => handle.getSlice(7 as never, 0),
    },
    abort: (handle, signal) => loose(handle).getSlice(NAME, 0, { signal }),
    abortOnly: 'remote',
  },
  getPartition: {
    readsBytes: true,
    calls: {
      rows: (handle) => handle.getPartition(NAME, { rank: 1, worldSize: 2 }),
      columns: (handle) => handle.getPartition(NAME, { rank: 2, worldSize: 3, dim: 1 }),
      alias: (handle) => handle.getPartition(ALIAS, { rank: 0, worldSize: 4 }),
      odd: (handle) => handle.getPartition(NAME, { rank: 0, worldSize: 3 }),
      ofScalar: (handle) => handle.getPartition('scale', { rank: 0, worldSize: 2 }),
      badRank: (handle) => handle.getPartition(NAME, { rank: 2, worldSize: 2 }),
      ofAlias: (handle) => handle.getPartition(ALIAS, { rank: 0, worldSize: 3 }),
      nothing: (handle) => handle.getPartition(NAME, undefined as never),
      unknown: (handle) => handle.getPartition('embed.wieght', { rank: 0, worldSize: 1 }),
      number: (handle) => handle.getPartition(7 as never, { rank: 0, worldSize: 1 }),
    },
    abort: (handle, signal) =>
      loose(handle).getPartition(NAME, { rank: 0, worldSize: 1 }, { signal }),
    abortOnly: 'remote',
  },
  'Symbol.iterator': {
    readsBytes: true,
    calls: { all: (handle) => collect(handle) },
    only: 'local',
  },
  stream: {
    calls: {
      all: (handle) => collect(handle.stream()),
      some: (handle) => collect(handle.stream({ names: ['scale', NAME] })),
      alias: (handle) => collect(handle.stream({ names: [ALIAS] })),
      unknown: (handle) => collect(handle.stream({ names: ['embed.wieght'] })),
      misspelt: (handle) => collect(handle.stream({ name: 1 } as never)),
    },
    readsBytes: true,
    abort: (handle, signal) => collect(handle.stream({ signal })),
  },
  prefetch: {
    readsBytes: true,
    calls: {
      all: (handle) => handle.prefetch(),
      some: (handle) => handle.prefetch(['scale', ALIAS]),
      unknown: (handle) => handle.prefetch(['embed.wieght']),
    },
    only: 'local',
    abort: (handle, signal) => handle.prefetch(undefined, { signal }),
  },
  residency: {
    calls: {
      unknown: (handle) => handle.residency('embed.wieght'),
      number: (handle) => handle.residency(7 as never),
    },
    only: 'local',
  },
  readTensors: {
    readsBytes: true,
    calls: {
      all: (handle) => handle.readTensors(),
      some: (handle) => handle.readTensors(['scale', NAME]),
      none: (handle) => handle.readTensors([]),
      twice: (handle) => handle.readTensors(['scale', 'scale']),
      alias: (handle) => handle.readTensors([ALIAS, NAME]),
      unknown: (handle) => handle.readTensors([NAME, 'embed.wieght']),
      text: (handle) => handle.readTensors(NAME),
      number: (handle) => handle.readTensors([7] as never),
      misspelt: (handle) => handle.readTensors([NAME], { signals: 1 } as never),
      wrong: (handle) => handle.readTensors([NAME], { onProgress: 1 } as never),
      progress: async (handle) => {
        const progress: unknown[] = [];
        await handle.readTensors([NAME], { onProgress: (each) => progress.push(each) });
        return progress.at(-1);
      },
    },
    abort: (handle, signal) => handle.readTensors(undefined, { signal }),
    outlives: "its memory is the caller's",
  },
  sibling: {
    calls: {
      config: async (handle) => textOf(await handle.sibling('config.json')),
      absent: (handle) => handle.sibling('absent.json'),
      outside: (handle) => handle.sibling('../config.json'),
      number: (handle) => handle.sibling(7 as never),
      wrong: (handle) => handle.sibling('config.json', { signal: 1 } as never),
    },
    abort: (handle, signal) => handle.sibling('config.json', { signal }),
  },
  verify: {
    calls: {
      all: (handle) => handle.verify(),
      misspelt: (handle) => handle.verify({ checksum: true } as never),
      wrong: (handle) => handle.verify({ signal: 1 } as never),
    },
    abort: (handle, signal) => handle.verify({ signal }),
  },
  summary: {
    calls: { all: (handle) => handle.summary() },
    abort: (handle, signal) => handle.summary({ signal }),
  },
  toJSON: { calls: { all: (handle) => handle.toJSON() }, closed: 'answers' },
  'nodejs.util.inspect.custom': {
    calls: {
      shape: (handle) => inspect(handle) === `${nameOf(handle)} ${inspect(handle.toJSON())}`,
    },
    closed: 'answers',
  },
  close: { calls: { once: (handle) => handle.close() }, closed: 'closes' },
  // Node 20 and 22 describe the symbol as `nodejs.dispose`.
  [String(Symbol.dispose.description)]: {
    calls: { once: (handle) => handle[Symbol.dispose]() },
    closed: 'closes',
  },
};

/** Members that only this package calls, and that its types leave out. */
export const INTERNAL: readonly string[] = [
  'placeOf',
  'declaringFiles',
  'metadataOfFiles',
  'sourceMetadata',
  'viewOf',
  'entriesNow',
  'quantMethod',
];

/** The names of Python's methods, which throw an error with the name here. */
const PYTHONS = /_/;

/** The names of the members of a handle's classes. */
export function membersOf(handle: Handle): readonly string[] {
  const names = new Set<string>();
  for (let type = Object.getPrototypeOf(handle); type !== Object.prototype; ) {
    for (const key of Reflect.ownKeys(type)) {
      names.add(typeof key === 'symbol' ? (key.description ?? '') : key);
    }
    type = Object.getPrototypeOf(type);
  }
  names.delete('constructor');
  return [...names].filter((name) => !PYTHONS.test(name) && !INTERNAL.includes(name));
}

/** A call of a member, for messages `member: label`. */
export interface Case {
  readonly name: string;
  readonly label: string;
  readonly member: Member;
  readonly call: (handle: Handle) => unknown;
}

/** All calls of the members that a handle has, but those that close it. */
export function casesOf(handle: Handle): readonly Case[] {
  return membersOf(handle).flatMap((name) => {
    const member = MEMBERS[name];
    if (member === undefined || member.closed === 'closes') return [];
    return Object.entries(member.calls).map(([label, call]) => ({ name, label, member, call }));
  });
}

/** A call that a signal ends, and that `close()` ends unless it outlives it. */
export interface EndableCall {
  readonly name: string;
  readonly member: Member;
  readonly call: (signal?: AbortSignal) => unknown;
}

/** The calls of a handle that return promises and take a signal. */
export function endableCalls(handle: Handle): readonly EndableCall[] {
  return membersOf(handle).flatMap((name) => {
    const member = MEMBERS[name];
    if (member === undefined) return [];
    const { abort, abortOnly } = member;
    if (abort === undefined || (abortOnly === 'remote' && handle.local)) return [];
    return [{ name, member, call: (signal) => abort(handle, signal) }];
  });
}
