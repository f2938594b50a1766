/** The values of a selection as a table that scrolls over any shape. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure } from '../parts/messages.js';
import type { Plane } from '../parts/plane.js';
import { MAX_EXTENT, scrollScale } from '../parts/scaled.js';
import { useTiles } from '../parts/use-tiles.js';
import type { OneTensor } from '../protocol.js';

const ROW = 26;
const MAX_HEIGHT = 320;
const CHARACTER = 8;
const PADDING = 20;

/** Characters of the longest usual value. */
const WIDTHS: Readonly<Record<string, number>> = {
  BOOL: 5,
  U8: 4,
  I8: 4,
  U16: 6,
  I16: 6,
  U32: 10,
  I32: 11,
  I64: 13,
  U64: 13,
  F64: 22,
  C64: 28,
};
const FLOAT_WIDTH = 14;

function cellWidth(kind: string, form: 'values' | 'bits', bits: number): number {
  const characters =
    form === 'values' ? (WIDTHS[kind] ?? FLOAT_WIDTH) : bits + Math.ceil(bits / 8) + 2;
  return characters * CHARACTER + PADDING;
}

/** Characters from the decimal point on. */
function fractionLength(text: string): number {
  const point = text.indexOf('.');
  return point === -1 ? 0 : text.length - point;
}

/** Characters of space after each value of a column that align them on the decimal point, if they fit. */
function alignments(texts: readonly string[], most: number): number[] {
  const longest = Math.max(...texts.map(fractionLength));
  return texts.map((text) =>
    text.includes('.')
      ? Math.max(0, Math.min(longest - fractionLength(text), most - text.length))
      : 0,
  );
}

/** A cell by its row and column. */
export interface PlaneCell {
  readonly row: number;
  readonly column: number;
}

/** What a grid shows. */
interface Shown {
  readonly one: OneTensor;
  readonly plane: Plane;
  /** The cell to begin at, with its neighbours around it; null for the first. */
  readonly start: PlaneCell | null;
  readonly kind: string;
  readonly bits: number;
  readonly form: 'values' | 'bits';
}

/** The values of a selection; a sentence for one that is empty. */
export function Grid(shown: Shown) {
  const { rows, columns } = shown.plane;
  if (rows * columns > 0) return <Cells {...shown} />;
  return <p class="muted">There is no value in this selection.</p>;
}

