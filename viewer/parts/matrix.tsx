/** A table of layers as coloured cells: rows are roles, columns are layers. */

import { useState } from 'preact/hooks';
import type { LayerTable } from '../layers.js';
import { themeColour, useCanvas } from './canvas.js';
import { type ColourMap, cssColour } from './colour-maps.js';
import { SavePicture, SaveTable } from './save.js';

const ROW = 20;
const BOTTOM = 24;
const MAX_LABEL = 260;
const MAX_COLUMN = 34;

/** The end of a text that fits: names differ there. */
function fitting(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let begin = 1;
  while (begin < text.length && context.measureText(`…${text.slice(begin)}`).width > width) begin++;
  return `…${text.slice(begin)}`;
}

/** Shows values of cells, NaN as no cell. `colourOf` is given what `shown` has for a cell. */
export function Matrix({
  name,
  table,
  values,
  shown,
  colourOf,
  text,
  onChoose,
}: {
  name: string;
  table: LayerTable;
  values: Float64Array;
  shown: Float64Array;
  colourOf: ColourMap;
  text: (value: number) => string;
  onChoose: (tensor: number) => void;
}) {
  const { roles, layers, cells } = table;
  const [active, setActive] = useState<{ row: number; column: number } | null>(null);
  const height = roles.length * ROW + BOTTOM;
  const layout = (width: number) => {
    const left = Math.min(MAX_LABEL, width * 0.4);
    return { left, cell: Math.min(MAX_COLUMN, (width - left) / Math.max(1, layers.length)) };
  };
  const draw = (context: CanvasRenderingContext2D, width: number) => {
    const { left, cell } = layout(width);
    context.textBaseline = 'middle';
    for (const [row, role] of roles.entries()) {
      context.fillStyle = themeColour(active?.row === row ? 'text' : 'muted');
      context.textAlign = 'right';
      context.fillText(fitting(context, role, left - 12), left - 8, row * ROW + ROW / 2);
      for (let column = 0; column < layers.length; column++) {
        const at = row * layers.length + column;
        if (Number.isNaN(values[at])) continue;
        context.fillStyle = cssColour(colourOf(shown[at] as number));
        const gap = cell > 6 ? 1 : 0;
        context.fillRect(left + column * cell, row * ROW + 1, Math.max(1, cell - gap), ROW - 2);
      }
    }
    context.fillStyle = themeColour('muted');
    context.textAlign = 'center';
    const every = Math.ceil(30 / cell);
    for (let column = 0; column < layers.length; column += every) {
      context.fillText(
        String(layers[column]),
        left + (column + 0.5) * cell,
        roles.length * ROW + BOTTOM / 2,
      );
    }
    if (active === null) return;
    context.strokeStyle = themeColour('text');
    context.lineWidth = 2;
    context.strokeRect(
      left + active.column * cell,
      active.row * ROW + 1,
      Math.max(4, cell),
      ROW - 2,
    );
  };
  const { ref, width } = useCanvas(draw, height, [table, values, shown, colourOf, active]);
  const placeOf = ({ offsetX, offsetY }: { offsetX: number; offsetY: number }) => {
    const { left, cell } = layout(width);
    const [row, column] = [Math.floor(offsetY / ROW), Math.floor((offsetX - left) / cell)];
    return row >= 0 && row < roles.length && column >= 0 && column < layers.length
      ? { row, column }
      : null;
  };
  const move = (rows: number, columns: number) =>
    setActive({
      row: Math.min(roles.length - 1, Math.max(0, (active?.row ?? 0) + rows)),
      column: Math.min(layers.length - 1, Math.max(0, (active?.column ?? 0) + columns)),
    });
  const choose = () => {
    const [tensor] =
      active === null ? [] : (cells.get(active.row * layers.length + active.column) ?? []);
    if (tensor !== undefined) onChoose(tensor);
  };
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(1, 0),
    ArrowUp: () => move(-1, 0),
    ArrowRight: () => move(0, 1),
    ArrowLeft: () => move(0, -1),
    Enter: choose,
  };
  const said = () => {
    if (active === null)
      return 'Point at a cell, or move with the arrow keys; Enter opens the tensor.';
    const value = values[active.row * layers.length + active.column] as number;
    const role = (roles[active.row] as string).replace('*', String(layers[active.column]));
    return `${role}: ${Number.isNaN(value) ? 'not known' : text(value)}`;
  };
  const rows = () =>
    roles.flatMap((role, row) =>
      layers.map((layer, column) => [role, layer, values[row * layers.length + column] as number]),
    );
  return (
    <figure class="plot">
      <div>
        <canvas
          ref={ref}
          role="application"
          tabIndex={0}
          aria-label={`${name}: ${roles.length} roles in ${layers.length} layers. Arrow keys move, Enter opens the tensor.`}
          onPointerMove={(event) => setActive(placeOf(event))}
          onPointerLeave={() => setActive(null)}
          onClick={choose}
          onKeyDown={(event) => {
            const act = keys[event.key];
            if (act === undefined) return;
            event.preventDefault();
            act();
          }}
        />
      </div>
      <figcaption class="row small">
        <span class="grow mono" role="status">
          {said()}
        </span>
        <SavePicture name={name} canvas={() => ref.current} />
        <SaveTable name={name} columns={['role', 'layer', 'value']} rows={rows} />
      </figcaption>
    </figure>
  );
}
