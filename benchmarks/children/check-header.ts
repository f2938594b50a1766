/** A header checked with JSON.parse and a loop: the rival of this package's parser. */

/** Bits per element of the dtypes that the benchmarks' files have. */
const DTYPE_BITS: Readonly<Record<string, number>> = {
  U8: 8,
  BF16: 16,
  F32: 32,
};

/** One tensor of a header. */
interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/**
 * The entries of a header by name, checked: types, sizes, no gap, no overlap, the end of the data.
 * Unlike the package's parser it does not notice a name that comes twice.
 */
export function checkHeader(json: string, dataByteLength: number): Map<string, Entry> {
  const entries = new Map(Object.entries(JSON.parse(json) as Record<string, Entry>));
  entries.delete('__metadata__');
  for (const [name, { dtype, shape, data_offsets: offsets }] of entries) {
    const bits = DTYPE_BITS[dtype];
    const [begin, end] = offsets;
    if (bits === undefined || !Array.isArray(shape) || !shape.every(isCount)) throw new Error(name);
    if (!isCount(begin) || !isCount(end) || offsets.length !== 2) throw new Error(name);
    const elements = shape.reduce((product, dimension) => product * dimension, 1);
    if ((elements * bits) / 8 !== end - begin) throw new Error(name);
  }
  let position = 0;
  const sorted = [...entries.values()].sort((a, b) => a.data_offsets[0] - b.data_offsets[0]);
  for (const { data_offsets } of sorted) {
    if (data_offsets[0] !== position) throw new Error('a gap or an overlap');
    position = data_offsets[1];
  }
  if (position !== dataByteLength) throw new Error('the data has another size');
  return entries;
}
