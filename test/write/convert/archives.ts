/** Zip archives as small as they can be. */
import { crc32, deflateRawSync } from 'node:zlib';

/** A file of an archive. */
export interface ArchivedFile {
  readonly name: string;
  readonly data: Buffer;
  readonly isDeflated?: boolean;
  /** Its own by default. */
  readonly crc32?: number;
}

function numbers(...given: readonly (readonly [value: number, byteLength: number])[]): Buffer {
  return Buffer.concat(
    given.map(([value, byteLength]) => {
      const bytes = Buffer.alloc(byteLength);
      bytes.writeUIntLE(value, 0, byteLength);
      return bytes;
    }),
  );
}

/** The archive of these files, in this order. */
export function writeArchive(files: readonly ArchivedFile[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name, data, isDeflated = false, crc32: checksum = crc32(data) } of files) {
    const stored = isDeflated ? deflateRawSync(data) : data;
    // Version, flags, method, time, date, checksum, both lengths, length of name and of extra fields.
    const common = numbers(
      [20, 2],
      [0, 2],
      [isDeflated ? 8 : 0, 2],
      [0, 2],
      [33, 2],
      [checksum, 4],
      [stored.length, 4],
      [data.length, 4],
      [name.length, 2],
      [0, 2],
    );
    directory.push(numbers([0x02014b50, 4], [20, 2]), common);
    directory.push(numbers([0, 2], [0, 2], [0, 2], [0, 4], [at, 4]), Buffer.from(name));
    const local = [numbers([0x04034b50, 4]), common, Buffer.from(name), stored];
    parts.push(...local);
    at += local.reduce((sum, { length }) => sum + length, 0);
  }
  const listed = Buffer.concat(directory);
  const { length } = files;
  const end = [
    [0x06054b50, 4],
    [0, 2],
    [0, 2],
    [length, 2],
    [length, 2],
  ] as const;
  return Buffer.concat([...parts, listed, numbers(...end, [listed.length, 4], [at, 4], [0, 2])]);
}
