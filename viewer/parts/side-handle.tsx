/** The edge of the side, which is dragged, or moved by arrow keys, to make room for names. */

import { signal } from './signal.js';

/** Pixels of the side: fewer on a small screen, where the view needs them. */
const SIDE = { min: 240, max: 640, initial: globalThis.innerWidth < 1200 ? 280 : 360 };

/** The width of the side now; it stays while the page is open. */
export const sideWidth = signal(SIDE.initial);

const STEP = 20;

function setWidth(pixels: number): void {
  sideWidth.value = Math.round(Math.min(SIDE.max, Math.max(SIDE.min, pixels)));
}

/** The handle. A double click gives the side its usual width again. */
export function SideHandle({ width }: { width: number }) {
  const keys: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => setWidth(width - STEP),
    ArrowRight: () => setWidth(width + STEP),
    Home: () => setWidth(SIDE.min),
    End: () => setWidth(SIDE.max),
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a line cannot be moved
    <div
      class="side-handle"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the tensors"
      aria-valuenow={width}
      aria-valuemin={SIDE.min}
      aria-valuemax={SIDE.max}
      tabIndex={0}
      onPointerDown={({ currentTarget, pointerId }) => currentTarget.setPointerCapture(pointerId)}
      onPointerMove={({ currentTarget, pointerId, clientX }) => {
        if (currentTarget.hasPointerCapture(pointerId)) setWidth(clientX);
      }}
      onDblClick={() => setWidth(SIDE.initial)}
      onKeyDown={(event) => {
        const act = keys[event.key];
        if (act === undefined) return;
        event.preventDefault();
        act();
      }}
    />
  );
}
