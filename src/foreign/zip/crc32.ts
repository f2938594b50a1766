/** CRC-32, the checksum of archives. */

/** The polynomial, its bits in reverse. */
const POLYNOMIAL = 0xedb88320;

/** CRC-32 of the single bytes; made when it is first used. */
let table: Int32Array | undefined;

/** CRC-32 of the bytes. */
export function crc32(bytes: Uint8Array): number {
  table ??= makeTable();
  let crc = -1;
  for (let at = 0; at < bytes.length; at++) {
    crc = (table[(crc ^ (bytes[at] as number)) & 0xff] as number) ^ (crc >>> 8);
  }
  return ~crc >>> 0;
}

function makeTable(): Int32Array {
  const made = new Int32Array(256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    made[byte] = crc;
  }
  return made;
}
