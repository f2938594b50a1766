/** Strips at the edges of a heat map: how large the values of each row and each column are. */

import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { themeColour, useCanvas } from '../parts/canvas.js';
import { edgeRms, greatestOf } from '../parts/edge-rms.js';
import { shortNumber } from '../parts/format.js';
import type { Plane } from '../parts/plane.js';
import { sampledPosition } from '../selection.js';
import type { Heat } from '../worker/heat.js';

/** Pixels from the heat map to the end of the longest bar. */
const THICKNESS = 24;

/** The positions of one direction: which a picture has, and which are in sight. */
interface Extent {
  readonly begin: number;
  readonly step: number;
  readonly from: number;
  readonly count: number;
}

function Strip({
  of,
  rms,
  extent,
  height,
  label,
}: {
  of: 'row' | 'column';
  rms: Float64Array;
  extent: Extent;
  height: number;
  label: string;
}) {
  const { begin, step, from, count } = extent;
  const { ref } = useCanvas(
    (context, width) => {
      const greatest = rms[greatestOf(rms) ?? 0] as number;
      const scale = (of === 'row' ? height : width) / count;
      context.fillStyle = themeColour('other');
      for (const [at, value] of rms.entries()) {
        if (!(value > 0)) continue;
        // Edges are whole pixels: bars side by side are one area.
        const place = Math.round((begin + at * step - from) * scale);
        const size = Math.max(1, Math.round((begin + (at + 1) * step - from) * scale) - place);
        const length = Math.max(1, (value / greatest) * THICKNESS);
        if (of === 'row') context.fillRect(0, place, length, size);
        else context.fillRect(place, height - length, size, length);
      }
    },
    height,
    [rms, begin, step, from, count],
  );
  return (
    <div>
      <canvas ref={ref} role="img" aria-label={label} />
    </div>
  );
}

/** Placeholder until the values are read. */
const EMPTY = {
  window: { rows: [0, 0], columns: [0, 0] },
  ...{ values: new Float32Array(), rows: 0, columns: 0, rowStep: 1, columnStep: 1 },
} as const;

/** Adds strips above and to the right of a heat map, with the greatest of each in words. */
export function HeatEdges({
  picture,
  sight,
  plane,
  height,
  children,
}: {
  picture: Heat | null;
  sight: { readonly [side in 'row' | 'column' | 'rows' | 'columns']: number };
  plane: Plane;
  height: number;
  children: ComponentChildren;
}) {
  const heat = picture ?? EMPTY;
  const [rows, columns] = useMemo(() => [edgeRms(heat, 'row'), edgeRms(heat, 'column')], [heat]);
  const [top, bottom] = heat.window.rows;
  const [left, right] = heat.window.columns;
  /** `greatest 0.3 in row 5`. */
  const greatest = (of: 'row' | 'column'): string => {
    const rms = of === 'row' ? rows : columns;
    const at = greatestOf(rms);
    if (at === null) return 'no finite values';
    const [begin, end, step] =
      of === 'row' ? [top, bottom, heat.rowStep] : [left, right, heat.columnStep];
    const position = sampledPosition(at, [begin, end], step);
    const name = of === 'row' ? plane.rowLabel(position) : plane.columnLabel(position);
    return `greatest ${shortNumber(rms[at] as number)} in ${of} ${name}`;
  };
  const [ofRows, ofColumns] = [greatest('row'), greatest('column')];
  // Rows without finite values have columns without them.
  const caption =
    ofRows === ofColumns ? ofRows : `${ofRows} and ${ofColumns.replace('greatest ', '')}`;
  return (
    <>
      <div class="edges">
        <Strip
          of="column"
          rms={columns}
          extent={{ begin: left, step: heat.columnStep, from: sight.column, count: sight.columns }}
          height={THICKNESS}
          label={`RMS of columns: ${ofColumns}`}
        />
        <div class="heat">{children}</div>
        <Strip
          of="row"
          rms={rows}
          extent={{ begin: top, step: heat.rowStep, from: sight.row, count: sight.rows }}
          height={height}
          label={`RMS of rows: ${ofRows}`}
        />
      </div>
      <p class="muted small">
        Bars at the edges: RMS of the finite values{' '}
        {heat.rowStep > 1 || heat.columnStep > 1 ? 'in this sample' : 'shown'}
        {picture !== null && `, ${caption}`}.
      </p>
    </>
  );
}
