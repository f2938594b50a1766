/** Writes tensors to a file on this thread, from memory or from another file. */

import type { Layout, Placed } from '../../header/header-writer.js';
import type { WrittenFile } from '../../platform/io/file-writes.js';
import { readBytesOf, readFully } from '../../platform/io/opened-file.js';
import { RangeHashes } from '../../platform/io/range-hashes.js';
import { runSync } from '../../platform/io/steps.js';
import { type Write, writeFrom, writePiecesSync } from '../../platform/io/write-pieces-sync.js';
import { CACHED_BYTE_LENGTH, cut } from '../../tensor/pieces.js';
import type { MadePayload, Payload, StreamPayload, WriteEntry } from '../input/tensor-input.js';
import type { BorrowedFiles } from './source-files.js';

/** Bytes that exist, in memory or in a file. */
export type ReadyPayload = Exclude<Payload, MadePayload | StreamPayload>;

/** The write of a tensor from where its bytes are. */
export function writeOf(
  payload: ReadyPayload,
  position: number,
  byteLength: number,
  sources: BorrowedFiles,
): Write {
  const source =
    payload.kind === 'memory'
      ? payload.window
      : { file: sources.fileOf(payload), position: payload.position };
  return { position, byteLength, source };
}

/** Writes a whole file as `writeLayout` does, on this thread. The sums come first, from a pass of its own. */
export function writeLayoutSync(
  target: WrittenFile,
  { header, placed, sums }: Layout<WriteEntry>,
  sources: BorrowedFiles,
): void {
  const writes = placed.map(({ spec, begin }) =>
    writeOf(spec.payload, header.byteLength + begin, spec.byteLength, sources),
  );
  try {
    if (sums !== undefined) header.set(sumsTextSync(placed, sources), sums.position);
    writePiecesSync(target, [writeFrom(header, 0), ...writes]);
  } catch (error) {
    throw sources.explain(error);
  }
}

/** The sums of the tensors as text, read through one buffer. */
function sumsTextSync(
  placed: readonly Placed<WriteEntry>[],
  sources: BorrowedFiles,
): Uint8Array<ArrayBuffer> {
  const hashes = new RangeHashes(
    placed.map(({ spec: { name }, ...range }) => ({ name, ...range })),
  );
  let buffer: Uint8Array | undefined;
  const bytesOf = (payload: ReadyPayload, begin: number, end: number): Uint8Array => {
    if (payload.kind === 'memory') return payload.window(begin, end);
    buffer ??= new Uint8Array(CACHED_BYTE_LENGTH);
    const bytes = buffer.subarray(0, end - begin);
    const file = sources.fileOf(payload);
    runSync(readFully(readBytesOf(file), bytes, payload.position + begin, file.path));
    return bytes;
  };
  for (const { spec } of placed) {
    for (const { begin, end } of cut(0, spec.byteLength, CACHED_BYTE_LENGTH)) {
      hashes.add(bytesOf(spec.payload, begin, end));
    }
  }
  return hashes.text();
}
