/** Reads every byte through safetensors-mmap. Arguments: FILE ADDON */
import { type SafetensorsFile, safeOpen } from 'safetensors-mmap';
import { measureReader } from './measure-reader.js';

function* tensorBytes(file: SafetensorsFile): Iterable<Uint8Array> {
  for (const [, tensor] of file) yield tensor.bytes;
}

await measureReader((path) => tensorBytes(safeOpen(path)));
