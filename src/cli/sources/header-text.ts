/** What the JSON of a header says, which was checked when the file was opened. */

import { Buffer } from 'node:buffer';
import type { ListedTensor } from './listing.js';

/** Bytes before the header: its length. */
export const PREFIX_BYTE_LENGTH = 8;

interface HeaderEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [begin: number, end: number];
}

/** What a header says of its file. */
export interface HeaderFacts {
  /** In the order of their bytes. */
  readonly tensors: readonly ListedTensor[];
  /** Empty when there are none. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Where the bytes of the tensors begin. */
  readonly dataStart: number;
  /** Length of the file. */
  readonly byteLength: number;
}

/** Reads the JSON as it stands in the file, with the spaces behind it. */
export function headerFacts(file: string, headerText: string): HeaderFacts {
  const dataStart = PREFIX_BYTE_LENGTH + Buffer.byteLength(headerText);
  let byteLength = dataStart;
  const tensors: ListedTensor[] = [];
  const header = JSON.parse(headerText) as Record<string, HeaderEntry>;
  // Keys that are numbers come first in an object, so the order is made below.
  for (const name of Object.keys(header)) {
    if (name === '__metadata__') continue;
    const { dtype, shape, data_offsets } = header[name] as HeaderEntry;
    const [begin, end] = data_offsets;
    byteLength = Math.max(byteLength, dataStart + end);
    tensors.push({
      name,
      dtype,
      shape,
      byteLength: end - begin,
      offset: dataStart + begin,
      file,
    });
  }
  // Tensors without bytes stand before the one that begins where they do.
  tensors.sort(
    (a, b) => (a.offset as number) - (b.offset as number) || a.byteLength - b.byteLength,
  );
  const values = (header as { __metadata__?: Record<string, string> | null }).__metadata__;
  return { tensors, metadata: new Map(Object.entries(values ?? {})), dataStart, byteLength };
}
