// Random values of models for pictures, the same at every run.

/** Numbers from 0 to 1 that a seed decides. */
export function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Values around 0, with rows and columns of unlike sizes, as trained weights have. */
export function weights(random, shape, scale) {
  const count = shape.reduce((product, size) => product * size, 1);
  const columns = shape.at(-1);
  const normal = () =>
    Math.sqrt(-2 * Math.log(random() + 1e-12)) * Math.cos(2 * Math.PI * random());
  const byColumn = Float32Array.from({ length: columns }, () => Math.exp(normal() * 0.25));
  const values = new Float32Array(count);
  for (let begin = 0; begin < count; begin += columns) {
    const row = scale * Math.exp(normal() * 0.15);
    for (let at = 0; at < columns; at++) values[begin + at] = normal() * row * byColumn[at];
  }
  return values;
}

/** The bits of BF16, rounded to even. */
export function bfloat16(values) {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return Uint16Array.from(bits, (one) => (one + 0x7fff + ((one >>> 16) & 1)) >>> 16);
}
