/** Draws posters: on the page, and as pictures to save. */

import type { Poster, PosterRow } from '../poster.js';
import { themeColour } from './canvas.js';
import { inkOn } from './colour-maps.js';
import { fittingLabels } from './fitting-labels.js';

/** What a cell has in addition to its colour. Colour-blind readers see it, too: each has a shape. */
export type Mark = 'broken' | 'constant' | 'outlier' | null;

/** What a poster shows. */
export interface PosterPicture {
  readonly poster: Poster;
  /** Values of cells by row; NaN is not known. */
  readonly cells: readonly Float64Array[];
  /** Values by tensor. */
  readonly values: ArrayLike<number>;
  /** The colour of a value in a row. */
  colourOf(row: number, value: number): string;
  /** A value that is printed into its cell. */
  text(value: number): string;
  /** What rows end with, and what that is. */
  readonly ends: readonly string[];
  readonly endTitle: string;
  markOf(tensor: number): Mark;
  /** Whether cells of 0 are empty, as those of tensors without a difference. */
  readonly isZeroEmpty: boolean;
  /** The same of a second model, which has the lower half of every cell. */
  readonly lower?: PosterPicture;
}

/** A cell by its row and column. */
export interface PosterCell {
  readonly row: number;
  readonly column: number;
}

/** Places of rows and columns, in pixels. */
export interface PosterLayout {
  readonly left: number;
  readonly step: number;
  readonly tops: readonly number[];
  readonly heights: readonly number[];
  readonly height: number;
  /** Pixels for the ends of rows; 0 where there is no space. */
  readonly end: number;
}

/** Smaller cells have no text: numbers in some of them only would be read as marks. */
const LEAST = { w: 40, h: 15 };

const GAP = 8;
const TICKS = 22;
const STRIPE = 4;

/** Columns that have space for numbers. */
const LABELLED_STEP = 48;

/** About the width of a letter of a label. */
const LETTER = 6.5;

/** Widest column: few layers need no whole page. */
const MAX_STEP = 96;

/** Heights of rows of matrices, of vectors and of experts, by the number of rows. */
function heightsFor(rows: number): readonly [number, number, number] {
  if (rows <= 14) return [30, 20, 44];
  if (rows <= 32) return [22, 16, 40];
  return rows <= 64 ? [16, 13, 30] : [14, 13, 16];
}

/** Lays out a poster. Vectors are lower than matrices, experts are higher; parts are apart. */
export function posterLayout({ rows, layers }: Poster, width: number): PosterLayout {
  const isNarrow = width < 560;
  const longest = rows.reduce((most, { label }) => Math.max(most, label.length), 0);
  const end = isNarrow ? 0 : 84;
  // As wide as the longest label, if that leaves enough for the cells.
  const most = isNarrow
    ? Math.max(124, width - 7 * layers.length)
    : Math.max(width * 0.24, width - end - LABELLED_STEP * layers.length);
  const left = Math.min(STRIPE + 20 + LETTER * longest, isNarrow ? 220 : 340, most);
  const step = Math.min(MAX_STEP, (width - left - end) / Math.max(1, layers.length));
  const [matrix, vector, experts] = heightsFor(rows.length);
  let y = 0;
  const heights = rows.map(({ isMatrix, isFolded }) =>
    isFolded ? experts : isMatrix ? matrix : vector,
  );
  const tops = rows.map(({ part }, row) => {
    if (row > 0 && rows[row - 1]?.part !== part) y += GAP;
    const top = y;
    y += heights[row] as number;
    return top;
  });
  return { left, step, tops, heights, end, height: y + TICKS };
}

/** Where a cell is. Edges are whole pixels, so no column is missing or doubled. */
export function cellBox(
  { left, step, tops, heights }: PosterLayout,
  { row, column }: PosterCell,
): { x: number; y: number; w: number; h: number } {
  const edge = (at: number): number => Math.round(left + at * step);
  const gap = step < 6 ? 0 : 1;
  const [x, y] = [edge(column), tops[row] as number];
  return { x, y, w: edge(column + 1) - x - gap, h: (heights[row] as number) - 1 };
}

/** The cell at a place. */
export function cellAt(
  { left, step, tops, heights }: PosterLayout,
  columns: number,
  x: number,
  y: number,
): PosterCell | null {
  const column = Math.floor((x - left) / step);
  const row = tops.findIndex((top, at) => y >= top && y < top + (heights[at] as number));
  return row >= 0 && column >= 0 && column < columns ? { row, column } : null;
}

const labelsOfLayouts = new WeakMap<PosterLayout, readonly string[]>();

