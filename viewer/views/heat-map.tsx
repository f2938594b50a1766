/** A heat map of two axes, which is dragged and zoomed: sampled from afar, exact from near. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { isDark, themeColour, useCanvas } from '../parts/canvas.js';
import { cssRamp, divergingMap } from '../parts/colour-maps.js';
import { Export } from '../parts/export.js';
import { shortNumber } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import type { Plane } from '../parts/plane.js';
import { useCall } from '../parts/use-call.js';
import { type Axis, remainingAxes } from '../selection.js';
import type { Heat, HeatWindow } from '../worker/heat.js';
import { HeatEdges } from './heat-edges.js';

const HEIGHT = 264;

/** Cells of the picture: of more elements one of several is shown. */
const MAX_CELLS = 400;

/** Zoomed in furthest, an element is this many pixels wide. */
const MAX_CELL = 24;

/** The part of the plane that is in sight; positions need not be whole. */
interface Sight {
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

/** Draws values into an image of one pixel each. */
function imageOf({ values, rows, columns }: Heat, limit: number): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [columns, rows];
  const image = new ImageData(columns, rows);
  const colour = divergingMap(limit, isDark());
  const { data } = image;
  for (let at = 0; at < values.length; at++) {
    [data[4 * at], data[4 * at + 1], data[4 * at + 2]] = colour(values[at] as number);
    data[4 * at + 3] = 255;
  }
  canvas.getContext('2d')?.putImageData(image, 0, 0);
  return canvas;
}

/** `1 of 2 rows, 1 of 8 columns`. */
function oneOf({ rowStep, columnStep }: Heat): string {
  const steps = [
    [rowStep, 'rows'],
    [columnStep, 'columns'],
  ] as const;
  return steps.flatMap(([step, of]) => (step > 1 ? `1 of ${step} ${of}` : [])).join(', ');
}

/** Marks a value that is NaN or infinite, which lies between the values of a sample. */
function drawBroken(context: CanvasRenderingContext2D, x: number, y: number): void {
  context.strokeStyle = themeColour('nan');
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, 9, 0, 2 * Math.PI);
  for (const [dx, dy] of [
    [1, 0],
    [-1, 0],
    [0, 1],
    [0, -1],
  ] as const) {
    context.moveTo(x + 5 * dx, y + 5 * dy);
    context.lineTo(x + 16 * dx, y + 16 * dy);
  }
  context.stroke();
}

function clampedSight(sight: Sight, { rows, columns }: Plane, width: number): Sight {
  const shownRows = Math.min(rows, Math.max(sight.rows, Math.min(rows, HEIGHT / MAX_CELL)));
  const shownColumns = Math.min(
    columns,
    Math.max(sight.columns, Math.min(columns, width / MAX_CELL)),
  );
  return {
    rows: shownRows,
    columns: shownColumns,
    row: Math.min(rows - shownRows, Math.max(0, sight.row)),
    column: Math.min(columns - shownColumns, Math.max(0, sight.column)),
  };
}

function windowOf({ row, column, rows, columns }: Sight, plane: Plane): HeatWindow {
  return {
    rows: [Math.floor(row), Math.min(plane.rows, Math.ceil(row + rows))],
    columns: [Math.floor(column), Math.min(plane.columns, Math.ceil(column + columns))],
    maxRows: MAX_CELLS,
    maxColumns: MAX_CELLS,
  };
}

function Legend({ limit }: { limit: number }) {
  const ramp = cssRamp(divergingMap(limit, isDark()), -limit, limit);
  return (
    <span class="row small mono legend">
      {shortNumber(-limit)}
      <span class="ramp" style={{ background: ramp }} />
      {shortNumber(limit)}
    </span>
  );
}

/** Which values are shown where two sources have a tensor. */
const SHOWN = ['a', 'b', 'a − b'] as const;

/** Twice a second; people who want less motion press the buttons. */
const BLINK_MS = 500;

/** What of two sources is shown, in turn while it blinks. */
function useShown(hasOther: boolean) {
  const [choice, setChoice] = useState<(typeof SHOWN)[number]>('a');
  const [isBlinking, setBlinking] = useState(false);
  useEffect(() => {
    if (!isBlinking) return;
    const swap = () => setChoice((before) => (before === 'a' ? 'b' : 'a'));
    swap();
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) {
      setBlinking(false);
      return;
    }
    const timer = setInterval(swap, BLINK_MS);
    return () => clearInterval(timer);
  }, [isBlinking]);
  const shown = hasOther ? choice : 'a';
  const show = (next: typeof choice) => {
    setBlinking(false);
    setChoice(next);
  };
  return { shown, show, isBlinking, setBlinking };
}

