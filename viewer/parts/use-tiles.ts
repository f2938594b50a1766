/** The cells of a table, fetched tile by tile when they come into sight. */

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type CallError, call } from '../client.js';
import type { OneTensor } from '../protocol.js';
import type { Plane } from './plane.js';

const TILE_ROWS = 16;
const TILE_COLUMNS = 20;

/** Tiles that are kept: some screens, 2 MB of texts. */
const MAX_TILES = 200;

interface Tile {
  readonly controller: AbortController;
  texts: readonly string[] | null;
}

/** Gives the text of a cell; undefined while it is on its way. */
export function useTiles(
  { id, tensor }: OneTensor,
  plane: Plane,
  form: 'values' | 'bits',
  rows: readonly [number, number],
  columns: readonly [number, number],
): { cell: (row: number, column: number) => string | undefined; failure: CallError | null } {
  const tiles = useRef(new Map<string, Tile>()).current;
  const [, setArrived] = useState(0);
  const [failure, setFailure] = useState<CallError | null>(null);
  // A row that is wrapped comes as a whole.
  const width = plane.columns <= TILE_COLUMNS ? Math.max(1, plane.columns) : TILE_COLUMNS;

  useLayoutEffect(() => {
    setFailure(null);
    return () => {
      for (const { controller } of tiles.values()) controller.abort();
      tiles.clear();
    };
  }, [id, tensor, plane, form]);

  useLayoutEffect(() => {
    const wanted = new Set<string>();
    for (let top = Math.floor(rows[0] / TILE_ROWS); top * TILE_ROWS < rows[1]; top++) {
      for (let left = Math.floor(columns[0] / width); left * width < columns[1]; left++) {
        wanted.add(`${top},${left}`);
      }
    }
    for (const [key, tile] of tiles) {
      if (wanted.has(key)) continue;
      // What people have scrolled past is not worth its requests.
      if (tile.texts === null) tile.controller.abort();
      if (tile.texts === null || tiles.size > MAX_TILES) tiles.delete(key);
    }
    for (const key of wanted) {
      if (tiles.has(key)) continue;
      const [top, left] = key.split(',').map(Number) as [number, number];
      const tile: Tile = { controller: new AbortController(), texts: null };
      tiles.set(key, tile);
      const { signal } = tile.controller;
      const axes = plane.part(
        [top * TILE_ROWS, Math.min(plane.rows, (top + 1) * TILE_ROWS)],
        [left * width, Math.min(plane.columns, (left + 1) * width)],
      );
      call('cells', { id, tensor, axes, form }, { signal }).then(
        ({ texts }) => {
          tile.texts = texts;
          setArrived((count) => count + 1);
        },
        (error) => signal.aborted || setFailure(error),
      );
    }
  }, [id, tensor, plane, form, rows[0], rows[1], columns[0], columns[1]]);

  const cell = (row: number, column: number): string | undefined => {
    const [top, left] = [Math.floor(row / TILE_ROWS), Math.floor(column / width)];
    const inTile = Math.min(width, plane.columns - left * width);
    return tiles.get(`${top},${left}`)?.texts?.[
      (row - top * TILE_ROWS) * inTile + column - left * width
    ];
  };
  return { cell, failure };
}
