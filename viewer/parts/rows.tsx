/**
 * Rows of a tree or a list of any length: only those in sight are in the page. One element has the focus, and names the
 * row that the keys move.
 */

import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { MAX_EXTENT, scrollScale } from './scaled.js';

const ROW = 28;

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
  mark,
  actions,
}: {
  label: string;
  count: number;
  row: (at: number) => RowFacts;
  mark: number;
  actions: RowActions;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [active, setActive] = useState(Math.max(0, mark));
  const total = count * ROW;
  const scale = scrollScale(total, height);
  const begin = Math.max(0, Math.floor((top * scale) / ROW) - MARGIN);
  const end = Math.min(count, Math.ceil((top * scale + height) / ROW) + MARGIN);

  const reveal = (at: number) => {
    const element = box.current;
    if (element === null) return;
    const y = at * ROW;
    const first = element.scrollTop * scale;
    if (y < first) element.scrollTop = y / scale;
    else if (y + ROW > first + height) element.scrollTop = (y + ROW - height) / scale;
  };
  useLayoutEffect(() => {
    const element = box.current as HTMLDivElement;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (mark < 0) return;
    setActive(mark);
    reveal(mark);
  }, [mark, count]);

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
    ArrowRight: () => (row(active).isOpen === false ? actions.open?.(active) : move(active + 1)),
    ArrowLeft: () => {
      const { isOpen, level } = row(active);
      if (isOpen) {
        actions.close?.(active);
        return;
      }
      let parent = active;
      while (parent > 0 && row(parent).level >= level) parent--;
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
          const { level, isOpen, content } = row(at);
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
                transform: `translateY(${at * ROW - top * scale + top}px)`,
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
