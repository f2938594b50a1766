/** The poster of a model: a row for every role in a layer, a column for every layer. Experts share a cell. */

/** What a tensor is for. */
export type Part =
  | 'attention'
  | 'mlp'
  | 'convolutions'
  | 'router'
  | 'experts'
  | 'norms'
  | 'embeddings'
  | 'buffers'
  | 'other';

/** The parts in the order of their rows, with their names. */
export const PARTS: readonly (readonly [part: Part, label: string])[] = [
  ['attention', 'Attention'],
  ['mlp', 'MLP'],
  ['convolutions', 'Convolutions'],
  ['router', 'Router'],
  ['experts', 'Experts'],
  ['norms', 'Norms'],
  ['embeddings', 'Embeddings'],
  ['other', 'Other'],
  ['buffers', 'Buffers'],
];

/** The first that matches decides: norms within attention belong to it. */
const PATTERNS: readonly (readonly [Part, RegExp])[] = [
  ['buffers', /(?:^|\.)(?:inv_freq|position_ids|masked_bias|num_batches_tracked|running_\w+)$/],
  ['experts', /(?:^|\.)(?:experts|ffn_\w+_exps)(?:\.|$)/],
  ['router', /(?:^|\.)(?:router|gate|ffn_gate_inp)(?:\.|$)/],
  [
    'attention',
    /(?:^|\.)(?:\w*(?:attn|attention)\d*|attn_(?:q|k|v|qkv|output)|[qkvo]_proj|to_(?:q|k|v|qkv|kv|out)(?:_ip)?)\./i,
  ],
  ['norms', /norm|(?:^|\.)(?:ln|bn)(?:_?\w{1,2})?\./i],
  // Of the module that has the parameter: models, too, have such names.
  ['convolutions', /conv[^.]*\.[^.]+$/i],
  ['mlp', /(?:^|\.)(?:\w*mlp|ffn?\w*|feed_?forward|fc\d*|w[123]|dense\w*|intermediate|output)\./i],
  ['mlp', /(?:^|\.)(?:gate|up|down)_proj\./],
  ['embeddings', /emb(?:ed|_)|(?:^|\.)(?:wte|wpe|lm_head|tok\w*|shared)\./i],
];

const HEAD = /(?:^|\.)output\./;

/** Causal masks: of four dimensions, for all positions in two of them. */
function isMask(name: string, shape: readonly number[]): boolean {
  return shape.length === 4 && shape[2] === shape[3] && /(?:^|\.)attn\.bias$/.test(name);
}

/** Weights of convolutions have four or five dimensions, as have constants to broadcast: all but one of these are 1. */
function isKernel(shape: readonly number[]): boolean {
  const sizes = shape.filter((size) => size > 1).length;
  return sizes > 1 && (shape.length === 4 || shape.length === 5);
}

/** What a tensor is for, by its name and its shape. */
export function partOf(name: string, shape: readonly number[]): Part {
  if (isMask(name, shape)) return 'buffers';
  const found = PATTERNS.find(([, pattern]) => pattern.test(name))?.[0];
  // The heads of models have names that MLPs have within layers.
  const isHead = found === 'mlp' && layerPlace(name).layer === null && HEAD.test(name);
  return isHead ? 'embeddings' : (found ?? (isKernel(shape) ? 'convolutions' : 'other'));
}

/** The position of a part in `PARTS`. */
export function partNumber(part: Part): number {
  return PARTS.findIndex(([one]) => one === part);
}

/** Where a tensor is in the table. */
interface LayerPlace {
  /** The name with its numbers left open: `model.layers.*.mlp.up_proj.weight`. */
  readonly role: string;
  /** The first number in the name; null for tensors outside of layers. */
  readonly layer: number | null;
}

/** A number between dots, as in `layers.3.mlp`. */
const NUMBER = /(?<![^./])\d+(?![^./])/g;

/** Adapters have other separators, before a dot: `down_blocks_0_attentions`. After a dot that is a name: `ln_1`. */
const NUMBER_OF_ADAPTERS = /(?<![^_/])\d+(?![^_/])/g;

/** Splits a name into its layer and its role there. */
export function layerPlace(name: string): LayerPlace {
  let layer = null as number | null;
  const leaveOpen = (number: string): string => {
    layer ??= Number(number);
    return '*';
  };
  const role = name.replace(NUMBER, leaveOpen);
  if (layer !== null) return { role, layer };
  const [head] = name.split('.', 1) as [string];
  return { role: head.replace(NUMBER_OF_ADAPTERS, leaveOpen) + name.slice(head.length), layer };
}

