/** Writes one file by its layout, then puts it in the place of the old one. */

import { statSync } from 'node:fs';
import { writeViews } from '../../platform/io/file-writes.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { type HashedRange, RangeHashes } from '../../platform/io/range-hashes.js';
import { Transfer, type TransferOptions } from '../../platform/transfer/transfer.js';
import type { Payload } from '../input/tensor-input.js';
import { Replacement } from '../replacement/replacement.js';
import { resolveTarget } from '../replacement/target.js';
import { BorrowedFiles } from './source-files.js';
import { type WritableLayout, writeLayout } from './tensor-writes.js';

/** Sums to compute while the bytes of a file are written. */
export interface SumsToWrite {
  /** Position in the file of the text of all sums. */
  readonly position: number;
  /** All tensors in the order of their bytes, as positions in the file. */
  readonly ranges: readonly HashedRange[];
}

/** Options of a replacement. */
export interface ReplaceOptions extends TransferOptions {
  /** Whether to sync file and folder. */
  readonly durable: boolean;
  /** Whether to read the new file back and compare it before it replaces the old one. */
  readonly verify: boolean;
  /** Where to write the sums of tensors, last, and what to hash. */
  readonly sums?: SumsToWrite | undefined;
  /** Closes the caller's files after the last read: Windows cannot replace an open file. */
  readonly closeSources?: () => void;
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
 * Writes the file of the layout, off the event loop. `samples` are all tensors, or at least one from every source
 * file.
 *
 * @throws FileChangedError when a file that tensors come from has changed, or changes meanwhile
 * @throws SafetensorsError as `Replacement.open`; `SAFETENSORS_VERIFICATION_FAILED`
 * @throws Errors of the system; errors of a stream; `signal.reason`
 */
export async function replaceFile(
  path: PathLike,
  layout: WritableLayout,
  samples: Iterable<{ readonly payload: Payload }>,
  options: ReplaceOptions,
): Promise<void> {
  const { location, label } = locate(path);
  const { durable, verify, sums, closeSources } = options;
  const { byteLength } = layout;
  const transfer = new Transfer(byteLength, options);
  transfer.signal?.throwIfAborted();
  const sources = new BorrowedFiles(samples);
  try {
    const replacement = await Replacement.open(location, label, { byteLength, durable });
    try {
      const hashes = new RangeHashes(sums?.ranges ?? []);
      let at = 0;
      const onBytes = (bytes: Uint8Array): void => {
        hashes.update(bytes, at);
        at += bytes.byteLength;
      };
      const how = sums === undefined ? { verify } : { verify, onBytes };
      await writeLayout(replacement, layout, sources, transfer, how);
      if (sums !== undefined) {
        const text = [...hashes.digests().values()].join('');
        await writeViews(replacement, [new TextEncoder().encode(text)], sums.position);
      }
      sources.verify();
      transfer.finish();
      sources.end();
      closeSources?.();
      await replacement.commit(transfer.signal);
    } finally {
      replacement.discard();
    }
  } finally {
    sources.end();
  }
}