/** The labels of a layout, measured once: posters are drawn again for each move of the pointer. */
function labelsOf(
  context: CanvasRenderingContext2D,
  rows: readonly PosterRow[],
  layout: PosterLayout,
): readonly string[] {
  const found =
    labelsOfLayouts.get(layout) ??
    fittingLabels(
      rows.map(({ label }) => label),
      (text) => context.measureText(text).width <= layout.left - STRIPE - 16,
    );
  labelsOfLayouts.set(layout, found);
  return found;
}

function drawLabel(
  context: CanvasRenderingContext2D,
  { part, isMatrix }: PosterRow,
  text: string,
  isActive: boolean,
  box: { y: number; h: number },
): void {
  context.fillStyle = themeColour(part);
  context.fillRect(0, box.y, STRIPE, box.h + 1);
  context.textAlign = 'left';
  const last = text.lastIndexOf('.') + 1;
  const middle = box.y + box.h / 2 + 0.5;
  context.fillStyle = themeColour('muted');
  context.fillText(text.slice(0, last), STRIPE + 8, middle);
  context.fillStyle = themeColour(isMatrix || isActive ? 'text' : 'muted');
  const before = context.measureText(text.slice(0, last)).width;
  context.fillText(text.slice(last), STRIPE + 8 + before, middle);
}

type Box = ReturnType<typeof cellBox>;

function drawHatch(context: CanvasRenderingContext2D, { x, y, w, h }: Box): void {
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.fillStyle = themeColour('raised');
  context.fillRect(x, y, w, h);
  context.strokeStyle = themeColour('muted');
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - h; at < x + w; at += 5) {
    context.moveTo(at, y + h);
    context.lineTo(at + h, y);
  }
  context.stroke();
  context.restore();
}

/** The values of a cell with several tensors, the greatest at the top: at most one band for a pixel. */
function drawBands(
  context: CanvasRenderingContext2D,
  values: readonly number[],
  { x, y, w, h }: Box,
  colourOf: (value: number) => string,
): void {
  const sorted = Float64Array.from(values).sort().reverse();
  const count = Math.min(sorted.length, h);
  for (let band = 0; band < count; band++) {
    context.fillStyle = colourOf(
      sorted[Math.floor(((band + 0.5) * sorted.length) / count)] as number,
    );
    const top = Math.round((band * h) / count);
    context.fillRect(x, y + top, w, Math.round(((band + 1) * h) / count) - top);
  }
}

/** A text in the middle of a cell, on a ground if it is over other things. */
function drawText(
  context: CanvasRenderingContext2D,
  text: string,
  { x, y, w, h }: Box,
  ink: string,
  ground: string | null,
): void {
  const width = context.measureText(text).width;
  if (width + 2 > w || w < LEAST.w || h < LEAST.h) return;
  if (ground !== null) {
    context.fillStyle = ground;
    const wide = Math.min(w, width + 6);
    context.fillRect(x + (w - wide) / 2, y + h / 2 - 7, wide, 14);
  }
  context.fillStyle = ink;
  context.textAlign = 'center';
  context.fillText(text, x + w / 2, y + h / 2 + 0.5);
}

/** A cell without a tensor. */
function drawDot(context: CanvasRenderingContext2D, { x, y, w, h }: Box): void {
  context.fillStyle = themeColour('line-strong');
  context.fillRect(Math.round(x + w / 2) - 1, Math.round(y + h / 2) - 1, 2, 2);
}

function drawCell(
  context: CanvasRenderingContext2D,
  picture: PosterPicture,
  at: PosterCell,
  box: Box,
): void {
  const { poster, cells, values, colourOf, text, markOf, isZeroEmpty } = picture;
  const { x, y, w, h } = box;
  const row = poster.rows[at.row] as PosterRow;
  const tensors = row.cells[at.column] as readonly number[];
  const value = (cells[at.row] as Float64Array)[at.column] as number;
  const marks = new Set(tensors.map(markOf));
  const isEmpty = isZeroEmpty && value === 0;
  const known = tensors.map((one) => values[one] as number).filter((one) => !Number.isNaN(one));
  if (marks.has('constant')) {
    drawHatch(context, box);
    drawText(context, text(value), box, themeColour('text'), themeColour('raised'));
  } else if (known.length === 0) {
    context.fillStyle = themeColour('raised');
    context.fillRect(x, y, w, h);
  } else if (!isEmpty && known.length > 1) {
    drawBands(context, known, box, (one) => colourOf(at.row, one));
  } else if (!isEmpty) {
    const colour = colourOf(at.row, value);
    context.fillStyle = colour;
    context.fillRect(x, y, w, h);
    if (!marks.has('broken')) drawText(context, text(value), box, inkOn(colour), null);
  }
  if (w >= 5) {
    context.strokeStyle = themeColour(isEmpty ? 'line-strong' : 'cell');
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  }
  if (marks.has('outlier')) {
    context.fillStyle = themeColour('text');
    context.beginPath();
    context.moveTo(x + w, y);
    context.lineTo(x + w, y + 7);
    context.lineTo(x + w - 7, y);
    context.fill();
  }
  if (marks.has('broken')) {
    context.strokeStyle = themeColour('nan');
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(1, w - 2), h - 2);
    drawText(context, 'NaN', box, themeColour('on-nan'), themeColour('nan'));
  }
}

