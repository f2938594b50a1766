/** Archives of seeds, taken apart to be changed: regular ones only. */
import { crc32, inflateRawSync } from 'node:zlib';
import type { ArchiveFile } from '../foreign/generated-archive.js';

/** Limit of an archive's inflated length. */
const MAX_BYTE_LENGTH = 1 << 20;

/** The files of an archive by its directory; empty unless it is a regular archive. */
export function filesOf(bytes: Buffer): ArchiveFile[] {
  try {
    const end = bytes.lastIndexOf('PK\x05\x06', undefined, 'latin1');
    const files: ArchiveFile[] = [];
    let at = bytes.readUInt32LE(end + 16);
    for (let left = bytes.readUInt16LE(end + 10); left > 0; left--) {
      const [nameLength = 0, extraLength = 0, commentLength = 0] = [28, 30, 32].map((offset) =>
        bytes.readUInt16LE(at + offset),
      );
      const local = bytes.readUInt32LE(at + 42);
      const begin = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
      const stored = bytes.subarray(begin, begin + bytes.readUInt32LE(at + 20));
      const isDeflated = bytes.readUInt16LE(at + 10) === 8;
      const data = isDeflated
        ? inflateRawSync(stored, { maxOutputLength: MAX_BYTE_LENGTH })
        : Buffer.from(stored);
      if (crc32(data) !== bytes.readUInt32LE(at + 16)) return [];
      files.push({
        name: bytes.toString('latin1', at + 46, at + 46 + nameLength),
        data,
        isDeflated,
      });
      at += 46 + nameLength + extraLength + commentLength;
    }
    return files;
  } catch {
    return [];
  }
}
