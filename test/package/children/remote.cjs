// The same in the way a CommonJS module does.
const { openAsBlob } = require('node:fs');
const { SafetensorsError, safeOpen } = require('safetensors-mmap');
const { openRemote, SafetensorsError: SameError } = require('safetensors-mmap/remote');

async function run() {
  const checkpoint = await openRemote(await openAsBlob(process.argv[2]));
  const tensor = await checkpoint.getTensor(process.argv[3]);
  console.log(
    JSON.stringify({
      storage: SafetensorsError === SameError ? safeOpen(process.argv[2]).storage : 'two classes',
      dtype: tensor.dtype,
      shape: tensor.shape,
      hex: Buffer.from(tensor.bytes).toString('hex'),
    }),
  );
}
run();
