/** The map of bytes: a rectangle for every tensor, as large as it is, inside those of the parts of its name. */

import { hierarchy, treemap, treemapSquarify } from 'd3-hierarchy';
import type { TensorList } from './info.js';

/** The size to lay out for, and the part of the names to show. */
export interface MapArgs {
  readonly width: number;
  readonly height: number;
  /** What all shown names begin with. */
  readonly prefix: string;
}

/** A part of names that has a heading. */
interface MapGroup {
  readonly label: string;
  readonly prefix: string;
  readonly box: readonly [x0: number, y0: number, x1: number, y1: number];
}

/** Rectangles of tensors: four numbers each, and the position in the list. */
export interface ByteMap {
  readonly boxes: Float32Array;
  readonly tensors: Uint32Array;
  readonly groups: readonly MapGroup[];
}

interface Part {
  readonly label: string;
  readonly prefix: string;
  readonly children: Map<string, Part>;
  tensor: number | null;
}

const HEADING = 18;

/** A heading needs this much room. */
const MIN_GROUP = { width: 44, height: 40 };

/** Deeper parts of names are one: a walk over them recurses. */
const MAX_DEPTH = 24;

/** Layers of one size come in the order of their numbers. */
const { compare } = new Intl.Collator('en', { numeric: true });

function newPart(label: string, prefix: string): Part {
  return { label, prefix, children: new Map(), tensor: null };
}

/** The names that begin with a prefix, as parts of parts. */
function grow({ names, byteLength }: TensorList, prefix: string): Part {
  const root = newPart(prefix, prefix);
  for (const [at, name] of names.entries()) {
    if (!name.startsWith(prefix) || byteLength[at] === 0) continue;
    const all = name.slice(prefix.length).split(/(?<=[./])/);
    const parts =
      all.length <= MAX_DEPTH ? all : [...all.slice(0, MAX_DEPTH), all.slice(MAX_DEPTH).join('')];
    let part = root;
    for (const key of parts) {
      const child = part.children.get(key) ?? newPart(key, part.prefix + key);
      part.children.set(key, child);
      part = child;
    }
    part.tensor = at;
  }
  return root;
}

/** Parts without siblings are joined with what is in them. */
function joined(part: Part): Part {
  let [whole, label] = [part, part.label];
  while (whole.tensor === null && whole.children.size === 1) {
    [whole] = whole.children.values() as unknown as [Part];
    label += whole.label;
  }
  return { ...whole, label };
}

/** What is inside of a part. A tensor whose name begins those of others is next to them. */
function inside({ tensor, children, prefix }: Part): Part[] {
  const below = Array.from(children.values(), joined);
  if (below.length > 0 && tensor !== null) below.push({ ...newPart('', prefix), tensor });
  return below;
}

/** Lays out the tensors of a list. */
export function byteMap(list: TensorList, { width, height, prefix }: MapArgs): ByteMap {
  const root = hierarchy(joined(grow(list, prefix)), inside)
    .sum(({ tensor, children }) =>
      tensor === null || children.size > 0 ? 0 : (list.byteLength[tensor] as number),
    )
    .sort((a, b) => (b.value ?? 0) - (a.value ?? 0) || compare(a.data.label, b.data.label));
  const placed = treemap<Part>()
    .size([width, height])
    .tile(treemapSquarify)
    .paddingInner(1)
    .paddingTop(({ x0, x1, y0, y1 }) =>
      x1 - x0 > MIN_GROUP.width && y1 - y0 > MIN_GROUP.height ? HEADING : 0,
    )(root);
  const boxes: number[] = [];
  const tensors: number[] = [];
  const groups: MapGroup[] = [];
  placed.each(({ x0, y0, x1, y1, data, children }) => {
    const box = [x0, y0, x1, y1] as const;
    if (children === undefined) {
      if (data.tensor === null) return;
      boxes.push(...box);
      tensors.push(data.tensor);
    } else if (x1 - x0 > MIN_GROUP.width && y1 - y0 > MIN_GROUP.height) {
      groups.push({ label: data.label.replace(/[./]$/, ''), prefix: data.prefix, box });
    }
  });
  return { boxes: Float32Array.from(boxes), tensors: Uint32Array.from(tensors), groups };
}
