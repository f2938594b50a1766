/** Reads every byte as programs do without this package: fs.readFile and views. Arguments: FILE ADDON */
import { readFile } from 'node:fs/promises';
import { measureReader } from './measure-reader.js';

/** The one field of a tensor's description that is needed to find its bytes. */
interface Entry {
  readonly data_offsets: readonly [number, number];
}

/** Views of the tensors in the order of the file, by JSON.parse and without any check. */
async function tensorBytes(path: string): Promise<Uint8Array[]> {
  const file = await readFile(path);
  const dataStart = 8 + Number(file.readBigUInt64LE());
  const header: Record<string, Entry> = JSON.parse(file.toString('utf8', 8, dataStart));
  return Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([, { data_offsets }]) => data_offsets)
    .sort(([a], [b]) => a - b)
    .map(([begin, end]) => file.subarray(dataStart + begin, dataStart + end));
}

await measureReader(tensorBytes);
