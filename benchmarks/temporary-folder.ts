import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatByteSize } from './byte-size.js';
import { UsageError } from './command-line.js';

/** Left free on the disk, so that other programs do not fail because of a benchmark. */
const SPARE_BYTES = 500_000_000;

/** Free bytes in the folder for temporary files. */
export async function freeTemporaryBytes(): Promise<number> {
  const { bavail, bsize } = await statfs(tmpdir());
  return Math.max(0, bavail * bsize - SPARE_BYTES);
}

/**
 * Runs `body` with a new folder and removes the folder with everything in it, however `body` ends.
 *
 * @throws UsageError when the disk has not `neededBytes` free.
 */
export async function withTemporaryFolder<Result>(
  neededBytes: number,
  body: (folder: string) => Promise<Result>,
): Promise<Result> {
  const free = await freeTemporaryBytes();
  if (free < neededBytes) {
    const found = `${formatByteSize(free)} are free there (TMPDIR sets another place)`;
    throw new UsageError(`needs ${formatByteSize(neededBytes)} in ${tmpdir()}, but ${found}`);
  }
  const folder = await mkdtemp(join(tmpdir(), 'safetensors-bench-'));
  try {
    return await body(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
