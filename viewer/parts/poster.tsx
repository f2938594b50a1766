/** The poster on the page: cells with a popover for pointer and keys, the colour scale, and its export. */

import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useCanvas } from './canvas.js';
import { Export } from './export.js';
import { plural } from './format.js';
import {
  cellAt,
  cellBox,
  drawPoster,
  type PosterCell,
  type PosterFrame,
  type PosterPicture,
  posterCanvas,
  posterLayout,
} from './poster-picture.js';

const POPOVER = 268;

/** Shows a poster. */
export function Poster({
  name,
  picture,
  frame,
  ramp,
  legend,
  describe,
  popover,
  onChoose,
}: {
  /** Names what is saved, and the poster for screen readers. */
  name: string;
  picture: PosterPicture;
  frame: PosterFrame;
  /** The colours from one end to the other, for CSS. */
  ramp: string;
  legend?: ComponentChildren;
  /** What a cell is, in a line. */
  describe: (cell: PosterCell) => string;
  /** What is known of a cell. */
  popover: (cell: PosterCell) => ComponentChildren;
  onChoose: (tensor: number) => void;
}) {
  const { rows, layers } = picture.poster;
  const [active, setActive] = useState<PosterCell | null>(null);
  // A finger has no place between taps: the first on a cell shows what it is, the second opens it.
  const isTouch = useRef(false);
  const [width, setWidth] = useState(0);
  const layout = useMemo(() => posterLayout(picture.poster, width), [picture.poster, width]);
  const { ref } = useCanvas(
    (context, now) => {
      if (now === width) drawPoster(context, picture, layout, active);
      else setWidth(now);
    },
    layout.height,
    [picture, layout, active],
  );
  // Back may lead to another poster in this place.
  useEffect(() => {
    const clear = () => setActive(null);
    addEventListener('popstate', clear);
    return () => removeEventListener('popstate', clear);
  }, []);
  const move = (down: number, across: number) =>
    setActive({
      row: Math.min(rows.length - 1, Math.max(0, (active?.row ?? 0) + (active ? down : 0))),
      column: Math.min(
        layers.length - 1,
        Math.max(0, (active?.column ?? 0) + (active ? across : 0)),
      ),
    });
  const tensorsOf = ({ row, column }: PosterCell) => rows[row]?.cells[column] ?? [];
  const choose = (cell: PosterCell | null) => {
    const [tensor] = cell === null ? [] : tensorsOf(cell);
    if (tensor !== undefined) onChoose(tensor);
  };
  const cellOf = ({ offsetX, offsetY }: MouseEvent) =>
    cellAt(layout, layers.length, offsetX, offsetY);
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(1, 0),
    ArrowUp: () => move(-1, 0),
    ArrowRight: () => move(0, 1),
    ArrowLeft: () => move(0, -1),
    Home: () => move(0, -layers.length),
    End: () => move(0, layers.length),
    Enter: () => choose(active),
    Escape: () => setActive(null),
  };
  const models = picture.lower === undefined ? [picture] : [picture, picture.lower];
  const table = () =>
    rows.flatMap(({ role }, row) =>
      layers.map((layer, column) => {
        return [role, layer, ...models.map(({ cells }) => cells[row]?.[column] as number)];
      }),
    );
  const shown = active !== null && tensorsOf(active).length > 0 ? active : null;
  const box = shown === null ? null : cellBox(layout, shown);
  return (
    <figure class="plot">
      <div class="poster" onFocusOut={() => setActive(null)}>
        {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: a canvas has no keys by itself */}
        <canvas
          ref={ref}
          role="application"
          tabIndex={0}
          aria-label={`${name}: ${plural(rows.length, 'role')} in ${plural(layers.length, 'layer')}. Arrow keys move, Enter opens the tensor.`}
          onPointerDown={({ pointerType }) => {
            isTouch.current = pointerType === 'touch';
          }}
          onPointerMove={(event) => event.pointerType !== 'touch' && setActive(cellOf(event))}
          onPointerLeave={({ pointerType }) => pointerType !== 'touch' && setActive(null)}
          onClick={(event) => {
            const cell = cellOf(event);
            const isShown = cell?.row === active?.row && cell?.column === active?.column;
            if (isTouch.current && !isShown) setActive(cell);
            else choose(cell);
          }}
          onKeyDown={(event) => {
            const act = keys[event.key];
            if (act === undefined || event.ctrlKey || event.metaKey) return;
            event.preventDefault();
            act();
          }}
        />
        {shown !== null && box !== null && (
          <div
            class="popover"
            aria-hidden="true"
            style={{
              width: `${POPOVER}px`,
              left: `${Math.max(0, Math.min(width - POPOVER, box.x + box.w / 2 - POPOVER / 2))}px`,
              // Below the cell; above it in the lower half, where the page ends.
              ...(box.y > layout.height / 2
                ? { bottom: `${layout.height - box.y + 8}px` }
                : { top: `${box.y + box.h + 8}px` }),
            }}
          >
            {popover(shown)}
            {isTouch.current && <p class="muted small">Tap again to open</p>}
          </div>
        )}
      </div>
      <figcaption class="row small legend">
        <span class="hidden" role="status">
          {active === null ? '' : shown === null ? 'no such tensor in this layer' : describe(shown)}
        </span>
        {legend}
        <span class="grow" />
        <span class="row">
          {frame.scale.from}
          <span class="ramp" style={{ background: ramp }} />
          {frame.scale.to}
        </span>
        <Export
          name={name}
          table={{
            columns: ['role', 'layer', ...(models.length === 1 ? ['value'] : ['a', 'b'])],
            rows: table,
          }}
          picture={() => posterCanvas(picture, frame)}
        />
      </figcaption>
    </figure>
  );
}
