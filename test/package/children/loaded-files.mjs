// Prints the files of the package that are loaded when a program has read a tensor (`read`), and after the first call
// of a function that writes (`wrote`).

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
  const { safeOpen, reshard, saveFileSync } = await import('../../../lib/index.js');
  const path = join(folder, 'model.safetensors');
  saveFileSync(path, { t: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } });
  for (const handle of [safeOpen(path), safeOpen(path)]) {
    for await (const [, tensor] of handle.stream({ reuse: true })) tensor.toFloat32();
    handle.close();
  }
  const read = loaded();
  await reshard(path, join(folder, 'shards'));
  console.log(JSON.stringify({ read, wrote: loaded() }));
} finally {
  session.disconnect();
  rmSync(folder, { recursive: true });
}
