/**
 * Writes an ONNX model whose weight is a tensor of a safetensors file: the model says at which byte it begins, and
 * has no weights of its own. Protocol buffers are fields of numbers, texts and further fields; that is all it takes.
 */

const VARINT = 0;
const BYTES = 2;

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 127n);
    if (rest < 128n) return [...bytes, low];
    bytes.push(low | 128);
  }
}

/** One field: a number, a text, or a message, which is an array of fields. */
function field(number, value) {
  if (typeof value === 'number') return [...varint((number << 3) | VARINT), ...varint(value)];
  const bytes = typeof value === 'string' ? [...Buffer.from(value)] : value.flat();
  return [...varint((number << 3) | BYTES), ...varint(bytes.length), ...bytes];
}

/** Numbers of types in ONNX. */
const DATA_TYPES = { F32: 1, F16: 10, BF16: 16 };

function valueInfo(name, dtype, shape) {
  const dims = shape.map((length) => field(1, [field(1, length)]));
  return [field(1, name), field(2, [field(1, [field(1, DATA_TYPES[dtype]), field(2, dims)])])];
}

function externalTensor(name, { dtype, shape }, { location, offset, length }) {
  const facts = { location, offset: String(offset), length: String(length) };
  const entries = Object.entries(facts).map(([key, value]) =>
    field(13, [field(1, key), field(2, value)]),
  );
  const dims = shape.map((size) => field(1, size));
  return [...dims, field(2, DATA_TYPES[dtype]), field(8, name), ...entries, field(14, 1)];
}

/** `y = x · weight`, with the weight in another file, which must lie beside the model. */
export async function matMulModel(file, name, { location, rows }) {
  const [{ dataStart }] = await file.headers();
  const info = file.info(name);
  const [begin, end] = info.dataOffsets;
  const place = { location, offset: dataStart + begin, length: end - begin };
  const [depth, width] = info.shape;
  const node = [field(1, 'x'), field(1, 'weight'), field(2, 'y'), field(4, 'MatMul')];
  const graph = [
    field(1, node),
    field(2, 'multiply'),
    field(5, externalTensor('weight', info, place)),
    field(11, valueInfo('x', info.dtype, [rows, depth])),
    field(12, valueInfo('y', info.dtype, [rows, width])),
  ];
  // Versions of the format and of the operators.
  return Uint8Array.from([field(1, 8), field(8, [field(2, 13)]), field(7, graph)].flat());
}

/** `y = x · w`, with both given at each run. */
export function matMulOfInputs(left, right) {
  const node = [field(1, 'x'), field(1, 'w'), field(2, 'y'), field(4, 'MatMul')];
  const graph = [
    field(1, node),
    field(2, 'multiply'),
    field(11, valueInfo('x', 'F32', left)),
    field(11, valueInfo('w', 'F32', right)),
    field(12, valueInfo('y', 'F32', [left[0], right[1]])),
  ];
  return Uint8Array.from([field(1, 8), field(8, [field(2, 13)]), field(7, graph)].flat());
}