/** Layers with a number below them: every 1, 2, 5, 10 …, so that they are apart. */
function tickColumns(count: number, step: number): number[] {
  const every = [1, 2, 5, 10, 20, 50, 100].find((one) => one * step >= 24) ?? 200;
  return Array.from({ length: count }, (_, column) => column).filter((one) => one % every === 0);
}

/** Draws a poster from the left upper corner on. */
export function drawPoster(
  context: CanvasRenderingContext2D,
  picture: PosterPicture,
  layout: PosterLayout,
  active: PosterCell | null,
): void {
  const { rows, layers } = picture.poster;
  const { left, step, tops, heights, end, height } = layout;
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  const right = left + step * layers.length;
  const labels = labelsOf(context, rows, layout);
  for (const [at, row] of rows.entries()) {
    const [y, h] = [tops[at] as number, (heights[at] as number) - 1];
    drawLabel(context, row, labels[at] as string, active?.row === at, { y, h });
    for (const column of layers.keys()) {
      const cell = { row: at, column };
      const box = cellBox(layout, cell);
      if (row.cells[column]?.length === 0) drawDot(context, box);
      else if (picture.lower === undefined) drawCell(context, picture, cell, box);
      else {
        const half = Math.ceil(box.h / 2);
        drawCell(context, picture, cell, { ...box, h: half });
        drawCell(context, picture.lower, cell, { ...box, y: box.y + half, h: box.h - half });
      }
    }
    if (end === 0) continue;
    context.textAlign = 'left';
    context.fillStyle = themeColour('muted');
    context.fillText(picture.ends[at] ?? '', right + 10, y + h / 2 + 0.5);
  }
  context.fillStyle = themeColour('muted');
  const middle = height - TICKS / 2;
  context.textAlign = 'left';
  context.fillText('layer', STRIPE + 8, middle);
  if (end > 0) context.fillText(picture.endTitle, right + 10, middle);
  context.textAlign = 'center';
  for (const column of tickColumns(layers.length, step)) {
    const text = String(layers[column]);
    // No number is cut at the right edge.
    const last = right + end - context.measureText(text).width / 2;
    context.fillText(text, Math.min(left + (column + 0.5) * step, last), middle);
  }
  if (active === null) return;
  const { x, y, w, h } = cellBox(layout, active);
  context.strokeStyle = themeColour('text');
  context.lineWidth = 2;
  context.strokeRect(x - 1, y - 1, Math.max(4, w + 2), h + 2);
}

/** What a saved picture has around the poster. */
export interface PosterFrame {
  readonly title: string;
  readonly info: string;
  /** What the colours are, from one end to the other. */
  readonly scale: { readonly title: string; readonly from: string; readonly to: string };
  readonly rampColour: (place: number) => string;
  readonly note: string;
}

const SAVED = { width: 1200, margin: 44, top: 108, bottom: 60, ratio: 2 };

/** A picture to save: the poster with the name of the model, the scale of its colours, and what it is of. */
export function posterCanvas(picture: PosterPicture, frame: PosterFrame): HTMLCanvasElement {
  const { width, margin, top, bottom, ratio } = SAVED;
  const layout = posterLayout(picture.poster, width - 2 * margin);
  const height = top + layout.height + bottom;
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.scale(ratio, ratio);
  context.fillStyle = themeColour('surface');
  context.fillRect(0, 0, width, height);
  const write = (text: string, font: string, colour: string, x: number, y: number) => {
    context.font = `${font} system-ui, sans-serif`;
    context.fillStyle = themeColour(colour);
    context.fillText(text, x, y);
  };
  write(frame.title, '600 28px', 'text', margin, 60);
  write(frame.info, '14px', 'muted', margin, 86);
  context.textAlign = 'right';
  write(frame.scale.title, '12px', 'muted', width - margin, 60);
  const [bar, y] = [220, 76];
  write(frame.scale.to, '12px', 'muted', width - margin, y + 9);
  const barEnd = width - margin - context.measureText(frame.scale.to).width - 8;
  for (let at = 0; at < bar; at++) {
    context.fillStyle = frame.rampColour(at / (bar - 1));
    context.fillRect(barEnd - bar + at, y, 1, 10);
  }
  write(frame.scale.from, '12px', 'muted', barEnd - bar - 8, y + 9);
  write('safetensors-mmap viewer', '12px', 'muted', width - margin, height - 24);
  context.textAlign = 'left';
  write(frame.note, '12px', 'muted', margin, height - 24);
  context.translate(margin, top);
  drawPoster(context, picture, layout, null);
  return canvas;
}
