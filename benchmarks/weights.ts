/** Pseudo-random weights: the same bytes in every run, so that checksums can be compared. */

const TABLE_SIZE = 65_536;
/** Standard deviation of freshly initialised linear layers in this family of models. */
const DEVIATION = 0.02;

/** One step of Marsaglia's xorshift generator over 32 bits; the state is never zero. */
function xorshift(state: number): number {
  let next = state;
  next ^= next << 13;
  next ^= next >>> 17;
  next ^= next << 5;
  return next;
}

/** BF16 bit patterns of normally distributed values, by the Box-Muller transform. */
function normalTable(): Uint16Array {
  const table = new Uint16Array(TABLE_SIZE);
  const value = new Float32Array(1);
  const bits = new Uint32Array(value.buffer);
  let state = 0x9e3779b9 | 0;
  for (let index = 0; index < TABLE_SIZE; index++) {
    state = xorshift(state);
    const radius = Math.sqrt(-2 * Math.log(((state >>> 0) + 1) / 2 ** 32));
    state = xorshift(state);
    value[0] = DEVIATION * radius * Math.cos((2 * Math.PI * (state >>> 0)) / 2 ** 32);
    table[index] = (bits[0] ?? 0) >>> 16;
  }
  return table;
}

/**
 * Makes a function that fills arrays with the next values of one endless sequence, two BF16 values
 * per array element.
 */
export function weightSource(seed = 1): (target: Uint32Array) => void {
  const table = normalTable();
  let state = seed | 0 || 1;
  return (target) => {
    let next = state;
    for (let index = 0; index < target.length; index++) {
      next = xorshift(next);
      target[index] = (table[next & 0xffff] as number) | ((table[next >>> 16] as number) << 16);
    }
    state = next;
  };
}
