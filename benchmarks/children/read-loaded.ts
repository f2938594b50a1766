/** Reads what safetensors-mmap has loaded into ordinary memory. Arguments: those of `measureReader` */
import { safeOpen } from 'safetensors-mmap';
import { measureReader } from './measure-reader.js';

await measureReader(async (path) => {
  const tensors = await safeOpen(path).load();
  return Array.from(tensors.values(), (tensor) => () => tensor.bytes);
});
