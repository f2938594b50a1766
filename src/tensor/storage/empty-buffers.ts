/** Detaches buffers, so that their memory is gone. */

type BufferTransfer = (this: ArrayBuffer, byteLength: number) => ArrayBuffer;

/** Missing on Node 20. */
const { transfer } = ArrayBuffer.prototype as { readonly transfer?: BufferTransfer };

/**
 * Empties the buffers with `ArrayBuffer.prototype.transfer`, or with `otherwise` where the runtime lacks it.
 * Returns how many `transfer` emptied. On Node 24 and newer a buffer marked by `markAsUntransferable` keeps its
 * memory: only `transfer` reports that, while the engine's own interface ends the process.
 */
export function emptyBuffers(
  buffers: readonly ArrayBuffer[],
  otherwise: (buffer: ArrayBuffer) => void,
): number {
  let emptied = 0;
  for (const buffer of buffers) {
    try {
      if (transfer === undefined) {
        otherwise(buffer);
      } else {
        transfer.call(buffer, 0);
        emptied++;
      }
    } catch {
      // Marked as untransferable, or detached already.
    }
  }
  return emptied;
}
