/** The tensors of a source: folded to a tree, or found and sorted as a list. */

import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call } from '../client.js';
import { lineEnds, matchesIn, type NamePart, nameLines } from '../names.js';
import { kindColour } from '../parts/colours.js';
import { Export } from '../parts/export.js';
import { formatBytes, formatInteger, plural } from '../parts/format.js';
import { Name, nameColumns } from '../parts/name.js';
import { countedNoun, type OpenSource } from '../parts/open-sources.js';
import { ROW, type RowFacts, Rows } from '../parts/rows.js';
import { addressWith, go, useAddress, viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import type { Found, Order } from '../worker/find.js';
import type { TreeRow } from '../worker/tree.js';

const ORDERS: readonly { order: Order; label: string }[] = [
  { order: 'name', label: 'By name' },
  { order: 'offset', label: 'By offset' },
  { order: 'size', label: 'By size' },
];

/** Pixels between two lines of a name, and above and below it. */
const LINE = 17;
const PADDING = 11;

/** Pixels of a row that are not its name: margins, in the tree also the marks, the size and steps of levels. */
const LIST_MARGINS = 28;
const TREE_MARGINS = 126;
const STEP = 14;
const SIZE = 68;

/** About the width of a letter of a note. */
const NOTE_LETTER = 7;

/** Before the first search is done. */
const NONE: Found = {
  positions: new Uint32Array(),
  ends: { prefix: 0, suffix: 0 },
  longest: 0,
};

function showTensor(name: string): void {
  go(viewAddress('tensor', { tensor: name }));
}

/** Pixels for the label of a row of the tree, and for its note. A label that wraps takes the place of the size. */
function treeRoom(label: string, level: number, width: number): { room: number; hasSize: boolean } {
  const room = width - TREE_MARGINS - level * STEP;
  const hasSize = label.length <= nameColumns(room);
  return { room: hasSize ? room : room + SIZE, hasSize };
}

/** As much of a note as there is room for next to a label: first the shape goes, then the dtype. */
function fittingNote(note: string, columns: number, label: string, room: number): string {
  const left = label.length > columns ? 0 : room * (1 - label.length / columns);
  const [first = ''] = note.split(' ');
  const isDtype = /^\D/.test(first);
  return (
    [note, ...(isDtype ? [first] : [])].find((text) => text.length * NOTE_LETTER <= left) ?? ''
  );
}

function plainLines(label: string, columns: number): NamePart[][] {
  return nameLines(label, columns, [], { prefix: label.length, suffix: 0 });
}

/** A line of the tree at its level. */
interface PlacedRow {
  readonly row: TreeRow;
  readonly level: number;
}

/** The lines in sight: below each that is open those which are known. */
function placedRows(
  rows: readonly TreeRow[],
  below: ReadonlyMap<number, readonly TreeRow[]>,
  closed: ReadonlySet<number>,
  level = 1,
): PlacedRow[] {
  return rows.flatMap((row) => {
    const children = closed.has(row.node) ? undefined : below.get(row.node);
    return [
      { row, level },
      ...(children === undefined ? [] : placedRows(children, below, closed, level + 1)),
    ];
  });
}

function Tree({ source, tensor }: { source: OpenSource; tensor: string | undefined }) {
  const [below, setBelow] = useState<ReadonlyMap<number, readonly TreeRow[]>>(new Map());
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set());
  const { result: top } = useCall('tree', { id: source.id, node: null });
  const open = async (node: number) => {
    setClosed((before) => new Set([...before].filter((one) => one !== node)));
    if (below.has(node)) return;
    const rows = await call('tree', { id: source.id, node });
    setBelow((before) => new Map([...before, [node, rows]]));
    // One branch alone is no choice.
    if (rows.length === 1 && rows[0]?.hasChildren) void open(rows[0].node);
  };
  useEffect(() => {
    // A model is one branch, and some next to it: what is in it is worth a look.
    for (const { node, tensors } of top ?? []) {
      if (tensors > source.list.names.length / 2 && tensors > 1) void open(node);
    }
  }, [top]);
  useEffect(() => {
    if (tensor === undefined || top === null) return;
    void call('branches', { id: source.id, tensor }).then((branches) => {
      const opened = new Set(branches.map(([node]) => node));
      setBelow((before) => new Map([...before, ...branches]));
      setClosed((before) => new Set([...before].filter((node) => !opened.has(node))));
    });
  }, [top, tensor]);
  const rows = useMemo(() => placedRows(top ?? [], below, closed), [top, below, closed]);
  const isOpen = ({ node, hasChildren }: TreeRow) =>
    hasChildren ? below.has(node) && !closed.has(node) : null;
  const close = (at: number) =>
    setClosed((before) => new Set([...before, (rows[at] as PlacedRow).row.node]));
  const heightAt = useCallback(
    (at: number, width: number) => {
      const { row, level } = rows[at] as PlacedRow;
      const { room } = treeRoom(row.label, level, width);
      const { length } = lineEnds(row.label, nameColumns(room));
      return ROW + LINE * (length - 1);
    },
    [rows],
  );
  const rowAt = (at: number, width: number): RowFacts => {
    const { row, level } = rows[at] as PlacedRow;
    const kind = row.note?.split(' ')[0];
    const { room, hasSize } = treeRoom(row.label, level, width);
    const columns = nameColumns(room);
    const note = row.note ?? plural(row.tensors, countedNoun(source.overview));
    return {
      level,
      isOpen: isOpen(row),
      content: (
        <>
          {kind !== undefined && (
            <span class="swatch" style={{ background: kindColour(kind, source.list.kinds) }} />
          )}
          <Name label={row.label} lines={plainLines(row.label, columns)} />
          {hasSize && (
            <>
              <span class="note">{fittingNote(note, columns, row.label, room)}</span>
              <span class="bytes">{formatBytes(row.byteLength)}</span>
            </>
          )}
        </>
      ),
    };
  };
  return (
    <Rows
      label="Tensors by layer"
      count={rows.length}
      row={rowAt}
      heightAt={heightAt}
      mark={rows.findIndex(({ row }) => row.name !== null && row.name === tensor)}
      actions={{
        choose: (at) => {
          const { row } = rows[at] as PlacedRow;
          if (row.name !== null && !row.hasChildren) showTensor(row.name);
          else if (isOpen(row)) close(at);
          else void open(row.node);
        },
        open: (at) => void open((rows[at] as PlacedRow).row.node),
        close,
      }}
    />
  );
}