/** A row of the poster. */
export interface PosterRow {
  readonly role: string;
  /** The end of the role that no other row has; with its head where ends are alike: `up_blocks…conv1`. */
  readonly label: string;
  readonly part: Part;
  readonly isMatrix: boolean;
  /** Whether cells stand for several tensors, such as the experts of a layer. */
  readonly isFolded: boolean;
  /** Positions of tensors in the list, by column; empty where there is none. */
  readonly cells: readonly (readonly number[])[];
}

/** A poster. */
export interface Poster {
  readonly layers: readonly number[];
  readonly rows: readonly PosterRow[];
  /** Positions of tensors that are in no layer. */
  readonly outside: readonly number[];
}

/** Most columns: numbers in names that are no layers, such as positions, make no table for people. */
const MAX_LAYERS = 1000;

/** `mlp.up_proj` of `model.layers.*.mlp.up_proj.weight`. */
function shortLabel(role: string): string {
  const inLayer = role.slice(role.indexOf('*') + 1).replaceAll(/[._/]\*/g, '');
  return inLayer.replace(/^[._/]/, '').replace(/\.weight$/, '') || role;
}

/** `up_blocks…resnets.conv1` of `up_blocks.*.resnets.*.conv1.weight`. */
function longLabel(role: string): string {
  return `${role.slice(0, role.indexOf('*')).replace(/[._/]$/, '')}…${shortLabel(role)}`;
}

function isOnly(labels: readonly string[], label: string | undefined): boolean {
  return label !== undefined && labels.indexOf(label) === labels.lastIndexOf(label);
}

/** Tensors as their list has them. */
interface PosterTensors {
  readonly names: readonly string[];
  /** Formatted dimensions: `3 × 4`. */
  readonly shapes: readonly string[];
  /** Positions in `PARTS`. */
  readonly part: Uint8Array;
}

const posters = new WeakMap<PosterTensors, Poster>();

/** Makes the poster of tensors, once. Buffers are no weights: they have no row. */
export function posterOf(tensors: PosterTensors): Poster {
  const found = posters.get(tensors) ?? makePoster(tensors);
  posters.set(tensors, found);
  return found;
}

function makePoster({ names, shapes, part }: PosterTensors): Poster {
  const places = names.map(layerPlace);
  const parts = Array.from(part, (at) => PARTS[at]?.[0]);
  const numbers = new Set(
    places.flatMap(({ layer }, at) => (parts[at] === 'buffers' ? [] : (layer ?? []))),
  );
  const layers = [...numbers].sort((a, b) => a - b).slice(0, MAX_LAYERS);
  const columnOf = new Map(layers.map((layer, column) => [layer, column]));
  const roles = new Map<string, number[][]>();
  const outside: number[] = [];
  for (const [at, { role, layer }] of places.entries()) {
    if (parts[at] === 'buffers') continue;
    const column = layer === null ? undefined : columnOf.get(layer);
    if (column === undefined) {
      outside.push(at);
      continue;
    }
    const cells = roles.get(role) ?? layers.map((): number[] => []);
    roles.set(role, cells);
    (cells[column] as number[]).push(at);
  }
  const labels = [...roles.keys()].map(shortLabel);
  const longLabels = [...roles.keys()].map(longLabel);
  const rows = Array.from(roles, ([role, cells], row): PosterRow => {
    const [first] = cells.flat() as [number];
    const label = labels[row] as string;
    return {
      ...{ role, cells, part: parts[first] as Part },
      label: isOnly(labels, label)
        ? label
        : isOnly(longLabels, longLabels[row])
          ? (longLabels[row] as string)
          : role,
      isMatrix: (shapes[first] as string).includes(' × '),
      isFolded: cells.some(({ length }) => length > 1),
    };
  });
  rows.sort((a, b) => partNumber(a.part) - partNumber(b.part));
  return { layers, outside, rows };
}

/** The middle of numbers, NaN and infinities left out; NaN of none. */
export function median(numbers: ArrayLike<number>): number {
  const sorted = Float64Array.from(numbers).filter(Number.isFinite).sort();
  const half = sorted.length >> 1;
  const [upper = Number.NaN, lower = Number.NaN] = [sorted[half], sorted[half - 1]];
  return sorted.length % 2 === 1 ? upper : (lower + upper) / 2;
}

/** The median of a statistic over the tensors of every cell, row by row; NaN where nothing is known. */
export function cellValues({ rows }: Poster, values: ArrayLike<number>): Float64Array[] {
  return rows.map(({ cells }) =>
    Float64Array.from(cells, (tensors) => median(tensors.map((at) => values[at] as number))),
  );
}

