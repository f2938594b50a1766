/** Prints the first byte of the first tensor. Arguments: METHOD FILE; the parent's clock runs. */
import { safeOpen } from 'safetensors-mmap';

const [, path = ''] = process.argv.slice(2);
for (const [, { bytes }] of safeOpen(path)) {
  console.log(bytes[0]);
  break;
}
