/** Prints the first byte of the first tensor. Arguments: FILE; the parent's clock runs. */
import { safeOpen } from 'safetensors-mmap';

const [path = ''] = process.argv.slice(2);
for (const [, tensor] of safeOpen(path)) {
  console.log(tensor.bytes[0]);
  break;
}
