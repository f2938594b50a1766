/** Writes one file by its layout, then puts it in the place of the old one. */

import { statSync } from 'node:fs';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { Transfer, type TransferOptions } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import type { OldFileCheck } from '../replacement/exchange.js';
import { Replacement } from '../replacement/replacement.js';
import { resolveTarget } from '../replacement/target.js';
import type { LeasedFiles } from './leased-files.js';
import type { WritableLayout } from './tensor-writes.js';
import { writeLayout } from './write-layout.js';

/** Options of a replacement. */
export interface ReplaceOptions extends TransferOptions {
  /** Whether to sync file and folder. */
  readonly durable: boolean;
  /** Whether to read the new file back and compare it before it replaces the old one. */
  readonly verify: boolean;
  /** Closes the caller's files after the last read: Windows cannot replace an open file. */
  readonly closeSources?: () => void;
  /** Throws unless the file that is at the path in the end may be replaced. */
  readonly check?: OldFileCheck | undefined;
}

/**
 * Throws for a path at which no file can be written or replaced. The file need not exist.
 *
 * @throws SafetensorsError as `Replacement.open`
 */
export function requireReplaceableFile(path: string): void {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) resolveTarget(path, path);
}

/**
 * Writes the file of the layout, off the event loop. `lease` returns the files of all tensors, or of at least one from
 * every source file; they are ended here.
 *
 * @throws Errors of `lease`
 * @throws FileChangedError when a file that tensors come from has changed, or changes meanwhile
 * @throws SafetensorsError as `Replacement.open`; `SAFETENSORS_VERIFICATION_FAILED`
 * @throws Errors of the system; errors of a stream; errors of `check`; `signal.reason`
 */
export async function replaceFile(
  path: PathLike,
  layout: WritableLayout,
  lease: () => LeasedFiles,
  options: ReplaceOptions,
): Promise<void> {
  const { location, label } = locate(path);
  const { durable, verify, closeSources, check } = options;
  const { byteLength } = layout;
  const transfer = new Transfer(byteLength, options);
  transfer.signal?.throwIfAborted();
  const sources = lease();
  try {
    const replacement = await Replacement.open(location, label, { byteLength, durable });
    try {
      await writeLayout(replacement, layout, sources, transfer, { verify });
      await runAsync(sources.verifyYielding(), transfer.signal);
      transfer.finish();
      sources.end();
      closeSources?.();
      await replacement.commit(transfer.signal, check);
    } finally {
      replacement.discard();
    }
  } finally {
    sources.end();
  }
}
