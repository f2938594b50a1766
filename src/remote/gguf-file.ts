/** Remote GGUF files: their headers, and the names of all files of a split model. */

import { FormatError, SafetensorsError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import { GgufContents } from '../foreign/gguf/header/contents.js';
import type { HeaderFile } from '../foreign/gguf/header/header-bytes.js';
import { readGgufHeader } from '../foreign/gguf/header/read-header.js';
import { splitNames } from '../foreign/gguf/header/split-names.js';
import { call, immediate, runAsync } from '../work/work.js';
import type { FileStart, RemoteFile } from './remote-file.js';

export { requireTensorCount } from '../foreign/gguf/header/split-names.js';

/**
 * Reads and checks the header of a GGUF file, whose first bytes are at hand. A longer header takes requests of at least
 * 2 MiB, each for as many bytes as all before it.
 *
 * @throws As `readGgufHeader`; the errors of the requests
 */
export async function fetchGguf(
  file: RemoteFile,
  { bytes, fileByteLength }: FileStart,
  maxHeaderByteLength: number | undefined,
  signal: AbortSignal,
): Promise<GgufContents> {
  const context = { path: file.path };
  const read: HeaderFile['read'] = (begin, end) => {
    if (end <= bytes.length) return immediate(() => bytes.subarray(begin, end));
    return call({
      async: async (ends) => {
        const target = allocate(Uint8Array, end - begin, context);
        const present = bytes.subarray(begin, end);
        target.set(present);
        await file.readInto(target.subarray(present.length), begin + present.length, {
          signal: ends,
        });
        return target;
      },
    });
  };
  const reading = readGgufHeader(
    { byteLength: fileByteLength, read },
    { maxHeaderByteLength },
    context,
  );
  const header = await runAsync(reading, signal);
  if (header.isBigEndian) {
    const message = 'big-endian GGUF files are read from a path only: download the file first';
    throw new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  return new GgufContents(header, fileByteLength);
}

/**
 * Returns the names of all files of a model, given the header of one.
 *
 * @throws As `splitNames`; SafetensorsError `SAFETENSORS_MISSING_SHARDS` for one of several files without a folder
 */
export function ggufNames(
  { values }: GgufContents,
  fileName: string,
  { path, hasFolder }: { readonly path: string; readonly hasFolder: boolean },
): string[] {
  const names = splitNames(fileName, values, path);
  if (names.length === 1 || hasFolder) return names;
  const message = `the model has ${names.length} files, of which this is one: open it by its address or path`;
  throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path });
}
