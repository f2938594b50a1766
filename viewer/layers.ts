/** Names of tensors as a table: a row for every role in a layer, a column for every layer. */

/** Where a tensor is in the table. */
interface LayerPlace {
  /** The name with its numbers left open: `model.layers.*.mlp.up_proj.weight`. */
  readonly role: string;
  /** The first number in the name; null for tensors outside of layers. */
  readonly layer: number | null;
}

/** A number between separators, as in `layers.3.mlp`, `down_blocks_0_attentions`. */
const NUMBER = /(?<![^._/])\d+(?![^._/])/g;

/** Splits a name into its layer and its role there. */
export function layerPlace(name: string): LayerPlace {
  const [first] = name.match(NUMBER) ?? [];
  return { role: name.replaceAll(NUMBER, '*'), layer: first === undefined ? null : Number(first) };
}

/** A table of layers. */
export interface LayerTable {
  readonly roles: readonly string[];
  readonly layers: readonly number[];
  /** The positions of the tensors of a cell, by the positions of its row and column: `row * layers.length + column`. */
  readonly cells: ReadonlyMap<number, readonly number[]>;
}

/** Most columns: numbers in names that are no layers, such as positions, make no table for people. */
const MAX_LAYERS = 1000;

/** Makes the table of the tensors that are in layers. Roles come in the order of their first tensors. */
export function layerTable(names: readonly string[]): LayerTable {
  const places = names.map(layerPlace);
  const numbers = new Set(places.flatMap(({ layer }) => layer ?? []));
  const layers = [...numbers].sort((a, b) => a - b).slice(0, MAX_LAYERS);
  const columnOf = new Map(layers.map((layer, column) => [layer, column]));
  const rowOf = new Map<string, number>();
  const cells = new Map<number, number[]>();
  for (const [at, { role, layer }] of places.entries()) {
    const column = layer === null ? undefined : columnOf.get(layer);
    if (column === undefined) continue;
    const row = rowOf.get(role) ?? rowOf.size;
    rowOf.set(role, row);
    const cell = row * layers.length + column;
    const tensors = cells.get(cell);
    if (tensors === undefined) cells.set(cell, [at]);
    else tensors.push(at);
  }
  return { roles: [...rowOf.keys()], layers, cells };
}

/** The mean of a statistic over the tensors of every cell; NaN where there is no tensor, or none is known. */
export function tableValues(
  { roles, layers, cells }: LayerTable,
  values: Float64Array,
): Float64Array {
  const means = new Float64Array(roles.length * layers.length).fill(Number.NaN);
  for (const [cell, tensors] of cells) {
    const known = tensors.map((at) => values[at] as number).filter((value) => !Number.isNaN(value));
    if (known.length > 0) means[cell] = known.reduce((sum, value) => sum + value, 0) / known.length;
  }
  return means;
}

/**
 * The rows whose statistics are the same in every layer, such as those of causal masks and of fresh norms: their lines
 * show nothing, and may be far above all others.
 */
export function constantRows(
  table: LayerTable,
  statistics: readonly Float64Array[],
): ReadonlySet<number> {
  const { roles, layers } = table;
  const tables = statistics.map((values) => tableValues(table, values));
  const isConstant = (row: number): boolean =>
    tables.every((values) => {
      const known = values
        .subarray(row * layers.length, (row + 1) * layers.length)
        .filter((value) => !Number.isNaN(value));
      return known.length > 1 && known.every((value) => value === known[0]);
    });
  return new Set([...roles.keys()].filter(isConstant));
}

/** Every value of a row by the median of the row, as a power of two: what differs from its like. NaN stays. */
export function againstMedians(values: Float64Array, columns: number): Float64Array {
  const result = new Float64Array(values.length).fill(Number.NaN);
  for (let begin = 0; begin < values.length; begin += columns) {
    const row = values.subarray(begin, begin + columns);
    const known = row.filter((value) => value > 0).sort();
    const median = known[Math.floor(known.length / 2)] ?? 0;
    for (const [at, value] of row.entries()) {
      if (median > 0) result[begin + at] = Math.log2(value / median);
      else if (!Number.isNaN(value)) result[begin + at] = 0;
    }
  }
  return result;
}
