/**
 * Changes a header's metadata. All other bytes of the JSON stay the same, including fields that other writers added.
 */

import { argumentTypeError } from '../errors/arguments.js';
import { quoteName, rejectTensor } from '../errors/errors.js';
import { type NamedValues, pairsOf } from '../errors/named-values.js';
import { type Header, PREFIX_BYTE_LENGTH } from './header.js';
import { METADATA_NAME } from './header-parser.js';
import { encodeMetadata, MIN_ALIGNMENT, requireHeaderLength, SPACE } from './header-writer.js';
import { CLOSE_BRACE } from './json/reader.js';

/** New values by key, null to delete a key: as a Map, pairs or a plain object. */
export type MetadataChanges = NamedValues<string | null>;

/** When a header grows, the data keeps its alignment up to this many bytes. */
const MAX_KEPT_ALIGNMENT = 2 ** 21;

const encoder = new TextEncoder();

/**
 * The metadata with the changes; undefined when nothing changes, such as when an absent key is
 * deleted. Metadata that loses its last key becomes empty, not absent.
 *
 * @throws InvalidTensorError for a key given twice
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for values that are neither strings nor null
 */
export function changeMetadata(
  metadata: ReadonlyMap<string, string> | null,
  changes: MetadataChanges,
): Map<string, string> | undefined {
  const changed = new Map(metadata);
  const seen = new Set<string>();
  let isSame = true;
  for (const [key, value] of pairsOf(changes, 'changes')) {
    if (value !== null && typeof value !== 'string') {
      throw argumentTypeError(
        `metadata ${quoteName(key)}`,
        'a string, or null to delete it',
        value,
      );
    }
    if (seen.size === seen.add(key).size) {
      rejectTensor(`metadata ${quoteName(key)}: duplicate key`);
    }
    if (changed.get(key) === (value ?? undefined)) continue;
    isSame = false;
    if (value === null) changed.delete(key);
    else changed.set(key, value);
  }
  return isSame ? undefined : changed;
}

/**
 * The header's JSON with other metadata, in the place of the old or else as its first member. Leaves
 * out the whitespace at its end.
 *
 * @throws As {@link encodeMetadata}
 */
export function withMetadata(header: Header, metadata: ReadonlyMap<string, string>): Uint8Array {
  const { json, metadataAt, metadataEnd, size } = header;
  const value = encodeMetadata(metadata);
  const end = contentEnd(json);
  if (metadataAt !== -1) {
    return concatenate(json.subarray(0, metadataAt), value, json.subarray(metadataEnd, end));
  }
  const member = `${JSON.stringify(METADATA_NAME)}:${value}${size === 0 ? '' : ','}`;
  return concatenate(json.subarray(0, 1), member, json.subarray(1, end));
}

/** Bytes of whitespace at the end of a header: room for longer metadata. */
export function spareByteLength(json: Uint8Array): number {
  return json.byteLength - contentEnd(json);
}

/**
 * Length for a header whose JSON takes `needed` bytes: unchanged when that is enough. Otherwise the
 * data begins at a multiple of the same power of two as before, from 8 bytes to 2 MiB.
 *
 * @throws InvalidTensorError `SAFETENSORS_HEADER_TOO_LARGE`, which names the file
 */
export function grownByteLength(byteLength: number, needed: number, path: string): number {
  if (needed <= byteLength) return byteLength;
  const start = PREFIX_BYTE_LENGTH + byteLength;
  const alignment = Math.min(Math.max(start & -start, MIN_ALIGNMENT), MAX_KEPT_ALIGNMENT);
  const grown = Math.ceil((PREFIX_BYTE_LENGTH + needed) / alignment) * alignment;
  requireHeaderLength(grown - PREFIX_BYTE_LENGTH, { path });
  return grown - PREFIX_BYTE_LENGTH;
}

/** The first bytes of a file: the length, the JSON, and spaces up to that length. */
export function fileStart(json: Uint8Array, byteLength: number): Uint8Array {
  const start = new Uint8Array(PREFIX_BYTE_LENGTH + byteLength);
  new DataView(start.buffer).setUint32(0, byteLength, true);
  start.set(json, PREFIX_BYTE_LENGTH);
  start.fill(SPACE, PREFIX_BYTE_LENGTH + json.byteLength);
  return start;
}

/** Finds the last brace of a valid header: only whitespace follows it. */
function contentEnd(json: Uint8Array): number {
  return json.lastIndexOf(CLOSE_BRACE) + 1;
}

function concatenate(before: Uint8Array, text: string, after: Uint8Array): Uint8Array {
  const middle = encoder.encode(text);
  const all = new Uint8Array(before.byteLength + middle.byteLength + after.byteLength);
  all.set(before);
  all.set(middle, before.byteLength);
  all.set(after, before.byteLength + middle.byteLength);
  return all;
}
