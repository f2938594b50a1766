/** The extra fields of a header: a list of number, length and bytes. */

/** The field that has sizes of 4 GiB and more. */
const ZIP64 = 0x0001;

/** The field that Info-ZIP writes for names that are not ASCII. */
const UNICODE_NAME = 0x7075;

/**
 * Other fields of known writers, with their longest length: padding of torch and of Android,
 * times and owners of Info-ZIP and of Windows, the mark of jar.
 */
const KNOWN_FIELDS: ReadonlyMap<number, number> = new Map([
  [0x4246, 0xffff],
  [0xd935, 0xffff],
  [0x5455, 13],
  [0x5855, 12],
  [0x7855, 4],
  [0x7875, 24],
  [0x000a, 36],
  [0xcafe, 0],
]);

/** Version and CRC-32 stand before the name. */
const UNICODE_NAME_AT = 5;

/** The extra fields that count. */
interface ExtraFields {
  /** 64-bit numbers, without their meaning. */
  readonly zip64: DataView | undefined;
  /** UTF-8 of the name. */
  readonly unicodeName: Uint8Array | undefined;
  /** The number of an unknown field, if any. */
  readonly unknown: number | undefined;
}

/** Undefined when the fields do not fill the bytes exactly, or when one that counts comes twice. */
export function parseExtraFields(bytes: Uint8Array): ExtraFields | undefined {
  let zip64: DataView | undefined;
  let unicodeName: Uint8Array | undefined;
  let unknown: number | undefined;
  let at = 0;
  while (at < bytes.length) {
    const begin = at + 4;
    if (begin > bytes.length) return undefined;
    const id = uint16(bytes, at);
    at = begin + uint16(bytes, at + 2);
    if (at > bytes.length) return undefined;
    if (id === ZIP64) {
      if (zip64 !== undefined) return undefined;
      zip64 = dataViewOf(bytes.subarray(begin, at));
    } else if (id === UNICODE_NAME) {
      if (unicodeName !== undefined) return undefined;
      unicodeName = bytes.subarray(begin, at).subarray(UNICODE_NAME_AT);
    } else if (at - begin > (KNOWN_FIELDS.get(id) ?? -1)) {
      unknown ??= id;
    }
  }
  return { zip64, unicodeName, unknown };
}

/** Returns the message for an unknown field. */
export function describeExtraField(id: number): string {
  return `expected extra fields that are known, found number 0x${id.toString(16)}, or a long one`;
}

function uint16(bytes: Uint8Array, at: number): number {
  return (bytes[at] as number) + 256 * (bytes[at + 1] as number);
}

/** A view of the same bytes. */
export function dataViewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

/** Reads an unsigned 64-bit number; above 2^53 the nearest double, which lies beyond any file. */
export function uint64(view: DataView, at: number): number {
  return Number(view.getBigUint64(at, true));
}
