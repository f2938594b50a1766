/** The tensors of a source: folded to a tree, or found and sorted as a list. */

import { useEffect, useMemo, useState } from 'preact/hooks';
import { call } from '../client.js';
import { kindColour } from '../parts/colours.js';
import { formatBytes, formatInteger, plural } from '../parts/format.js';
import { countedNoun, type OpenSource } from '../parts/open-sources.js';
import { type RowFacts, Rows } from '../parts/rows.js';
import { SaveTable } from '../parts/save.js';
import { addressWith, go, useAddress, viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import type { Order } from '../worker/find.js';
import type { TreeRow } from '../worker/tree.js';

const ORDERS: readonly { order: Order; label: string }[] = [
  { order: 'name', label: 'By name' },
  { order: 'offset', label: 'By offset' },
  { order: 'size', label: 'By size' },
];

/** Letters at the end of a name that are not left out: names differ there. */
const TAIL = 20;

function showTensor(name: string): void {
  go(viewAddress('tensor', { tensor: name }));
}

function Line({
  label,
  note,
  bytes,
  colour,
}: {
  label: string;
  note: string;
  bytes: number;
  colour: string | null;
}) {
  return (
    <>
      {colour !== null && <span class="swatch" style={{ background: colour }} />}
      {/* The name for screen readers in one piece: the two below would be two words. */}
      <span class="hidden">{label}</span>
      <span class="name" title={label} aria-hidden="true">
        <span>{label.slice(0, -TAIL)}</span>
        <span>{label.slice(-TAIL)}</span>
      </span>
      <span class="note">{note}</span>
      <span class="bytes">{formatBytes(bytes)}</span>
    </>
  );
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
  const rowAt = (at: number): RowFacts => {
    const { row, level } = rows[at] as PlacedRow;
    const kind = row.note?.split(' ')[0];
    return {
      level,
      isOpen: isOpen(row),
      content: (
        <Line
          label={row.label}
          note={row.note ?? plural(row.tensors, countedNoun(source.overview))}
          bytes={row.byteLength}
          colour={kind === undefined ? null : kindColour(kind, source.list.kinds)}
        />
      ),
    };
  };
  return (
    <Rows
      label="Tensors by layer"
      count={rows.length}
      row={rowAt}
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
  tensor,
}: {
  source: OpenSource;
  found: Uint32Array;
  tensor: string | undefined;
}) {
  const { list } = source;
  const nameAt = (at: number) => list.names[found[at] as number] as string;
  const mark = useMemo(
    () => (tensor === undefined ? -1 : found.indexOf(source.at.get(tensor) ?? 2 ** 32)),
    [found, tensor],
  );
  const rowAt = (at: number): RowFacts => {
    const position = found[at] as number;
    const kind = list.kinds[list.kind[position] as number] as string;
    const content = (
      <Line
        label={nameAt(at)}
        note={`${kind} ${list.shapes[position]}`}
        bytes={list.byteLength[position] as number}
        colour={kindColour(kind, list.kinds)}
      />
    );
    return { level: 1, isOpen: null, content };
  };
  return (
    <Rows
      label="Tensors"
      count={found.length}
      row={rowAt}
      mark={mark}
      actions={{ choose: (at) => showTensor(nameAt(at)) }}
    />
  );
}

const COLUMNS = ['name', 'dtype', 'shape', 'elements', 'bytes', 'offset', 'file'];

function* tableRows({ list }: OpenSource, found: Uint32Array) {
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
  const { result: found } = useCall('find', { id: source.id, text: find, order }, { keep: true });
  const count = found?.length ?? source.list.names.length;
  return (
    <div class="tensors">
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
              ? plural(count, countedNoun(source.overview))
              : `${formatInteger(count)} found`}
          </span>
          <SaveTable
            name="tensors"
            columns={COLUMNS}
            rows={() => tableRows(source, found ?? new Uint32Array())}
          />
        </div>
      </div>
      {isTree ? (
        <Tree key={source.id} source={source} tensor={tensor} />
      ) : (
        <List source={source} found={found ?? new Uint32Array()} tensor={tensor} />
      )}
    </div>
  );
}
