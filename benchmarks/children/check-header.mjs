/** A header checked with JSON.parse and a loop: the rival of this package's parser. */

/** Bits per element of the dtypes that the benchmarks' files have. */
const DTYPE_BITS = new Map([
  ['U8', 8],
  ['F8_E4M3', 8],
  ['BF16', 16],
  ['F32', 32],
]);

/**
 * The entries of a header by name, checked in one loop: types, sizes, no gap, no overlap, the end of the
 * data. Unlike the package's parser it does not notice a name that comes twice.
 */
export function checkHeader(json, dataByteLength) {
  const parsed = JSON.parse(json);
  const entries = new Map();
  let isSorted = true;
  let position = 0;
  for (const name of Object.keys(parsed)) {
    if (name === '__metadata__') continue;
    const entry = parsed[name];
    const bits = DTYPE_BITS.get(entry.dtype);
    const { shape, data_offsets: offsets } = entry;
    if (bits === undefined || !Array.isArray(shape)) throw new Error(name);
    if (!Array.isArray(offsets) || offsets.length !== 2) throw new Error(name);
    const [begin, end] = [offsets[0], offsets[1]];
    if (!Number.isSafeInteger(begin) || !Number.isSafeInteger(end) || begin < 0)
      throw new Error(name);
    let elements = 1;
    for (let i = 0; i < shape.length; i++) {
      if (!Number.isSafeInteger(shape[i]) || shape[i] < 0) throw new Error(name);
      elements *= shape[i];
    }
    if (elements * bits !== (end - begin) * 8) throw new Error(name);
    entries.set(name, entry);
    if (begin !== position) isSorted = false;
    position = end;
  }
  if (!isSorted) position = endOf([...entries.values()]);
  if (position !== dataByteLength) throw new Error('the data has another size');
  return entries;
}

/** The end of tensors that the header has in another order than the file. */
function endOf(entries) {
  let position = 0;
  for (const { data_offsets } of entries.sort((a, b) => a.data_offsets[0] - b.data_offsets[0])) {
    if (data_offsets[0] !== position) throw new Error('a gap or an overlap');
    position = data_offsets[1];
  }
  return position;
}
