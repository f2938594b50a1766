/**
 * The map of bytes: a block for every tensor inside of those of the parts of its name. Areas are exactly proportional
 * to bytes: headings, gaps and outlines take nothing from them, the page draws those over them.
 */

import type { TensorList } from './info.js';

/** The size to lay out for, and the part of the names to show. */
export interface MapArgs {
  readonly width: number;
  readonly height: number;
  /** What all shown names begin with. */
  readonly prefix: string;
}

/** A place of the map, in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** A part of names. */
export interface MapGroup extends Box {
  readonly label: string;
  readonly prefix: string;
  /** 0 for the outermost. */
  readonly level: number;
  readonly byteLength: number;
}

/** Blocks with a colour: tensors, and parts whose tensors would be too small to see. */
export interface MapBlock extends Box {
  /** Positions of its tensors in the list. */
  readonly tensors: readonly number[];
  /** The part that it is; null for a single tensor. */
  readonly group: MapGroup | null;
  /** Whether the label of the part around it is its label, too: it has nearly all of its bytes. */
  readonly isNamed: boolean;
}

/** A layout. Blocks cover the whole map; groups have blocks in them, the outer ones first. */
export interface ByteMap {
  readonly blocks: readonly MapBlock[];
  readonly groups: readonly MapGroup[];
}

interface Part {
  readonly label: string;
  readonly prefix: string;
  readonly children: readonly Part[];
  readonly bytes: number;
  readonly tensors: readonly number[];
}

interface Growing {
  readonly children: Map<string, Growing>;
  tensor: number | null;
}

/** Blocks with shorter sides are not distinguished: their part is one block when they are more than half of it. */
const LEAST = 4;

/** Share of a part from which on another in it is as good as the same. */
const MOST = 0.9;

/** Deeper parts of names are one: a walk over them recurses. */
const MAX_DEPTH = 24;

/** The names that begin with a prefix, as parts of parts. */
function grow({ names, byteLength }: TensorList, prefix: string): Growing {
  const root: Growing = { children: new Map(), tensor: null };
  for (const [at, name] of names.entries()) {
    if (!name.startsWith(prefix) || byteLength[at] === 0) continue;
    const all = name.slice(prefix.length).split(/(?<=[./])/);
    const keys =
      all.length <= MAX_DEPTH ? all : [...all.slice(0, MAX_DEPTH), all.slice(MAX_DEPTH).join('')];
    let part = root;
    for (const key of keys) {
      const child = part.children.get(key) ?? { children: new Map(), tensor: null };
      part.children.set(key, child);
      part = child;
    }
    part.tensor = at;
  }
  return root;
}

/** A part with its bytes. Parts without siblings are joined with what is in them. */
function partOf(growing: Growing, label: string, prefix: string, list: TensorList): Part {
  let [whole, ownLabel, ownPrefix] = [growing, label, prefix];
  while (whole.tensor === null && whole.children.size === 1) {
    const [[key, only]] = whole.children as unknown as [[string, Growing]];
    [whole, ownLabel, ownPrefix] = [only, ownLabel + key, ownPrefix + key];
  }
  const own = (tensor: number, text: string): Part => ({
    ...{ label: text, prefix: ownPrefix, children: [], tensors: [tensor] },
    bytes: list.byteLength[tensor] as number,
  });
  if (whole.tensor !== null && whole.children.size === 0) return own(whole.tensor, ownLabel);
  const children = Array.from(whole.children, ([key, child]) =>
    partOf(child, key, ownPrefix + key, list),
  );
  // A tensor whose name begins those of others is next to them.
  if (whole.tensor !== null) children.push(own(whole.tensor, ''));
  return {
    ...{ label: ownLabel, prefix: ownPrefix, children },
    bytes: bytesOf(children),
    tensors: children.flatMap(({ tensors }) => tensors),
  };
}

function bytesOf(parts: readonly Part[]): number {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0);
}

const NUMBERED = /^\d+(?:[./].*)?$/;

/**
 * Rows for numbered siblings: a divisor of their number where cells stay within 1 : 2.5, as 16 × 16, else about square.
 */
function rowCount(count: number, { w, h }: Box): number {
  const skew = (rows: number): number => Math.abs(Math.log(w / (count / rows) / (h / rows)));
  let best = 1;
  for (let rows = 2; rows <= count; rows++)
    if (count % rows === 0 && skew(rows) < skew(best)) best = rows;
  if (skew(best) < Math.log(2.5)) return best;
  return Math.max(1, Math.min(count, Math.round(Math.sqrt((count * h) / w))));
}

