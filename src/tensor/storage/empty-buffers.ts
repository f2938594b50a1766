/** Takes the memory of buffers away. */

type BufferTransfer = (this: ArrayBuffer, byteLength: number) => ArrayBuffer;

/** Node 20 does not have it. */
const { transfer } = ArrayBuffer.prototype as { readonly transfer?: BufferTransfer };

/**
 * Empties the buffers, each by `otherwise` where the language has no way. Returns how many the language
 * emptied. On Node 24 and newer a buffer that was marked by `markAsUntransferable` keeps its memory:
 * only this call reports that, while the engine's own interface ends the process.
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
      // Marked, or without memory already.
    }
  }
  return emptied;
}