/** Ends of the range of colours. */
const RANGES = { most: '99.8 % of the values', full: 'All values', set: 'Set …' } as const;

/** Shows a selection of two axes; with another source its values, too, and the differences. */
export function HeatMap({
  id,
  other,
  tensor,
  axes,
  plane,
  broken,
}: {
  id: number;
  other: number | null;
  tensor: string;
  axes: readonly Axis[];
  plane: Plane;
  /** Where a value is NaN or infinite. */
  broken: { readonly row: number; readonly column: number } | null;
}) {
  const whole: Sight = { row: 0, column: 0, rows: plane.rows, columns: plane.columns };
  const [sight, setSight] = useState(whole);
  const [pointed, setPointed] = useState<{ row: number; column: number } | null>(null);
  const drag = useRef<{ x: number; y: number; from: Sight } | null>(null);
  const window = windowOf(sight, plane);
  const { shown, show, isBlinking, setBlinking } = useShown(other !== null);
  const isDifference = shown === 'a − b';
  // A call each: while a window is being read, the picture is that of the same values in the window before.
  const useHeat = (of: number | null, minus: number | null) =>
    useCall('heat', of === null ? null : { id: of, tensor, axes, window, minus }, {
      delay: 60,
      keep: true,
    });
  // Both are there before they blink.
  const ofFirst = useHeat(isDifference ? null : id, null);
  const ofSecond = useHeat(isDifference ? null : other, null);
  const ofDifference = useHeat(isDifference ? id : null, other);
  const calls = { a: ofFirst, b: ofSecond, 'a − b': ofDifference };
  const { result, failure, isRunning } = calls[shown];
  const picture = failure === null ? result : null;
  // Colours must not change their meaning while people zoom, and mean the same for a and b.
  const known = useRef<{ values?: Heat; differences?: Heat }>({}).current;
  const kind = isDifference ? 'differences' : 'values';
  if (picture !== null) known[kind] ??= picture;
  const limits = known[kind] ?? null;
  const [range, setRange] = useState<keyof typeof RANGES>('most');
  const [own, setOwn] = useState('');
  const limit =
    limits === null
      ? null
      : range === 'most'
        ? limits.limit
        : (range === 'set' && Number(own) > 0 && Number(own)) || limits.most;
  const dark = isDark();
  const image = useMemo(
    () => (picture === null ? null : imageOf(picture, limit ?? 1)),
    [picture, limit, dark],
  );

  const draw = (context: CanvasRenderingContext2D, width: number) => {
    if (picture === null || image === null) return;
    const { rowStep, columnStep } = picture;
    const { rows, columns } = picture.window;
    context.imageSmoothingEnabled = false;
    const [x, y] = [width / sight.columns, HEIGHT / sight.rows];
    context.drawImage(
      image,
      (columns[0] - sight.column) * x,
      (rows[0] - sight.row) * y,
      image.width * columnStep * x,
      image.height * rowStep * y,
    );
    if (broken !== null)
      drawBroken(
        context,
        (broken.column + 0.5 - sight.column) * x,
        (broken.row + 0.5 - sight.row) * y,
      );
    if (pointed === null) return;
    context.strokeStyle = themeColour('text');
    context.lineWidth = 2;
    const [left, top] = [(pointed.column - sight.column) * x, (pointed.row - sight.row) * y];
    context.strokeRect(left - 1, top - 1, Math.max(4, x) + 2, Math.max(4, y) + 2);
  };
  const { ref, width } = useCanvas(draw, HEIGHT, [image, sight, pointed, broken]);
  const look = (next: Sight) => setSight(clampedSight(next, plane, width));
  const zoom = (factor: number, x = 0.5, y = 0.5) => {
    const next = clampedSight(
      { ...sight, rows: sight.rows * factor, columns: sight.columns * factor },
      plane,
      width,
    );
    look({
      ...next,
      row: sight.row + (sight.rows - next.rows) * y,
      column: sight.column + (sight.columns - next.columns) * x,
    });
  };
  const shift = (rows: number, columns: number) =>
    look({
      ...sight,
      row: sight.row + rows * sight.rows,
      column: sight.column + columns * sight.columns,
    });
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => shift(0.1, 0),
    ArrowUp: () => shift(-0.1, 0),
    ArrowRight: () => shift(0, 0.1),
    ArrowLeft: () => shift(0, -0.1),
    '+': () => zoom(0.5),
    '=': () => zoom(0.5),
    '-': () => zoom(2),
    '0': () => setSight(whole),
  };
  const cellAt = ({ offsetX, offsetY }: { offsetX: number; offsetY: number }) => ({
    row: Math.floor(sight.row + (offsetY / HEIGHT) * sight.rows),
    column: Math.floor(sight.column + (offsetX / width) * sight.columns),
  });
  const valueAt = (at: { row: number; column: number }): string => {
    if (picture === null) return '';
    const { window: of, rows, columns, rowStep, columnStep, values } = picture;
    const row = Math.floor((at.row - of.rows[0]) / rowStep);
    const column = Math.floor((at.column - of.columns[0]) / columnStep);
    if (row < 0 || column < 0 || row >= rows || column >= columns) return '';
    const isExact = rowStep === 1 && columnStep === 1;
    return `${isExact ? '' : 'near '}${plane.indexText(at.row, at.column)} ${isExact ? '=' : '≈'} ${shortNumber(values[row * columns + column] ?? null)}`;
  };
  const isSampled = picture !== null && (picture.rowStep > 1 || picture.columnStep > 1);
  const [down, across] = remainingAxes(axes) as [number, number];
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow whole">Heat map</h2>
        {other !== null && (
          <fieldset class="tabs">
            <legend class="hidden">Values</legend>
            {SHOWN.map((one) => (
              <button
                key={one}
                type="button"
                aria-pressed={one === shown}
                onClick={() => show(one)}
              >
                {one}
              </button>
            ))}
            <button
              type="button"
              aria-pressed={isBlinking}
              onClick={() => setBlinking(!isBlinking)}
            >
              Blink
            </button>
          </fieldset>
        )}
        <button type="button" aria-label="Zoom in" onClick={() => zoom(0.5)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => zoom(2)}>
          −
        </button>
        <button type="button" onClick={() => setSight(whole)}>
          Whole
        </button>
        <Export name={`heat map of ${tensor}`} picture={() => ref.current} />
      </div>
      <p class="muted small" role="status">
        {isSampled
          ? `Sampled: ${oneOf(picture)}. Zoom in for all values.`
          : picture !== null && 'Exact: every value is shown.'}
        {isRunning && ' Reading …'}
      </p>
      {failure !== null && <Failure error={failure} />}
      <HeatEdges picture={picture} sight={sight} plane={plane} height={HEIGHT}>
        <canvas
          ref={ref}
          role="application"
          tabIndex={0}
          aria-label={`Heat map: axis ${down} down, axis ${across} across. Arrow keys move, plus and minus zoom, 0 shows all.`}
          onKeyDown={(event) => {
            const act = keys[event.key];
            if (act === undefined || event.ctrlKey || event.metaKey) return;
            event.preventDefault();
            act();
          }}
          onWheel={(event) => {
            // Without a key the wheel scrolls the page.
            if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
            event.preventDefault();
            zoom(
              event.deltaY + event.deltaX > 0 ? 1.25 : 0.8,
              event.offsetX / width,
              event.offsetY / HEIGHT,
            );
          }}
          onDblClick={({ offsetX, offsetY }) => zoom(0.5, offsetX / width, offsetY / HEIGHT)}
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            drag.current = { x: event.offsetX, y: event.offsetY, from: sight };
          }}
          onPointerMove={(event) => {
            const { current } = drag;
            if (current === null) {
              setPointed(cellAt(event));
              return;
            }
            look({
              ...sight,
              row: current.from.row - ((event.offsetY - current.y) / HEIGHT) * sight.rows,
              column: current.from.column - ((event.offsetX - current.x) / width) * sight.columns,
            });
          }}
          onPointerUp={() => {
            drag.current = null;
          }}
          onPointerLeave={() => setPointed(null)}
        />
      </HeatEdges>
      <p class="mono small" role="status">
        {pointed === null
          ? 'Drag to pan; double-click, or Ctrl and the wheel, to zoom.'
          : valueAt(pointed)}
      </p>
      <div class="row small">
        {limit !== null && <Legend limit={limit} />}
        <label class="row">
          Colours
          <select
            value={range}
            onChange={({ currentTarget }) => setRange(currentTarget.value as keyof typeof RANGES)}
          >
            {Object.entries(RANGES).map(([key, label]) => (
              <option key={key} value={key}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {range === 'set' && (
          <input
            type="number"
            min="0"
            step="any"
            aria-label="Strongest colour from"
            value={own}
            placeholder={shortNumber(limits?.limit ?? null)}
            onInput={({ currentTarget }) => setOwn(currentTarget.value)}
          />
        )}
      </div>
    </section>
  );
}
