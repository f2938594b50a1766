/** Drops a file from the page cache. */
import { execFileSync } from 'node:child_process';

/**
 * Writes the file's pages back and drops them from the page cache; false where no tool does so. A
 * file system in memory keeps them all the same: compare with `residency()`.
 */
export function dropFromPageCache(path: string): boolean {
  // Only GNU dd knows the flag, which stands for posix_fadvise(POSIX_FADV_DONTNEED).
  const args = [`of=${path}`, 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0'];
  try {
    execFileSync('dd', args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
