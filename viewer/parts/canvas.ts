/** A canvas that is redrawn when its size, its data or the page's colours change. */

import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Draws into a box of this size in CSS pixels. */
type Draw = (context: CanvasRenderingContext2D, width: number, height: number) => void;

const colours = new Map<string, string>();

/** A colour of the design, as the theme has it now. */
export function themeColour(name: string): string {
  const known = colours.get(name);
  if (known !== undefined) return known;
  const probe = document.createElement('span');
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  colours.set(name, color);
  return color;
}

/** Whether the page is dark now; what uses it is drawn again when that changes. */
export function useDark(): boolean {
  useThemeChanges();
  return isDark();
}

/** Whether the page is dark now. */
export function isDark(): boolean {
  const [red = 0] = themeColour('ground').match(/\d+/g)?.map(Number) ?? [];
  return red < 128;
}

/** A number that changes when the colours do. */
function useThemeChanges(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const update = () => {
      colours.clear();
      setChanges((count) => count + 1);
    };
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', update);
    addEventListener('themechange', update);
    return () => {
      media.removeEventListener('change', update);
      removeEventListener('themechange', update);
    };
  }, []);
  return changes;
}

/** Gives the canvas to put into the page, and its width. `changes` are what `draw` depends on. */
export function useCanvas(
  draw: Draw,
  height: number,
  changes: readonly unknown[],
): { ref: RefObject<HTMLCanvasElement | null>; width: number } {
  const ref = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const theme = useThemeChanges();
  useLayoutEffect(() => {
    const holder = ref.current?.parentElement as HTMLElement;
    const observer = new ResizeObserver(() => setWidth(Math.floor(holder.clientWidth)));
    observer.observe(holder);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const canvas = ref.current;
    if (canvas === null || width === 0) return;
    const ratio = devicePixelRatio;
    const size = [Math.round(width * ratio), Math.round(height * ratio)] as const;
    // Setting a size makes new memory, which takes long on every move of a drag.
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext('2d') as CanvasRenderingContext2D;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = '12px system-ui, sans-serif';
    // A picture that is saved has the ground of the page, not none.
    context.fillStyle = themeColour('surface');
    context.fillRect(0, 0, width, height);
    draw(context, width, height);
  }, [width, height, theme, ...changes]);
  return { ref, width };
}
