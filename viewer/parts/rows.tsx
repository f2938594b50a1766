/**
 * Rows of a tree or a list of any length: only those in sight are in the page. One element has the focus, and names the
 * row that the keys move.
 */

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { MAX_EXTENT, scrollScale } from './scaled.js';

/** The height of a row of one line: fingers need more of it. */
export const ROW = globalThis.matchMedia?.('(pointer: coarse)').matches ? 44 : 28;

/** Rows before and after those in sight. */
const MARGIN = 8;

/** What a row is in the tree. */
export interface RowFacts {
  /** From 1 on. */
  readonly level: number;
  /** Null for a row that has nothing below. */
  readonly isOpen: boolean | null;
  readonly content: ComponentChildren;
}

/** Where rows begin, and after the last where they end. */
function rowOffsets(count: number, heightAt: (at: number) => number): Float64Array {
  const offsets = new Float64Array(count + 1);
  for (let at = 0; at < count; at++) offsets[at + 1] = (offsets[at] as number) + heightAt(at);
  return offsets;
}

/** The last row that begins at or before a place. */
function rowAtOffset(offsets: Float64Array, y: number): number {
  let [low, high] = [0, Math.max(0, offsets.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] as number) <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** What keys and clicks do. Each gets the position of the row. */
interface RowActions {
  choose(at: number): void;
  open?(at: number): void;
  close?(at: number): void;
}

/** Shows rows. `mark` is the position of the row that is shown elsewhere, which scrolls into sight; −1 for none. */
export function Rows({
  label,
  count,
  row,
  heightAt,
  mark,
  actions,
}: {
  label: string;
  count: number;
  row: (at: number, width: number) => RowFacts;
  /** The height of a row in a list of a width; another function where heights change. */
  heightAt: (at: number, width: number) => number;
  mark: number;
  actions: RowActions;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [{ width, height }, setSize] = useState({ width: 0, height: 600 });
  const [active, setActive] = useState(Math.max(0, mark));
  const offsets = useMemo(
    () => rowOffsets(width === 0 ? 0 : count, (at) => heightAt(at, width)),
    [count, heightAt, width],
  );
  const rows = offsets.length - 1;
  const total = offsets[rows] as number;
  const scale = scrollScale(total, height);
  const begin = Math.max(0, rowAtOffset(offsets, top * scale) - MARGIN);
  const end = Math.min(rows, rowAtOffset(offsets, top * scale + height) + 1 + MARGIN);

  const reveal = (at: number) => {
    const element = box.current;
    if (element === null || at >= rows) return;
    const [y, bottom] = offsets.subarray(at, at + 2) as unknown as [number, number];
    const first = element.scrollTop * scale;
    if (y < first) element.scrollTop = y / scale;
    else if (bottom > first + height) element.scrollTop = (bottom - height) / scale;
  };
  useLayoutEffect(() => {
    const element = box.current as HTMLDivElement;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (mark < 0) return;
    setActive(mark);
    reveal(mark);
  }, [mark, offsets]);

  const move = (to: number) => {
    const at = Math.min(count - 1, Math.max(0, to));
    setActive(at);
    reveal(at);
  };
  const page = Math.max(1, Math.floor(height / ROW) - 1);
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(active + 1),
    ArrowUp: () => move(active - 1),
    PageDown: () => move(active + page),
    PageUp: () => move(active - page),
    Home: () => move(0),
    End: () => move(count - 1),
    Enter: () => actions.choose(active),
    ' ': () => actions.choose(active),
    ArrowRight: () =>
      row(active, width).isOpen === false ? actions.open?.(active) : move(active + 1),
    ArrowLeft: () => {
      const { isOpen, level } = row(active, width);
      if (isOpen) {
        actions.close?.(active);
        return;
      }
      let parent = active;
      while (parent > 0 && row(parent, width).level >= level) parent--;
      move(parent);
    },
  };
  const shown = Array.from({ length: Math.max(0, end - begin) }, (_, index) => begin + index);
  return (
    <div
      ref={box}
      class="rows"
      role="tree"
      aria-label={label}
      tabIndex={0}
      aria-activedescendant={active >= begin && active < end ? `row-${active}` : undefined}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={(event) => {
        const act = keys[event.key];
        if (act === undefined || event.ctrlKey || event.metaKey || event.altKey || count === 0)
          return;
        event.preventDefault();
        act();
      }}
    >
      <div role="presentation" style={{ height: `${Math.min(total, MAX_EXTENT)}px` }}>
        {shown.map((at) => {
          const { level, isOpen, content } = row(at, width);
          const y = offsets[at] as number;
          return (
            <div
              key={at}
              id={`row-${at}`}
              role="treeitem"
              class={at === active ? 'rows-row active' : 'rows-row'}
              aria-level={level}
              aria-posinset={at + 1}
              aria-setsize={count}
              aria-selected={at === mark}
              aria-expanded={isOpen ?? undefined}
              style={{
                height: `${(offsets[at + 1] as number) - y}px`,
                transform: `translateY(${y - top * scale + top}px)`,
                paddingLeft: `${level * 14}px`,
              }}
              onClick={() => {
                setActive(at);
                actions.choose(at);
              }}
            >
              <span class="twisty" aria-hidden="true">
                {isOpen === null ? '' : isOpen ? '▾' : '▸'}
              </span>
              {content}
            </div>
          );
        })}
      </div>
    </div>
  );
}
