/** A plot with axes: bars or lines, and under the pointer or the keys what they stand for. */

import { useMemo, useState } from 'preact/hooks';
import { themeColour, useCanvas } from './canvas.js';
import { Export } from './export.js';
import { shortNumber } from './format.js';
import { linearScale, lineLimits, logScale, type Scale } from './scale.js';

/** Values along the x axis, at 0, 1, 2 …; NaN leaves a gap. */
export interface Series {
  readonly name: string;
  readonly values: ArrayLike<number>;
  readonly colour: string;
  readonly dash?: readonly number[];
  /** Whether it is a line over the bars of the others. */
  readonly isLine?: boolean;
}

const LEFT = 64;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 36;

/** Widest bar, in pixels: the bar of a constant is a line at its value, not a wall. */
const MAX_BAR = 24;

/** Pixels that what is beyond both ends takes in one line. */
const MIN_SIDES = 320;

/** The least and the greatest of all series; of values above 0 for an axis of powers. */
function extent(series: readonly Series[], isLog: boolean): [number, number] {
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { values } of series) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
      if (value < min) min = value;
      if (value > max) max = value;
    }
  }
  return min > max ? [isLog ? 1 : 0, 1] : [min, max];
}

function drawLine(
  context: CanvasRenderingContext2D,
  { values, colour, dash = [] }: Series,
  x: (at: number) => number,
  y: (value: number) => number,
  width: number,
): void {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.setLineDash([...dash]);
  context.beginPath();
  // Of more values than pixels the greatest of each pixel is drawn: a single outlier stays in sight.
  const every = Math.max(1, Math.floor(values.length / width));
  let isDown = false;
  for (let i = 0; i < values.length; i += every) {
    let value = Number.NaN;
    for (let j = i; j < Math.min(values.length, i + every); j++) {
      const one = values[j] as number;
      if (Number.isFinite(one) && !(one <= value)) value = one;
    }
    if (Number.isNaN(value)) {
      isDown = false;
      continue;
    }
    context[isDown ? 'lineTo' : 'moveTo'](x(i), y(value));
    isDown = true;
  }
  context.stroke();
  context.setLineDash([]);
}

