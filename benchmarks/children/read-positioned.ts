/** Reads each tensor by fs.read when it is asked for. Arguments: those of `measureReader` */
import { type FileHandle, open } from 'node:fs/promises';
import { measureReader } from './measure-reader.js';
import { PREFIX_BYTES, tensorPlaces } from './plain-header.js';

/** Linux moves at most this many bytes per call. */
const MAX_READ_BYTES = 2 ** 31 - 4096;

async function readRange(file: FileHandle, begin: number, end: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(end - begin);
  for (let done = 0; done < bytes.length; ) {
    const length = Math.min(bytes.length - done, MAX_READ_BYTES);
    const { bytesRead } = await file.read(bytes, done, length, begin + done);
    if (bytesRead === 0) throw new Error('the file ended early');
    done += bytesRead;
  }
  return bytes;
}

await measureReader(async (path) => {
  const file = await open(path);
  const prefix = await readRange(file, 0, PREFIX_BYTES);
  const dataStart = PREFIX_BYTES + Number(prefix.readBigUInt64LE());
  const header = await readRange(file, PREFIX_BYTES, dataStart);
  return tensorPlaces(header.toString(), dataStart).map(
    ({ begin, end }) =>
      () =>
        readRange(file, begin, end),
  );
});