/** Values in which unknown ones, such as of most experts in a sample, are the median of their role and layer. */
export function filledValues(names: readonly string[], values: ArrayLike<number>): Float64Array {
  const cells = new Map<string, number[]>();
  for (const [at, name] of names.entries()) {
    const { role, layer } = layerPlace(name);
    const key = `${layer} ${role}`;
    const cell = cells.get(key);
    if (cell === undefined) cells.set(key, [at]);
    else cell.push(at);
  }
  const result = Float64Array.from(values);
  for (const cell of cells.values()) {
    const middle = median(cell.map((at) => values[at] as number));
    for (const at of cell) if (Number.isNaN(result[at])) result[at] = middle;
  }
  return result;
}

/** The greatest known value of every cell, by row and column: NaN where none is known. */
export function cellMaxima({ rows }: Poster, values: ArrayLike<number>): Float64Array[] {
  return rows.map(({ cells }) =>
    Float64Array.from(cells, (tensors) => {
      const known = tensors
        .map((at) => values[at] as number)
        .filter((value) => !Number.isNaN(value));
      return known.length === 0 ? Number.NaN : known.reduce((a, b) => Math.max(a, b));
    }),
  );
}

/** Factors around a row's median that colours cover. */
const FACTORS = [1.2, 1.5, 2, 3, 4, 8, 16];

/**
 * The least factor that covers 95 % of the cells of matrices: vectors have few values, and scatter more. From 1.2 on,
 * so that noise of 0.25 % stays neutral.
 */
export function factorRange({ rows }: Poster, cells: readonly Float64Array[]): number {
  const sizes = rows.flatMap(({ isMatrix }, row) => {
    if (!isMatrix) return [];
    const values = cells[row] as Float64Array;
    const middle = median(values);
    return Array.from(values, (value) => Math.abs(Math.log(value / middle)));
  });
  const sorted = Float64Array.from(sizes).filter(Number.isFinite).sort();
  const needed = sorted[Math.floor((sorted.length - 1) * 0.95)] ?? 0;
  return FACTORS.find((factor) => Math.log(factor) >= needed) ?? 16;
}

/** The value with the strongest colour, from 0 on: the greatest, unless a few cells are far above all others. */
export function colourLimit(cells: readonly Float64Array[]): { limit: number; isClipped: boolean } {
  const known = Float64Array.from(cells.flatMap((row) => [...row].filter((value) => value > 0)));
  const sorted = known.filter(Number.isFinite).sort();
  const [most = 0, usual = 0] = [sorted.at(-1), sorted[Math.floor((sorted.length - 1) * 0.95)]];
  return most > 2 * usual ? { limit: usual, isClipped: true } : { limit: most, isClipped: false };
}

/** A value against a median, as the power of a factor: 1 is that factor, −1 its inverse. NaN stays. */
export function relativeTo(middle: number, factor: number, value: number): number {
  if (Number.isNaN(value)) return value;
  if (!(middle > 0)) return 0;
  return Math.max(-1, Math.min(1, Math.log(value / middle) / Math.log(factor)));
}

/** Numbers as they are put into words: `2, 3 and 7`, `4–7`. */
export function formatLayers(layers: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const layer of layers.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last?.[1] === layer - 1) last[1] = layer;
    else ranges.push([layer, layer]);
  }
  const texts = ranges.flatMap(([from, to]) =>
    from === to ? [`${from}`] : to === from + 1 ? [`${from}`, `${to}`] : [`${from}–${to}`],
  );
  return inSeries(texts);
}

/** `a, b and c`. */
export function inSeries(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;
}

/** The layers whose mean of a statistic is at least 75 % of the greatest; none where all are 0. */
export function strongestLayers({ layers }: Poster, cells: readonly Float64Array[]): number[] {
  const means = layerMeans(cells, layers.length);
  const most = means.reduce((top, value) => Math.max(top, value), 0);
  return most === 0 ? [] : layers.filter((_, column) => (means[column] as number) >= 0.75 * most);
}

/** The mean of a statistic over the rows, by column. Cells without a value don't count. */
export function layerMeans(cells: readonly Float64Array[], columns: number): Float64Array {
  return Float64Array.from({ length: columns }, (_, column) => {
    const known = cells.flatMap((row) => {
      const value = row[column] as number;
      return Number.isNaN(value) ? [] : [value];
    });
    return known.reduce((sum, value) => sum + value, 0) / Math.max(1, known.length);
  });
}