/** Draws series over a common axis. The table that is saved has a row for every place on it. */
export function Plot({
  name,
  series,
  kind,
  isLog = false,
  xScale,
  xTitle,
  xText,
  height = 220,
  beyond,
  onChoose,
}: {
  name: string;
  series: readonly Series[];
  kind: 'bars' | 'lines';
  isLog?: boolean;
  /** The axis that places are shown on; the places themselves by default. */
  xScale?: Scale;
  xTitle: string;
  /** What a place on the x axis is called. */
  xText: (at: number) => string;
  height?: number;
  /** What is beyond the left and the right end, which get a dashed line. */
  beyond?: readonly [left: string | undefined, right: string | undefined];
  onChoose?: (at: number) => void;
}) {
  const [active, setActive] = useState<number | null>(null);
  const count = Math.max(1, ...series.map(({ values }) => values.length));
  const [min, max] = useMemo(() => extent(series, isLog), [series, isLog]);
  const yScale = useMemo(() => {
    if (isLog) return logScale(kind === 'bars' ? Math.min(1, min) : min, max);
    if (kind === 'bars') return linearScale(0, max, 4);
    return linearScale(...lineLimits(series.flatMap(({ values }) => Array.from(values))), 4);
  }, [series, kind, isLog]);
  const draw = (context: CanvasRenderingContext2D, width: number, whole: number) => {
    const [w, h] = [width - LEFT - RIGHT, whole - TOP - BOTTOM];
    const slots = kind === 'bars' ? count : Math.max(1, count - 1);
    const x = (at: number) => LEFT + (w * at) / slots;
    const y = (value: number) => TOP + h * (1 - yScale.at(value));
    context.strokeStyle = themeColour('line');
    context.fillStyle = themeColour('muted');
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const { value, label } of yScale.ticks) {
      const at = Math.round(y(value)) + 0.5;
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(width - RIGHT, at);
      context.stroke();
      context.fillText(label, LEFT - 6, at);
    }
    context.textBaseline = 'top';
    const scale = xScale ?? linearScale(0, slots, Math.min(slots, 6));
    const marks = scale.ticks.flatMap(({ value, label }) => {
      const place = scale.at(value);
      if (xScale === undefined && !Number.isInteger(value)) return [];
      if (place < -1e-9 || place > 1 + 1e-9) return [];
      const align = place > 0.95 ? 'right' : place < 0.05 ? 'left' : 'center';
      const wide = context.measureText(label).width;
      const begin = LEFT + w * place - { left: 0, center: wide / 2, right: wide }[align];
      return [{ label, begin, end: begin + wide + 8 }];
    });
    // On a narrow screen not every mark has space for its number: every other one, then, from that of 0 on.
    const zero = Math.max(
      0,
      marks.findIndex(({ label }) => label === '0'),
    );
    let every = 1;
    const numbered = () => marks.filter((_, index) => (index - zero) % every === 0);
    const overlaps = ({ begin }: { begin: number }, index: number, all: typeof marks) =>
      begin < (all[index - 1]?.end ?? begin);
    while (numbered().some(overlaps)) every++;
    context.textAlign = 'left';
    for (const { label, begin } of numbered()) context.fillText(label, begin, TOP + h + 5);
    context.textAlign = 'right';
    context.fillText(xTitle, width - RIGHT, TOP + h + 20);
    if (active !== null) {
      context.fillStyle = themeColour('raised');
      const half = kind === 'bars' ? 0 : Math.max(1, w / slots / 2);
      context.fillRect(x(active) - half, TOP, Math.max(2, w / slots), h);
    }
    for (const one of series) {
      if (kind === 'lines' || one.isLine) {
        drawLine(context, one, kind === 'bars' ? (at) => x(at + 0.5) : x, y, w);
        continue;
      }
      context.fillStyle = one.colour;
      for (let i = 0; i < one.values.length; i++) {
        const value = one.values[i] as number;
        if (value === 0) continue;
        // A bar of one among millions is still to be seen.
        const top = Math.min(y(value), TOP + h - 1);
        // Whole pixels; narrow bars touch each other, or gaps would take most of their colour.
        const [begin, end] = [Math.round(x(i)), Math.round(x(i + 1))];
        const wide = Math.min(MAX_BAR, Math.max(1, end - begin - (w / slots < 4 ? 0 : 1)));
        const left = wide < MAX_BAR ? begin : x(i + 0.5) - wide / 2;
        context.fillRect(left, top, wide, TOP + h - top);
      }
    }
    for (const [side, text] of (beyond ?? []).entries()) {
      if (text === undefined) continue;
      const at = side === 0 ? LEFT + 0.5 : width - RIGHT - 0.5;
      context.strokeStyle = themeColour('muted');
      context.lineWidth = 1;
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(at, TOP);
      context.lineTo(at, TOP + h);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = themeColour('muted');
      context.textAlign = side === 0 ? 'left' : 'right';
      context.textBaseline = 'top';
      // On narrow screens both are wider than the plot.
      const shown = w < MIN_SIDES ? text.replace(/, to .*/, '') : text;
      context.fillText(shown, at + (side === 0 ? 5 : -5), TOP + 2);
    }
  };
  const changes = [series, kind, isLog, xTitle, active, name, beyond?.join()];
  const { ref, width } = useCanvas(draw, height, changes);
  const placeOf = (pixel: number) => {
    const place = (pixel - LEFT) / (width - LEFT - RIGHT);
    const at = kind === 'bars' ? Math.floor(place * count) : Math.round(place * (count - 1));
    return at >= 0 && at < count ? at : null;
  };
  const move = (by: number) =>
    setActive(Math.min(count - 1, Math.max(0, (active ?? (by > 0 ? -1 : count)) + by)));
  const values = (at: number) =>
    series.map((one) => `${one.name} ${shortNumber(one.values[at] ?? null)}`).join(', ');
  const rows = () =>
    Array.from({ length: count }, (_, at) => [
      xText(at),
      ...series.map((one) => one.values[at] ?? null),
    ]);
  return (
    <figure class="plot">
      <div>
        <canvas
          ref={ref}
          role="img"
          tabIndex={0}
          aria-label={`${name}: ${series.map((one) => one.name).join(', ')}, ${shortNumber(min)} to ${shortNumber(max)}. Arrow keys read the values.`}
          onPointerMove={({ offsetX }) => setActive(placeOf(offsetX))}
          onPointerLeave={() => setActive(null)}
          onClick={() => active !== null && onChoose?.(active)}
          onKeyDown={(event) => {
            if (event.key === 'ArrowRight') move(event.shiftKey ? 10 : 1);
            else if (event.key === 'ArrowLeft') move(event.shiftKey ? -10 : -1);
            else if (event.key === 'Enter' && active !== null) onChoose?.(active);
            else return;
            event.preventDefault();
          }}
        />
      </div>
      <figcaption class="row small">
        <span class="grow mono" role="status">
          {active === null ? '' : `${xText(active)}: ${values(active)}`}
        </span>
        <Export
          name={name}
          picture={() => ref.current}
          table={{ columns: [xTitle, ...series.map((one) => one.name)], rows }}
        />
      </figcaption>
    </figure>
  );
}
