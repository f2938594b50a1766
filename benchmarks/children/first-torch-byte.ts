/** What first-byte.ts prints, of a checkpoint of torch. Arguments: METHOD FILE; the parent's clock runs. */
import { openTorchCheckpoint } from 'safetensors-mmap/convert';

const [, path = ''] = process.argv.slice(2);
for (const [, { bytes }] of openTorchCheckpoint(path)) {
  console.log(bytes[0]);
  break;
}
