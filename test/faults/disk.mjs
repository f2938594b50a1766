// The states of a disk after a loss of power, from the recorded changes.  What was synced is there: the bytes and the
// length of a file by a sync of the file, names by a sync of their folder. Each later change may be there or not,
// independently of the others: file systems write in any order. A change of names is there as a whole (a rename, an
// exchange); of a write the disk may have a part.

/** The disk keeps a part of a write in whole sectors. */
const SECTOR = 512;

/** Up to this many changes of names every subset is tried. */
const MAX_ALL_SUBSETS = 5;

/** Reads the record of recorder.c; paths become relative to the folder. */
export function parseRecord(bytes, root) {
  const changes = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(10, at);
    const [kind, file, position, length, path, other] = bytes.toString('utf8', at, end).split('\t');
    const begin = end + 1;
    at = begin + Number(length);
    const relative = (each) => (each.startsWith(root) ? each.slice(root.length + 1) : each);
    changes.push({
      kind,
      file,
      position: Number(position),
      data: bytes.subarray(begin, at),
      path: relative(path).replace(/\/$/, ''),
      other: relative(other),
    });
  }
  return changes;
}

function folderOf(path) {
  return path.slice(0, Math.max(path.lastIndexOf('/'), 0));
}

/** The names that a change gives files, or takes from them: by path the file, or null. */
function namesOf({ kind, file, path, other }, names) {
  if (kind === 'create' || kind === 'link' || kind === 'mkdir' || kind === 'symlink') {
    return [[path, file]];
  }
  if (kind === 'unlink' || kind === 'rmdir') return [[path, null]];
  if (kind === 'rename')
    return [
      [path, file],
      [other, null],
    ];
  if (kind === 'exchange')
    return [
      [path, file],
      [other, names.get(path)],
    ];
  return [];
}

function isOfBytes({ kind }) {
  return kind === 'write' || kind === 'truncate' || kind === 'allocate';
}

/** The bytes of a file after some changes of them. */
function applied(content, changes) {
  let bytes = content;
  for (const { kind, position, data } of changes) {
    const end = kind === 'write' ? position + data.length : position;
    const length = kind === 'truncate' ? end : Math.max(bytes.length, end);
    const next = Buffer.alloc(length);
    bytes.copy(next);
    data.copy(next, position);
    bytes = next;
  }
  return bytes;
}

/** A write of which the disk has only the first half, in sectors. */
function torn(change) {
  if (change.kind !== 'write') return undefined;
  const half = Math.floor(change.data.length / 2 / SECTOR) * SECTOR;
  return { ...change, data: change.data.subarray(0, half) };
}

/** The possible results of changes of bytes that were not synced. */
const BYTES_KEPT = {
  none: () => [],
  all: (changes) => changes,
  'all but the last': (changes) => changes.slice(0, -1),
  'all, the last torn': (changes) => [
    ...changes.slice(0, -1),
    ...changes.slice(-1).flatMap((each) => torn(each) ?? []),
  ],
  'the last': (changes) => changes.slice(-1),
  lengths: (changes) => changes.map((each) => ({ ...each, data: Buffer.alloc(each.data.length) })),
};

/** Subsets of changes of names: all of them, or the telling ones and a sample of the rest. */
function* subsetsOf(changes, random) {
  const { length } = changes;
  if (length <= MAX_ALL_SUBSETS) {
    for (let bits = 0; bits < 2 ** length; bits++) yield changes.filter((_, i) => (bits >> i) & 1);
    return;
  }
  for (let end = 0; end <= length; end++) yield changes.slice(0, end);
  for (let i = 0; i < length; i++) {
    yield changes.filter((_, j) => j !== i);
    yield [changes[i]];
  }
  for (let tries = 0; tries < 24; tries++) yield changes.filter(() => random() < 0.5);
}

/** The folder with its files as the record begins: by path, and by number. */
export function diskOf(state, numberOf) {
  const names = new Map();
  const contents = new Map();
  for (const [path, content] of state) {
    const number = numberOf(path);
    names.set(path, number);
    contents.set(number, content);
  }
  return { names, contents };
}

/** The folder after some changes: its durable state, and changes that are still in the system's memory. */
function replay(disk, changes) {
  const names = new Map(disk.names);
  const durable = new Map([...disk.names].map(([path, number]) => [path, { number, at: -1 }]));
  const contents = new Map(disk.contents);
  const pendingBytes = new Map();
  let pendingNames = [];
  for (const [at, change] of changes.entries()) {
    const { kind, file, path } = change;
    if (kind === 'mkdir') contents.set(file, null);
    if (kind === 'create') contents.set(file, Buffer.alloc(0));
    if (kind === 'symlink') contents.set(file, change.other);
    if (isOfBytes(change)) {
      pendingBytes.set(file, [...(pendingBytes.get(file) ?? []), change]);
    } else if (kind === 'sync' && contents.get(file) === null) {
      const isHere = (each) => folderOf(each.path) === path;
      for (const each of pendingNames.filter(isHere)) keepNames(durable, each);
      pendingNames = pendingNames.filter((each) => !isHere(each));
    } else if (kind === 'sync') {
      contents.set(file, applied(contents.get(file), pendingBytes.get(file) ?? []));
      pendingBytes.delete(file);
    } else {
      const pairs = namesOf(change, names);
      for (const [name, number] of pairs) names.set(name, number);
      pendingNames.push({ kind, path, at, pairs });
    }
  }
  return { durable, contents, pendingNames, pendingBytes };
}

/** Applies a change of names, unless a later change of a file that left its folder is there already. */
function keepNames(found, { at, pairs }) {
  for (const [name, number] of pairs) {
    if ((found.get(name)?.at ?? -1) <= at) found.set(name, { number, at });
  }
}

/**
 * The folder as a map like `stateOf`, with these changes of names and the changes of bytes that `bytesKept` leaves.
 */
function stateWith({ durable, contents, pendingBytes }, namesKept, bytesKept) {
  const found = new Map(durable);
  for (const change of namesKept) keepNames(found, change);
  const state = new Map();
  for (const [path, { number }] of [...found].sort(([one], [other]) => (one < other ? -1 : 1))) {
    if (number === null || number === undefined) continue;
    // The contents of a missing folder are missing too.
    const folder = folderOf(path);
    if (folder !== '' && !state.has(folder)) continue;
    const content = contents.get(number);
    const isFile = Buffer.isBuffer(content);
    state.set(path, isFile ? applied(content, bytesKept(pendingBytes.get(number) ?? [])) : content);
  }
  return state;
}

/** The folder when nothing is lost: its state after all changes, if the record is complete. */
export function stateAfter(disk, changes) {
  const end = replay(disk, changes);
  return stateWith(end, end.pendingNames, BYTES_KEPT.all);
}

/**
 * All states that the folder may have when the power goes after these changes, each with a text of the changes that
 * survived.
 */
export function* statesAfterLoss(disk, changes, random) {
  const end = replay(disk, changes);
  const hows = end.pendingBytes.size === 0 ? ['all'] : Object.keys(BYTES_KEPT);
  for (const subset of subsetsOf(end.pendingNames, random)) {
    const kept = subset.map(({ kind, path }) => `${kind} ${path}`).join(', ') || 'no name';
    for (const how of hows) {
      yield { state: stateWith(end, subset, BYTES_KEPT[how]), how: `${kept}; of bytes ${how}` };
    }
  }
}
