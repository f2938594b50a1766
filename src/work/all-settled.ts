/** Waits for all work on the caller's memory. */

/**
 * Waits for all promises, even after a failure: until then, work may still write into its part of the memory.
 *
 * @throws The error of the first failed promise
 */
export async function allSettled(work: readonly unknown[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) {
    if (result.status === 'rejected') throw result.reason;
  }
}
