/** What the headers of a large model show, before it is known which tensors make up each weight. */

import type { RemoteCheckpoint, ShardHeader, TensorEntry } from 'safetensors-mmap';
import { layerPlace, type Poster, posterOf } from '../poster.js';
import type { Architecture } from './architecture.js';
import { type FileInfo, filesOf, formatShape, metadataOf, partsOf } from './info.js';

/** The first info of a source. */
export interface EarlyInfo {
  /** From the metadata; null without one. */
  readonly title: string | null;
  readonly architecture: Architecture;
  readonly files: readonly FileInfo[];
  /** Roles and layers; null where names do not show which tensors are weights. */
  readonly poster: Poster | null;
}

/** Tensors from which on the weights take so long that the headers are shown first. */
export const MANY_TENSORS = 5000;

/** The only codes whose scales are known by their names. */
const FP8 = /^F8_E[45]M[23]$/;

const CODES = /^(?:[UI](?:8|16|32)|F4|F8_\w+)$/;

const SCALE = /_scale(?:_inv)?$/;

/** The roles and layers of the tensors that are no scales. */
function outlineOf(headers: readonly ShardHeader[]): Poster | null {
  const dtypes = new Set<string>();
  // Two experts are enough to fold a cell.
  const counts = new Map<string, number>();
  const entries: TensorEntry[] = [];
  for (const { tensors } of headers) {
    for (const entry of tensors) {
      dtypes.add(entry.dtype);
      if (SCALE.test(entry.name)) continue;
      const { role, layer } = layerPlace(entry.name);
      const cell = `${layer} ${role}`;
      const count = counts.get(cell) ?? 0;
      if (count < 2) entries.push(entry);
      counts.set(cell, count + 1);
    }
  }
  for (const dtype of dtypes) if (CODES.test(dtype) && !FP8.test(dtype)) return null;
  const shapes = entries.map(({ shape }) => formatShape(shape));
  const names = entries.map(({ name }) => name);
  const { layers, rows } = posterOf({ names, shapes, part: partsOf(entries, shapes) });
  // All tensors are the same one, of which nothing is known: the page needs no 100 000 positions.
  const cells = (all: readonly (readonly number[])[]) =>
    all.map(({ length }) => (length === 0 ? [] : [0]));
  return { layers, outside: [], rows: rows.map((row) => ({ ...row, cells: cells(row.cells) })) };
}

/** Returns what headers show. */
export function earlyInfo(
  checkpoint: RemoteCheckpoint,
  headers: readonly ShardHeader[],
  architecture: Architecture,
): EarlyInfo {
  return {
    title: metadataOf(checkpoint, headers).get('modelspec.title') ?? null,
    files: filesOf(headers),
    poster: outlineOf(headers),
    architecture,
  };
}
