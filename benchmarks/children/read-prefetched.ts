/** Reads through safetensors-mmap after a prefetch of everything. Arguments: those of `measureReader` */
import { safeOpen } from 'safetensors-mmap';
import { measureReader } from './measure-reader.js';

await measureReader(async (path) => {
  const file = safeOpen(path);
  await file.prefetch();
  return file.offsetKeys().map((name) => () => file.getTensor(name).bytes);
});
