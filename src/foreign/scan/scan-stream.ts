/** Scans consecutive pickles; a legacy checkpoint has five, and storages after them. */

import { FormatError } from '../../errors/errors.js';
import { readPickle } from '../pickle/machine.js';
import { mayRun } from '../pickle/scan.js';
import { locateStorages, MAGIC_NUMBER, PROTOCOL_VERSION } from '../torch/legacy-stream.js';
import { noPersistentIds, TorchHost } from '../torch/state-dict/builders.js';
import type { ByteReader } from '../zip/archive.js';
import type { PickleSource, ScanNotes, WalkedPickle } from './scan-notes.js';
import { NamedStorages } from './scan-storages.js';

/** Whether bytes begin with the mark of protocol 2 or later; older pickles have none. */
export function isPickleAt(bytes: Uint8Array, at: number): boolean {
  const [first, protocol = 0] = bytes.subarray(at, at + 2);
  return first === 0x80 && protocol <= 5;
}

/** Scans a file that begins with `first`. */
export function scanStream(
  file: ByteReader,
  source: PickleSource,
  first: WalkedPickle,
  notes: ScanNotes,
): void {
  notes.addPickle(first, undefined);
  if (first.problem !== undefined) return;
  if (first.result === MAGIC_NUMBER) {
    scanLegacyStream(file, source, first.end, notes);
    return;
  }
  let { end } = first;
  while (isPickleAt(source.bytes, end)) {
    if (notes.isFull) return;
    const next = notes.walk(source, end);
    notes.addPickle(next, undefined);
    if (next.problem !== undefined) return;
    end = next.end;
  }
  noteTrailing(source, end, notes);
}

function scanLegacyStream(
  file: ByteReader,
  source: PickleSource,
  begin: number,
  notes: ScanNotes,
): void {
  const storages = new NamedStorages(true, notes, undefined);
  const next = (at: number, note?: NamedStorages['note']): WalkedPickle => {
    const scanned = notes.walk(source, at, note);
    notes.addPickle(scanned, undefined);
    return scanned;
  };
  const version = next(begin);
  if (version.problem !== undefined) return;
  if (version.result !== PROTOCOL_VERSION) {
    noteTrailing(source, version.end, notes);
    return;
  }
  const system = next(version.end);
  if (system.problem !== undefined) return;
  const checkpoint = next(system.end, storages.note);
  if (checkpoint.problem !== undefined) return;
  const keys = next(checkpoint.end);
  if (keys.problem !== undefined) return;
  try {
    const host = new TorchHost(noPersistentIds({}), 'refuse', {});
    const { value } = readPickle(source.bytes, checkpoint.end, host, notes.limits);
    const { end } = locateStorages(value, keys.end, storages.ids, file, {});
    noteTrailing(source, end, notes);
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    let needed = keys.end;
    for (const { byteLength } of storages.ids.storages.values()) needed += byteLength;
    if (needed > file.byteLength) notes.addProblem(error.message);
    else notes.add('unread-bytes', error.message, keys.end);
    noteTrailing(source, keys.end, notes, true);
  }
}

/** Notes the bytes after the last pickle, and scans them as a pickle. */
export function noteTrailing(
  source: PickleSource,
  at: number,
  notes: ScanNotes,
  isExplained = false,
): void {
  if (at === source.byteLength) return;
  const message = 'bytes after the pickle, which another reader may take for something else';
  if (!isExplained) notes.add('trailing-bytes', message, at, source.entry);
  if (at >= source.bytes.length) return;
  const next = notes.walk(source, at);
  if (isPickleAt(source.bytes, at) || mayRun(next)) notes.addPickle(next, source.entry);
}