/** One row of headers and as many rows as fit, which the bars move by whole cells. */
function Cells({ one, plane, start, kind, bits, form }: Shown) {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 600, height: 400 });
  const [first, setFirst] = useState({ row: 0, column: 0 });
  const [active, setActive] = useState({ row: 0, column: 0 });
  const width = cellWidth(kind, form, bits);
  const head =
    Math.max(4, plane.rowLabel(Math.max(0, plane.rows - 1)).length) * CHARACTER + PADDING;
  const shownRows = Math.max(1, Math.floor(size.height / ROW) - 1);
  const shownColumns = Math.max(1, Math.ceil((size.width - head) / width));
  const wholeColumns = Math.max(1, Math.floor((size.width - head) / width));
  const lastRow = Math.min(plane.rows, first.row + shownRows);
  const lastColumn = Math.min(plane.columns, first.column + shownColumns);
  const { cell, failure } = useTiles(
    one,
    plane,
    form,
    [first.row, lastRow],
    [first.column, lastColumn],
  );

  useLayoutEffect(() => {
    const element = box.current as HTMLDivElement;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const extent = {
    height: (plane.rows - shownRows) * ROW + size.height,
    width: (plane.columns - wholeColumns) * width + size.width,
  };
  const scale = {
    y: scrollScale(extent.height, size.height),
    x: scrollScale(extent.width, size.width),
  };
  const onScroll = ({
    currentTarget: { scrollTop, scrollLeft },
  }: {
    currentTarget: HTMLDivElement;
  }) =>
    setFirst({
      row: Math.round(Math.min(Math.max(0, plane.rows - shownRows), (scrollTop * scale.y) / ROW)),
      column: Math.round(
        Math.min(Math.max(0, plane.columns - wholeColumns), (scrollLeft * scale.x) / width),
      ),
    });
  const scrollTo = (row: number, column: number) => {
    box.current?.scrollTo((column * width) / scale.x, (row * ROW) / scale.y);
    setFirst({ row, column });
  };
  useEffect(() => {
    if (start === null) return;
    setActive(start);
    scrollTo(
      Math.max(0, Math.min(plane.rows - shownRows, start.row - Math.floor(shownRows / 2))),
      Math.max(
        0,
        Math.min(plane.columns - wholeColumns, start.column - Math.floor(wholeColumns / 2)),
      ),
    );
  }, [start, size]);
  const move = (rows: number, columns: number) => {
    const row = Math.min(plane.rows - 1, Math.max(0, active.row + rows));
    const column = Math.min(plane.columns - 1, Math.max(0, active.column + columns));
    setActive({ row, column });
    const top = Math.min(row, Math.max(first.row, row - shownRows + 1));
    const left = Math.min(column, Math.max(first.column, column - wholeColumns + 1));
    scrollTo(top, left);
  };
  const text = cell(active.row, active.column) ?? '';
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(1, 0),
    ArrowUp: () => move(-1, 0),
    ArrowRight: () => move(0, 1),
    ArrowLeft: () => move(0, -1),
    PageDown: () => move(shownRows, 0),
    PageUp: () => move(-shownRows, 0),
    Home: () => move(0, -plane.columns),
    End: () => move(0, plane.columns),
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'c' && (event.ctrlKey || event.metaKey) && getSelection()?.isCollapsed) {
      void navigator.clipboard.writeText(text.trim());
      return;
    }
    const act = keys[event.key];
    if (act === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  };
  const rows = Array.from({ length: lastRow - first.row }, (_, at) => first.row + at);
  const columns = Array.from({ length: lastColumn - first.column }, (_, at) => first.column + at);
  const isNumber = form === 'values' && kind !== 'C64';
  const spaces = columns.map((column) => {
    const texts = rows.map((row) => cell(row, column)?.trim() ?? '');
    return isNumber ? alignments(texts, (width - PADDING) / CHARACTER) : [];
  });
  return (
    <>
      {failure !== null && <Failure error={failure} />}
      <div
        ref={box}
        class="grid"
        role="grid"
        aria-label="Values"
        aria-rowcount={plane.rows + 1}
        aria-colcount={plane.columns + 1}
        aria-activedescendant="active-cell"
        tabIndex={0}
        style={{ height: `${Math.min(MAX_HEIGHT, (plane.rows + 1) * ROW + 20)}px` }}
        onScroll={onScroll}
        onKeyDown={onKeyDown}
      >
        <div
          role="presentation"
          class="grid-extent"
          style={{
            height: `${Math.min(extent.height, MAX_EXTENT)}px`,
            width: `${Math.min(extent.width, MAX_EXTENT)}px`,
          }}
        >
          <div
            class="grid-layer"
            role="rowgroup"
            style={{ width: `${size.width}px`, height: `${size.height}px` }}
          >
            <div role="row" aria-rowindex={1} class="grid-row">
              <span role="columnheader" class="grid-head" style={{ width: `${head}px` }}>
                <span class="hidden">index</span>
              </span>
              {columns.map((column) => (
                <span
                  key={column}
                  role="columnheader"
                  aria-colindex={column + 2}
                  class="grid-head"
                  style={{ width: `${width}px` }}
                >
                  {plane.columnLabel(column)}
                </span>
              ))}
            </div>
            {rows.map((row) => (
              <div key={row} role="row" aria-rowindex={row + 2} class="grid-row">
                <span
                  role="rowheader"
                  aria-colindex={1}
                  class="grid-head"
                  style={{ width: `${head}px` }}
                >
                  {plane.rowLabel(row)}
                </span>
                {columns.map((column) => {
                  const isActive = row === active.row && column === active.column;
                  const shown = cell(row, column)?.trim() ?? '…';
                  return (
                    <span
                      key={column}
                      id={isActive ? 'active-cell' : undefined}
                      role="gridcell"
                      aria-colindex={column + 2}
                      aria-selected={isActive}
                      class={/nan|inf/.test(shown) ? 'grid-cell broken' : 'grid-cell'}
                      style={{
                        width: `${width}px`,
                        paddingRight: `calc(${PADDING / 2}px + ${spaces[column - first.column]?.[row - first.row] ?? 0}ch)`,
                      }}
                      onClick={() => setActive({ row, column })}
                    >
                      {shown}
                    </span>
                  );
                })}
              </div>
            ))}
          </div>
        </div>
      </div>
      <p class="mono small" role="status">
        {plane.indexText(active.row, active.column)} = {text.trim() || '…'}
      </p>
    </>
  );
}
