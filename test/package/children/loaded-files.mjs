// Prints the files of the package that are loaded when a program has read a tensor and saved one synchronously (`read`),
// when it has saved and edited a file (`saved`), and when it has resharded a checkpoint (`wrote`).

import { mkdtempSync, rmSync } from 'node:fs';
import { Session } from 'node:inspector';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

const files = new Set();
const session = new Session();
session.connect();
session.on('Debugger.scriptParsed', ({ params: { url } }) => {
  if (/\/lib\/[\w-]+\.js$/.test(url)) files.add(basename(url));
});
session.post('Debugger.enable');
const loaded = () => [...files].toSorted();

const folder = mkdtempSync(join(tmpdir(), 'loaded-files-'));
try {
  const { editMetadata, openCheckpoint, reshard, safeOpen, saveFile, saveFileSync } = await import(
    '../../../lib/index.js'
  );
  const path = join(folder, 'model.safetensors');
  const tensors = { t: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } };
  saveFileSync(path, tensors);
  for (const handle of [safeOpen(path), openCheckpoint(path)]) {
    for await (const [, tensor] of handle.stream({ reuse: true })) tensor.toFloat32();
    handle.close();
  }
  const read = loaded();
  await saveFile(path, tensors);
  await editMetadata(path, { license: 'mit' });
  const saved = loaded();
  await reshard(path, join(folder, 'shards'));
  console.log(JSON.stringify({ read, saved, wrote: loaded() }));
} finally {
  session.disconnect();
  rmSync(folder, { recursive: true });
}
