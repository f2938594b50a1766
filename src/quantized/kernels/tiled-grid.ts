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
    let column = 0;
    for (
      ;
      column + TILE_COLUMNS <= columns;
      column += TILE_COLUMNS, from += TILE_LENGTH, next += 4
    ) {
      into[next] = tiles[from] as number;
      into[next + 1] = tiles[from + 1] as number;
      into[next + 2] = tiles[from + 2] as number;
      into[next + 3] = tiles[from + 3] as number;
    }
    for (; column < columns; column++) into[next++] = tiles[from++] as number;
  }
}
