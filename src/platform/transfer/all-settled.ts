/** Work on memory of the caller. */

/**
 * Waits for all, also when one fails: until then some of it may still write into its part of the memory.
 *
 * @throws What the first one that failed threw
 */
export async function allSettled(work: readonly unknown[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) {
    if (result.status === 'rejected') throw result.reason;
  }
}
