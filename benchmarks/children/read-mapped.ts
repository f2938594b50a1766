/** Reads through safetensors-mmap. Arguments: those of `measureReader` */
import { safeOpen } from 'safetensors-mmap';
import { measureReader } from './measure-reader.js';

await measureReader((path) => {
  const file = safeOpen(path);
  return file.offsetKeys().map((name) => () => file.getTensor(name).bytes);
});
