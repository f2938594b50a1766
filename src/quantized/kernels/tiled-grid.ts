/**
 * Scales in the order of a GPU's matrix units (cuBLAS): tiles of 128 rows and 4 columns, each with four columns of 32
 * rows next to each other. Grids are padded to whole tiles.
 */

/** Rows and columns of a tile. */
const TILE_ROWS = 128;
const TILE_COLUMNS = 4;

const TILE_LENGTH = TILE_ROWS * TILE_COLUMNS;

/** Rows of a tile whose first columns are 16 bytes apart. */
const BAND_ROWS = 32;
const BAND_STRIDE = 16;

/** Copies rows of a matrix of single bytes, from `firstRow` on, out of its tiles. */
export function gatherTiles(
  tiles: Uint8Array,
  columns: number,
  firstRow: number,
  into: Uint8Array,
): void {
  const tileRowLength = Math.ceil(columns / TILE_COLUMNS) * TILE_LENGTH;
  for (let next = 0, row = firstRow; next < into.length; row++) {
    const inTile = row % TILE_ROWS;
    let from =
      Math.floor(row / TILE_ROWS) * tileRowLength +
      (inTile % BAND_ROWS) * BAND_STRIDE +
      Math.floor(inTile / BAND_ROWS) * TILE_COLUMNS;
    for (let column = 0; column < columns; column += TILE_COLUMNS, from += TILE_LENGTH) {
      const count = Math.min(TILE_COLUMNS, columns - column);
      for (let i = 0; i < count; i++) into[next++] = tiles[from + i] as number;
    }
  }
}
