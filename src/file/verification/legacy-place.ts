/** Finds the bytes to hash separately, including those of kohya's `sshs_legacy_hash`. */

import { Buffer } from 'node:buffer';
import { type Header, PREFIX_BYTE_LENGTH } from '../../header/header.js';
import { LEGACY_HASH } from '../../header/tensor-digests.js';
import type { HashedRange } from '../../platform/io/range-hashes.js';
import { mapYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import type { ShardHeader, TensorEntry } from '../source/tensor-info.js';
import { AUTO_V1_BEGIN, type HashedLayout } from './hash-file.js';

/** Writers of safetensors pad the header with spaces, so that the tensors are aligned. */
const ALIGNMENT = 8;

/** Returns the layout of a file by its header, with these tensors to hash separately, too. */
export function hashedLayout(
  header: Pick<ShardHeader, 'dataStart' | 'text' | 'metadata'>,
  tensors: readonly Pick<TensorEntry, 'name' | 'dataOffsets'>[] = [],
): HashedLayout {
  const { dataStart, metadata } = header;
  const hasLegacy = metadata?.has(LEGACY_HASH) === true;
  const ranges = tensors.map(({ name, dataOffsets: [begin, end] }): HashedRange => {
    return { name, begin: dataStart + begin, end: dataStart + end };
  });
  // The text is decoded only for a file that needs it.
  return { dataStart, legacyBegin: hasLegacy ? legacyPlace(header.text) : null, ranges };
}

/** Returns the layout of a file, with all its tensors to hash separately. */
export function* tensorsLayout(header: Header): Work<HashedLayout> {
  const { dataStart, size } = header;
  const rangeOf = (entry: number): HashedRange => {
    const [begin, end] = [dataStart + header.begin(entry), dataStart + header.end(entry)];
    return { name: header.name(entry), begin, end };
  };
  return { ...hashedLayout(header), ranges: yield* mapYielding(Array(size).keys(), rangeOf) };
}

/**
 * Returns the position in the file. The hash is the AutoV1 of another file, which the trainer makes in memory: the
 * same tensors, but only the metadata keys that begin with `ss_`, as `safetensors.torch.save` writes them. Null when
 * its header ends after the first byte of AutoV1, because the order of its keys is unknown.
 */
function legacyPlace(headerText: string): number | null {
  const header = JSON.parse(headerText) as Record<string, object> & { __metadata__?: object };
  const metadata = Object.entries(header.__metadata__ ?? {}).filter(([key]) => /^ss_/.test(key));
  const members = Object.entries(header).map(([name, entry]) => {
    const value = name === '__metadata__' ? Object.fromEntries(metadata) : entry;
    return `${JSON.stringify(name)}:${JSON.stringify(value)}`;
  });
  if (header.__metadata__ === undefined) members.push('"__metadata__":{}');
  const byteLength = Buffer.byteLength(`{${members.join(',')}}`);
  const dataStart = PREFIX_BYTE_LENGTH + Math.ceil(byteLength / ALIGNMENT) * ALIGNMENT;
  if (dataStart > AUTO_V1_BEGIN) return null;
  const ownStart = PREFIX_BYTE_LENGTH + Buffer.byteLength(headerText);
  return ownStart + AUTO_V1_BEGIN - dataStart;
}
