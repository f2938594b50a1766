/** The model of this server: opened once, and again when another file has taken its place. */
import 'server-only';
import { stat } from 'node:fs/promises';
import { safeOpenAsync } from 'safetensors-mmap';

const PATH = process.env.MODEL ?? 'model.safetensors';

// In development modules are loaded again after every change: the handle outlives them.
globalThis.openedModel ??= { version: undefined, file: undefined };
const opened = globalThis.openedModel;

/**
 * Resolves with the open file. Ask it for tensors at once, without waiting for anything else before: when a new file is
 * there this one is closed, and only tensors that were taken out of it go on working.
 */
export async function openModel() {
  const { ino, mtimeMs, size } = await stat(PATH);
  const version = `${ino} ${mtimeMs} ${size}`;
  if (opened.version !== version) {
    const before = opened.file;
    opened.version = version;
    opened.file = safeOpenAsync(PATH);
    before?.then(
      (file) => file.close(),
      () => {}, // its requests have heard of it
    );
    opened.file.catch(() => {
      // The next request tries again.
      if (opened.version === version) opened.version = undefined;
    });
  }
  return opened.file;
}
