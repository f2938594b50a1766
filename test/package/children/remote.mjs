// Runs in a folder that has the package installed: reads one tensor of a Blob, and prints the result as one line of JSON.
import { openAsBlob } from 'node:fs';
import { open, SafetensorsError, safeOpen } from 'safetensors-mmap';
import { SafetensorsError as HubError, parseSafetensorsMetadata } from 'safetensors-mmap/hub';
import { SafetensorsError as SameError } from 'safetensors-mmap/inspect';

const checkpoint = await open(await openAsBlob(process.argv[2]));
const tensor = await checkpoint.getTensor(process.argv[3]);
const { sharded } = await parseSafetensorsMetadata({ source: process.argv[2] });
const isSame = [SameError, HubError].every((other) => other === SafetensorsError) && !sharded;
console.log(
  JSON.stringify({
    storage: isSame ? safeOpen(process.argv[2]).storage : 'two classes',
    dtype: tensor.dtype,
    shape: tensor.shape,
    hex: Buffer.from(tensor.bytes).toString('hex'),
  }),
);
