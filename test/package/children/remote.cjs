// The same in the way a CommonJS module does.
const { openAsBlob } = require('node:fs');
const { open, SafetensorsError, safeOpen } = require('safetensors-mmap');
const { parseSafetensorsMetadata, SafetensorsError: HubError } = require('safetensors-mmap/hub');
const { SafetensorsError: SameError } = require('safetensors-mmap/inspect');

async function run() {
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
}
run();
