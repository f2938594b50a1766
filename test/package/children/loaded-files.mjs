// Prints the files of the package that are loaded when a program has read a tensor (`read`), after the first call of a
// function that writes (`wrote`), and after that of `convert` (`converted`).

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { watchParsedFiles } from './parsed-files.mjs';

const { loaded, end } = watchParsedFiles();

const folder = mkdtempSync(join(tmpdir(), 'loaded-files-'));
try {
  const { convert, loadFile, safeOpen, saveCheckpoint, saveFile } = await import(
    '../../../lib/index.js'
  );
  const path = join(folder, 'model.safetensors');
  await saveFile(path, { t: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } });
  for (const handle of [safeOpen(path), safeOpen(path)]) {
    for await (const [, tensor] of handle.stream({ reuse: true })) tensor.toFloat32();
    handle.close();
  }
  const read = loaded();
  await saveCheckpoint(join(folder, 'saved'), loadFile(path));
  const wrote = loaded();
  await convert(path, join(folder, 'converted'));
  console.log(JSON.stringify({ read, wrote, converted: loaded() }));
} finally {
  end();
  rmSync(folder, { recursive: true });
}
