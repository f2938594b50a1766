/** The header as programs read it without this package: `JSON.parse` and no check at all. */

/** The one field of a tensor's description that is needed to find its bytes. */
interface Entry {
  readonly data_offsets: readonly [number, number];
}

/** A tensor's bytes in the file: from `begin` up to `end`. */
export interface Place {
  readonly begin: number;
  readonly end: number;
}

/** Bytes before the header: its length. */
export const PREFIX_BYTES = 8;

/** Places of the tensors in the order of the file, counted from its first byte. */
export function tensorPlaces(header: string, dataStart: number): Place[] {
  const entries: Record<string, Entry> = JSON.parse(header);
  return Object.entries(entries)
    .filter(([name]) => name !== '__metadata__')
    .map(
      ([
        ,
        {
          data_offsets: [begin, end],
        },
      ]) => ({ begin: dataStart + begin, end: dataStart + end }),
    )
    .sort((a, b) => a.begin - b.begin);
}

/** Places of the tensors in a file that is in one piece of memory. */
export function tensorPlacesOf(file: Buffer): Place[] {
  const dataStart = PREFIX_BYTES + Number(file.readBigUInt64LE());
  return tensorPlaces(file.toString('utf8', PREFIX_BYTES, dataStart), dataStart);
}
