/** Random tensors cut into boxes, as the safetensors files of ranks. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Dtype } from '../../support/api.js';
import { countedBytes, type Entry, fileBytes, temporaryPath } from '../../support/make-file.js';
import type { Random } from '../../support/random.js';

const DTYPES: readonly Dtype[] = ['F32', 'BF16', 'I64', 'U8', 'F64'];
const WIDTHS: Readonly<Partial<Record<Dtype, number>>> = { F32: 4, BF16: 2, I64: 8, U8: 1, F64: 8 };

/** A part of a tensor. */
export interface Box {
  readonly offsets: readonly number[];
  readonly shape: readonly number[];
}

/** A whole tensor and its boxes. */
export interface Whole {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
  readonly boxes: readonly Box[];
}

/** Cuts a box at random places, again and again. */
function cutBox(box: Box, cuts: number, random: Random): Box[] {
  const axes = box.shape.flatMap((size, axis) => (size > 1 ? [axis] : []));
  if (cuts === 0 || axes.length === 0) return [box];
  const axis = random.pick(axes);
  const size = random.from(1, (box.shape[axis] as number) - 1);
  const withSize = (sizes: readonly number[], value: number): number[] =>
    sizes.map((one, at) => (at === axis ? value : one));
  const first = { offsets: box.offsets, shape: withSize(box.shape, size) };
  const second = {
    offsets: withSize(box.offsets, (box.offsets[axis] as number) + size),
    shape: withSize(box.shape, (box.shape[axis] as number) - size),
  };
  const half = random.below(cuts);
  return [...cutBox(first, half, random), ...cutBox(second, cuts - 1 - half, random)];
}

/** Returns a random tensor of up to four dimensions. */
export function randomWhole(name: string, random: Random): Whole {
  const dtype = random.pick(DTYPES);
  const shape = Array.from({ length: random.below(5) }, () => random.from(1, 6));
  const count = shape.reduce((product, size) => product * size, 1);
  const bytes = countedBytes(count * (WIDTHS[dtype] as number)).map(() => random.below(256));
  const boxes = cutBox({ offsets: shape.map(() => 0), shape }, random.below(8), random);
  return { name, dtype, shape, bytes, boxes };
}

/** The bytes of a box, element by element. */
export function bytesOfBox({ dtype, shape, bytes }: Whole, box: Box): Uint8Array {
  const width = WIDTHS[dtype] as number;
  const found: number[] = [];
  const visit = (axis: number, element: number): void => {
    if (axis === shape.length) {
      found.push(...bytes.subarray(element * width, (element + 1) * width));
      return;
    }
    for (let i = 0; i < (box.shape[axis] as number); i++) {
      visit(axis + 1, element * (shape[axis] as number) + (box.offsets[axis] as number) + i);
    }
  };
  visit(0, 0);
  return Uint8Array.from(found);
}

/** A piece in the file of a rank. */
export interface SavedPiece {
  readonly rank: number;
  readonly name: string;
  readonly dtype: Dtype;
  readonly box: Box;
  readonly bytes: Uint8Array;
}

/** The name of a rank's file. */
export function rankFile(rank: number): string {
  return `shard-${String(rank + 1).padStart(5, '0')}-model-00001-of-00001.safetensors`;
}

/** Writes the files of all ranks into a new folder, also of those without pieces. */
export function writeRanks(ranks: number, pieces: readonly SavedPiece[]): string {
  const folder = temporaryPath('ranks');
  mkdirSync(folder);
  for (let rank = 0; rank < ranks; rank++) {
    const own = pieces.filter((piece) => piece.rank === rank);
    const info = own.map(({ name, box }) => [name, { saved_offsets: box.offsets }]);
    const entries = own.map(({ name, dtype, box, bytes }): Entry => {
      return { name, dtype, shape: [...box.shape], bytes };
    });
    const metadata = {
      format: 'pt',
      DCP_VERSION: '1.0',
      DCP_SHARDING_INFO: JSON.stringify(Object.fromEntries(info)),
    };
    writeFileSync(join(folder, rankFile(rank)), fileBytes(entries, { metadata }));
  }
  return folder;
}