function List({
  source,
  found,
  find,
  tensor,
}: {
  source: OpenSource;
  found: Found;
  find: string;
  tensor: string | undefined;
}) {
  const { list } = source;
  const { positions, ends, longest } = found;
  const nameAt = (at: number) => list.names[positions[at] as number] as string;
  const mark = useMemo(
    () => (tensor === undefined ? -1 : positions.indexOf(source.at.get(tensor) ?? 2 ** 32)),
    [found, tensor],
  );
  const heightAt = useCallback(
    (at: number, width: number) => {
      const columns = nameColumns(width - LIST_MARGINS);
      if (longest <= columns) return LINE * 2 + PADDING;
      const name = list.names[positions[at] as number] as string;
      // Most names need no search for words in them.
      const lines =
        name.length <= columns ? 1 : lineEnds(name, columns, matchesIn(name, find)).length;
      return LINE * (lines + 1) + PADDING;
    },
    [found, find],
  );
  const rowAt = (at: number, width: number): RowFacts => {
    const position = positions[at] as number;
    const name = nameAt(at);
    const kind = list.kinds[list.kind[position] as number] as string;
    const columns = nameColumns(width - LIST_MARGINS);
    // Names without a common part are not all strong.
    const common = ends.prefix + ends.suffix > 0 ? ends : { prefix: name.length, suffix: 0 };
    const content = (
      <span class="hit">
        <Name label={name} lines={nameLines(name, columns, matchesIn(name, find), common)} />
        <span class="row">
          <span class="swatch" style={{ background: kindColour(kind, list.kinds) }} />
          <span class="note">{`${kind} ${list.shapes[position]}`}</span>
          <span class="bytes">{formatBytes(list.byteLength[position] as number)}</span>
        </span>
      </span>
    );
    return { level: 1, isOpen: null, content };
  };
  return (
    <Rows
      label="Tensors"
      count={positions.length}
      row={rowAt}
      heightAt={heightAt}
      mark={mark}
      actions={{ choose: (at) => showTensor(nameAt(at)) }}
    />
  );
}

const COLUMNS = ['name', 'dtype', 'shape', 'elements', 'bytes', 'offset', 'file'];

function* tableRows({ list }: OpenSource, found: Iterable<number>) {
  for (const at of found) {
    yield [
      list.names[at] as string,
      list.kinds[list.kind[at] as number] as string,
      list.shapes[at] as string,
      list.elements[at] as number,
      list.byteLength[at] as number,
      list.offset[at] as number,
      list.files[list.file[at] as number] as string,
    ];
  }
}

/** The tensors with their search. */
export function Tensors({ source }: { source: OpenSource }) {
  const { find = '', sort = 'tree', tensor } = useAddress();
  const order = ORDERS.find((one) => one.order === sort)?.order ?? 'name';
  const isTree = find.trim() === '' && !ORDERS.some((one) => one.order === sort);
  // Sorting 100 000 names takes half a second, and the tree needs none.
  const search = isTree ? null : { id: source.id, text: find, order };
  const { result: found, isRunning } = useCall('find', search, { keep: true });
  const { names } = source.list;
  const box = useRef<HTMLDivElement>(null);
  return (
    <div ref={box} class="tensors">
      <div class="tensors-head">
        <input
          type="search"
          id="search"
          aria-label="Search tensors"
          placeholder="Search: words of a name"
          value={find}
          onInput={({ currentTarget }) =>
            go(addressWith({ find: currentTarget.value }), { replace: true })
          }
          onKeyDown={(event) => {
            // Hits of the words before are no hits.
            const first = search !== null && !isRunning ? found?.positions[0] : undefined;
            if (event.key === 'ArrowDown') {
              event.preventDefault();
              box.current?.querySelector<HTMLElement>('[role=tree]')?.focus();
            } else if (event.key === 'Enter' && first !== undefined)
              showTensor(names[first] as string);
          }}
        />
        <div class="row">
          <select
            aria-label="Order"
            value={isTree ? 'tree' : order}
            onChange={({ currentTarget }) =>
              go(addressWith({ sort: currentTarget.value, find }), { replace: true })
            }
          >
            <option value="tree" disabled={find.trim() !== ''}>
              By layer
            </option>
            {ORDERS.map((one) => (
              <option key={one.order} value={one.order}>
                {one.label}
              </option>
            ))}
          </select>
          <span class="grow muted small" role="status">
            {find.trim() === ''
              ? plural(names.length, countedNoun(source.overview))
              : found !== null && `${formatInteger(found.positions.length)} found`}
          </span>
          <Export
            name="tensors"
            table={{
              columns: COLUMNS,
              rows: () => tableRows(source, isTree ? names.keys() : (found ?? NONE).positions),
            }}
          />
        </div>
      </div>
      {!isTree && found?.positions.length === 0 && <p class="muted">No tensor matches.</p>}
      {isTree ? (
        <Tree key={source.id} source={source} tensor={tensor} />
      ) : (
        <List source={source} found={found ?? NONE} find={find} tensor={tensor} />
      )}
    </div>
  );
}
