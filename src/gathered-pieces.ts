/** Small pieces of a stream, made into larger ones: a write costs as much as copying some 100 kB. */

/** Pieces are gathered up to this length, in bytes; a stream of a file gives 64 kB at a time. */
const GATHERED_BYTE_LENGTH = 2 ** 20;

/**
 * The same bytes in pieces of about 1 MiB, at least; a larger one is passed on as it is. Every piece
 * is written over, or its owner's again, when the next one is asked for. `byteLength` is that of all.
 */
export async function* gatherPieces(
  pieces: AsyncIterable<Uint8Array>,
  byteLength: number,
): AsyncGenerator<Uint8Array, void, void> {
  const room = new Uint8Array(Math.min(byteLength, GATHERED_BYTE_LENGTH));
  let filled = 0;
  for await (const piece of pieces) {
    if (filled > 0 && filled + piece.byteLength > room.byteLength) {
      yield room.subarray(0, filled);
      filled = 0;
    }
    if (piece.byteLength < room.byteLength || piece.byteLength === 0) {
      room.set(piece, filled);
      filled += piece.byteLength;
    } else {
      yield piece;
    }
  }
  if (filled > 0) yield room.subarray(0, filled);
}
