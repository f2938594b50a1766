// The contents of a folder to a reader, as comparable text.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { safeOpen } from '../../lib/index.js';

const NOTHING = ['ENOENT', 'SAFETENSORS_CHECKPOINT_NOT_FOUND', 'SAFETENSORS_NOT_IN_CACHE'];

/** The contents of a checkpoint, by path or id. */
export function contentOf(source) {
  try {
    const checkpoint = safeOpen(source, { storage: 'read' });
    try {
      const tensors = checkpoint.keys().map((name) => {
        const { dtype, shape, bytes } = checkpoint.getTensor(name);
        return [name, dtype, shape, Buffer.from(bytes).toString('base64')];
      });
      return JSON.stringify(tensors);
    } finally {
      checkpoint.close();
    }
  } catch (error) {
    return NOTHING.includes(error.code) ? 'nothing' : String(error.code ?? error);
  }
}

function fileIn(root) {
  try {
    return readFileSync(join(root, 'model.safetensors'), 'latin1');
  } catch (error) {
    return error.code;
  }
}

/** Restores an overwritten header from its backup, as docs/errors.md says. */
function fileWithBackup(root) {
  const backup = join(root, 'model.safetensors.header-backup');
  const found = fileIn(root);
  if (!existsSync(backup)) return found;
  const start = readFileSync(backup, 'latin1');
  return start + found.slice(start.length);
}

function cacheIn(root) {
  process.env.HF_HUB_CACHE = join(root, 'cache');
  return contentOf('org/model');
}

/** How an operation's target is read. */
export function readerOf({ name, isCheckpoint }) {
  if (name.includes('pipeline')) return (root) => contentOf(join(root, 'model/unet'));
  if (isCheckpoint)
    return (root) => contentOf(join(root, name.endsWith(', new') ? 'deep/model' : 'model'));
  if (name.includes('Hub cache')) return cacheIn;
  return name.endsWith('in place') ? fileWithBackup : fileIn;
}
