// Runs in a folder that has the package installed: reads one tensor of the file it is given, in the way an ES module
// does, and prints the result as one line of JSON.
import { safeOpen } from 'safetensors-mmap';

safeOpen(process.argv[2]).close(); // warns where it is not mapped, and the next one does not
const file = safeOpen(process.argv[2]);
const tensor = file.getTensor(process.argv[3]);
console.log(
  JSON.stringify({
    storage: file.storage,
    dtype: tensor.dtype,
    shape: tensor.shape,
    hex: Buffer.from(tensor.bytes).toString('hex'),
  }),
);
file.close();
