// The first calls of a process. Prints names and metadata of what was saved though the caller changed its arguments and
// closed the source, and the error of an edit of a file that changed after the call.

import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  editMetadata,
  safeOpen,
  saveCheckpoint,
  saveFile,
  serialize,
} from '../../../../lib/index.js';

const folder = mkdtempSync(join(tmpdir(), 'first-calls-'));
try {
  const source = join(folder, 'source.safetensors');
  const target = join(folder, 'target.safetensors');
  const edited = join(folder, 'edited.safetensors');
  const tensor = { dtype: 'U8', shape: [1], data: Uint8Array.of(1) };
  for (const path of [source, edited]) writeFileSync(path, serialize({ a: tensor, b: tensor }));
  const file = safeOpen(source);
  const tensors = new Map(file);
  const options = { metadata: { license: 'mit' } };
  const saving = saveFile(target, tensors, options);
  const folders = ['tensors', 'checkpoint'].map((name) => join(folder, name));
  const checkpoints = [tensors, file].map((given, i) => saveCheckpoint(folders[i], given));
  const editing = editMetadata(edited, { license: 'mit' });
  tensors.clear();
  options.metadata.license = 'other';
  file.close();
  appendFileSync(edited, 'x');
  const { code } = await editing.catch((error) => error);
  await Promise.all([saving, ...checkpoints]);
  const saved = safeOpen(target);
  const sizes = folders.map((path) => safeOpen(path).size);
  console.log(JSON.stringify({ names: saved.keys(), metadata: [...saved.metadata], sizes, code }));
  saved.close();
} finally {
  rmSync(folder, { recursive: true });
}