type Placed = readonly [part: Part, box: Box];

/**
 * Numbered siblings, such as layers and experts, in reading order: rows of about as many bytes, each as high as its
 * share.
 */
function inRows(parts: readonly Part[], box: Box, total: number): Placed[] {
  const ordered = [...parts].sort(
    (a, b) => Number.parseInt(a.label, 10) - Number.parseInt(b.label, 10),
  );
  const rows = Array.from({ length: rowCount(parts.length, box) }, (): Part[] => []);
  let before = 0;
  for (const part of ordered) {
    const row = Math.floor(((before + part.bytes / 2) / total) * rows.length);
    rows[Math.min(rows.length - 1, row)]?.push(part);
    before += part.bytes;
  }
  let y = box.y;
  return rows.flatMap((row) => {
    const all = bytesOf(row);
    const [top, h] = [y, (box.h * all) / total];
    y += h;
    let x = box.x;
    return row.map((part): Placed => {
      const [left, w] = [x, (box.w * part.bytes) / all];
      x += w;
      return [part, { x: left, y: top, w, h }];
    });
  });
}

/** The most oblong of areas in a row along a side. */
function worst(areas: readonly number[], sum: number, side: number): number {
  const [most, least] = [areas[0] as number, areas.at(-1) as number];
  return Math.max((side ** 2 * most) / sum ** 2, sum ** 2 / (side ** 2 * least));
}

/** Other siblings by size: squarified (Bruls, Huizing, van Wijk 2000). */
function squarified(parts: readonly Part[], box: Box, total: number): Placed[] {
  const perByte = (box.w * box.h) / total;
  const ordered = [...parts].sort((a, b) => b.bytes - a.bytes);
  const placed: Placed[] = [];
  let { x, y, w, h } = box;
  let begin = 0;
  while (begin < ordered.length) {
    const side = Math.min(w, h);
    const areas: number[] = [];
    let sum = 0;
    for (let at = begin; at < ordered.length; at++) {
      const area = (ordered[at] as Part).bytes * perByte;
      const isBetter =
        areas.length === 0 ||
        worst([...areas.slice(0, 1), area], sum + area, side) <= worst(areas, sum, side);
      if (!isBetter) break;
      areas.push(area);
      sum += area;
    }
    const thick = sum / side;
    let along = 0;
    for (const [index, area] of areas.entries()) {
      const length = area / thick;
      const at =
        w >= h
          ? { x, y: y + along, w: thick, h: length }
          : { x: x + along, y, w: length, h: thick };
      placed.push([ordered[begin + index] as Part, at]);
      along += length;
    }
    if (w >= h) [x, w] = [x + thick, w - thick];
    else [y, h] = [y + thick, h - thick];
    begin += areas.length;
  }
  return placed;
}

/** Lays out the tensors of a list. */
export function byteMap(list: TensorList, { width, height, prefix }: MapArgs): ByteMap {
  const blocks: MapBlock[] = [];
  const groups: MapGroup[] = [];
  const place = (
    part: Part,
    box: Box,
    level: number,
    around: number,
    isLabelled: boolean,
  ): void => {
    const { children, tensors, bytes } = part;
    const label = part.label.replace(/[./]$/, '');
    const group = { ...box, label, prefix: part.prefix, level, byteLength: bytes };
    const isMost = bytes >= MOST * around;
    const isNamed = isMost && isLabelled;
    if (children.length === 0) {
      blocks.push({ ...box, tensors, group: null, isNamed });
      return;
    }
    const isNumbered = children.length > 2 && children.every((one) => NUMBERED.test(one.label));
    const inside = (isNumbered ? inRows : squarified)(children, box, bytes);
    const large = inside.filter(([, { w, h }]) => Math.min(w, h) >= LEAST);
    // Never of the whole: there would be nothing to see.
    if (level > 0 && bytesOf(large.map(([one]) => one)) < bytes / 2) {
      blocks.push({ ...box, tensors, group, isNamed });
      return;
    }
    // A part with nearly all bytes of the one around it needs no second label.
    if (!isMost) groups.push(group);
    for (const [one, at] of inside) place(one, at, level + 1, bytes, isNamed || !isMost);
  };
  const root = partOf(grow(list, prefix), prefix, prefix, list);
  if (root.bytes > 0) place(root, { x: 0, y: 0, w: width, h: height }, 0, root.bytes, false);
  return { blocks, groups };
}
