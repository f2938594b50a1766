/**
 * The rules of every scheme, written once more: one value at a time, from the bits of the stored tensors. Slow, and
 * without a line of the library's.
 */
import type { Quantization } from 'safetensors-mmap';

/** A stored tensor. */
export interface RuleTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** What the rule needs next to the tensors. */
export interface RuleFacts extends Pick<Quantization, 'scheme' | 'bits' | 'block'> {
  readonly shape: readonly number[];
  /** The stored tensors by what they are. */
  readonly parts: Readonly<Record<string, RuleTensor>>;
  /** Of GPTQ: what is added to stored zero points of 3 bits, or to whole words; 0 or 1. */
  readonly offset?: number;
  /** Of bitsandbytes. */
  readonly nested?: { readonly blockLength: number; readonly offset: number };
  /** Words of pack-quantized that hold so many codes each. */
  readonly perWord?: number;
  /** Of gpt-oss: the last two axes are exchanged. */
  readonly isExchanged?: boolean;
  /** Of NVFP4: whether the global scale divides. */
  readonly divides?: boolean;
}

const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
const { fround } = Math;

/** A float of few bits: sign, exponent, mantissa. */
function small(code: number, exponentBits: number, mantissaBits: number): number {
  const bias = 2 ** (exponentBits - 1) - 1;
  const sign = code >> (exponentBits + mantissaBits) ? -1 : 1;
  const exponent = (code >> mantissaBits) & (2 ** exponentBits - 1);
  const fraction = (code & (2 ** mantissaBits - 1)) / 2 ** mantissaBits;
  return (
    sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias))
  );
}

function e4m3(code: number): number {
  return (code & 127) === 127 ? Number.NaN : small(code, 4, 3);
}

function e5m2(code: number): number {
  const magnitude = code & 127;
  if (magnitude > 124) return Number.NaN;
  return magnitude === 124 ? (code > 127 ? -1 : 1) * Number.POSITIVE_INFINITY : small(code, 5, 2);
}

function exponent(code: number): number {
  return code === 255 ? Number.NaN : 2 ** (code - 127);
}

/** Item `i` of a tensor as a number of a dtype. */
export function item({ bytes }: RuleTensor, dtype: string, i: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (dtype) {
    case 'F64':
      return fround(view.getFloat64(8 * i, true));
    case 'F32':
      return view.getFloat32(4 * i, true);
    case 'BF16':
      return new Float32Array(
        Uint32Array.of(view.getUint16(2 * i, true) << 16).buffer,
      )[0] as number;
    case 'F16': {
      const code = view.getUint16(2 * i, true);
      const isSpecial = (code & 0x7c00) === 0x7c00;
      if (!isSpecial) return small(code, 5, 10);
      return (code & 0x3ff) === 0 ? (code >> 15 ? -1 : 1) * Number.POSITIVE_INFINITY : Number.NaN;
    }
    case 'F8_E4M3':
      return e4m3(view.getUint8(i));
    case 'F8_E5M2':
      return e5m2(view.getUint8(i));
    case 'F8_E8M0':
      return exponent(view.getUint8(i));
    case 'U8':
      return view.getUint8(i);
    case 'I8':
      return view.getInt8(i);
    case 'I32':
      return view.getInt32(4 * i, true);
    default:
      throw new Error(`no rule for ${dtype}`);
  }
}

/** `bits` at a bit of a sequence of words, `stride` words apart. */
function field(
  { bytes }: RuleTensor,
  first: number,
  stride: number,
  bit: number,
  bits: number,
): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let code = 0;
  for (let i = 0; i < bits; i++) {
    const at = bit + i;
    const word = view.getUint32(4 * (first + Math.floor(at / 32) * stride), true);
    if (((word / 2 ** (at % 32)) & 1) === 1) code += 2 ** i;
  }
  return code;
}

export function nibble(tensor: RuleTensor, i: number, isHighFirst = false): number {
  const byte = tensor.bytes[i >> 1] as number;
  return (i % 2 === 0) === isHighFirst ? byte >> 4 : byte & 15;
}

export function e2m1(code: number): number {
  return (code & 8 ? -1 : 1) * (E2M1[code & 7] as number);
}

function part({ parts }: RuleFacts, name: string): RuleTensor {
  const found = parts[name];
  if (found === undefined) throw new Error(`no ${name}`);
  return found;
}

/** The value at [matrix, row, column]. */
type Rule = (matrix: number, row: number, column: number) => number;

const count = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** The grid of a row scheme: the place of the scale in its tensor. */
function placeIn(facts: RuleFacts, scale: RuleTensor): Rule {
  const [columns = 1, rows = 1] = facts.shape.toReversed();
  const matrices = count(facts.shape) / Math.max(rows * columns, 1);
  const [blockRows = 1, blockColumns = 1] = facts.block ?? [
    Math.max(rows, 1),
    Math.max(columns, 1),
  ];
  const grid = [Math.ceil(rows / blockRows), Math.ceil(columns / blockColumns)] as const;
  const groups = facts.parts['columnGroups'];
  const order = groups !== undefined && !isUnused(groups) ? groups : undefined;
  const perMatrix = count(scale.shape) === grid[0] * grid[1] * matrices ? grid[0] * grid[1] : 0;
  return (matrix, row, column) => {
    const group =
      order === undefined ? Math.floor(column / blockColumns) : item(order, 'I32', column);
    return matrix * perMatrix + Math.floor(row / blockRows) * grid[1] + group;
  };
}

function isUnused(groups: RuleTensor): boolean {
  return Array.from({ length: groups.shape[0] as number }, (_, i) =>
    item(groups, 'I32', i),
  ).includes(-1);
}

function elementRule(facts: RuleFacts): Rule {
  const [weight, scale] = [part(facts, 'weight'), part(facts, 'scale')];
  const place = placeIn(facts, scale);
  const zero = facts.parts['zeroPoint'];
  const [columns = 1, rows = 1] = facts.shape.toReversed();
  const isBytes = facts.scheme === 'mlx-mxfp8';
  const scaleDtype = scale.dtype === 'U8' ? 'F8_E8M0' : scale.dtype;
  return (matrix, row, column) => {
    const at = place(matrix, row, column);
    const code = item(
      weight,
      isBytes ? 'F8_E4M3' : weight.dtype,
      (matrix * rows + row) * columns + column,
    );
    const offset = zero === undefined ? code : fround(code - item(zero, zero.dtype, at));
    const value = fround(offset * item(scale, scaleDtype, at));
    return facts.scheme === 'bitsandbytes-int8'
      ? fround(value * fround(0.007874015718698502))
      : value;
  };
}

function e2m1Rule(facts: RuleFacts): Rule {
  const [weight, scale] = [part(facts, 'weight'), part(facts, 'scale')];
  const [columns = 1, rows = 1] = facts.shape.toReversed();
  const groupLength = facts.isExchanged ? 32 : (facts.block?.[1] as number);
  const global = facts.parts['globalScale'];
  const scaleDtype = facts.scheme?.includes('nvfp4') ? 'F8_E4M3' : 'F8_E8M0';
  return (matrix, row, column) => {
    // Exchanged: `row` is an input, `column` an output.
    const [output, input, outputs, inputs] = facts.isExchanged
      ? [column, row, columns, rows]
      : [row, column, rows, columns];
    const first = (matrix * outputs + output) * inputs;
    const own = item(scale, scaleDtype, first / groupLength + Math.floor(input / groupLength));
    const other = global === undefined ? 1 : item(global, 'F32', 0);
    const factor = fround(facts.divides ? own / other : own * other);
    return fround(e2m1(nibble(weight, first + input)) * factor);
  };
}

function packRule(facts: RuleFacts): Rule {
  const [weight, scale] = [part(facts, 'weight'), part(facts, 'scale')];
  const { bits, perWord } = facts;
  const place = placeIn(facts, scale);
  const words = weight.shape[1] as number;
  const zero = facts.parts['zeroPoint'];
  const bitOf = (i: number): number =>
    perWord === undefined ? i * bits : Math.floor(i / perWord) * 32 + (i % perWord) * bits;
  return (_, row, column) => {
    const at = place(0, row, column);
    const code = field(weight, row * words, 1, bitOf(column), bits) - 2 ** (bits - 1);
    const columns = zero?.shape[1] as number;
    const offset =
      zero === undefined
        ? 0
        : field(zero, at % columns, columns, bitOf(row), bits) - 2 ** (bits - 1);
    return fround((code - offset) * item(scale, scale.dtype, at));
  };
}

function affineRule(facts: RuleFacts): Rule {
  const [weight, scale, bias] = [part(facts, 'weight'), part(facts, 'scale'), part(facts, 'bias')];
  const place = placeIn(facts, scale);
  const words = weight.shape.at(-1) as number;
  const rows = facts.shape.at(-2) ?? 1;
  return (matrix, row, column) => {
    const at = place(matrix, row, column);
    const code = field(weight, (matrix * rows + row) * words, 1, column * facts.bits, facts.bits);
    return fround(fround(code * item(scale, scale.dtype, at)) + item(bias, bias.dtype, at));
  };
}

function flatRule(facts: RuleFacts): Rule {
  const [weight, map, absmax] = [
    part(facts, 'weight'),
    part(facts, 'codeBook'),
    part(facts, 'scale'),
  ];
  const [columns = 1, rows = 1] = facts.shape.toReversed();
  const blockLength = facts.block?.[0] as number;
  const scaleOf = (block: number): number => {
    const { nested } = facts;
    if (nested === undefined) return item(absmax, 'F32', block);
    const value = item(part(facts, 'nestedCodeBook'), 'F32', absmax.bytes[block] as number);
    const scale = item(part(facts, 'nestedScale'), 'F32', Math.floor(block / nested.blockLength));
    return fround(fround(value * scale) + fround(nested.offset));
  };
  return (matrix, row, column) => {
    const i = (matrix * rows + row) * columns + column;
    return fround(item(map, 'F32', nibble(weight, i, true)) * scaleOf(Math.floor(i / blockLength)));
  };
}

function columnRule(facts: RuleFacts): Rule {
  const [weight, scale, zeros] = [
    part(facts, 'weight'),
    part(facts, 'scale'),
    part(facts, 'zeroPoint'),
  ];
  const groups = facts.parts['columnGroups'];
  const { bits, offset = 0 } = facts;
  const outputs = facts.shape[0] as number;
  const groupLength = facts.block?.[1] as number;
  const isAwq = facts.scheme === 'awq';
  const ones = Array.from({ length: 32 / bits }, (_, i) => 2 ** (i * bits)).reduce(
    (a, b) => a + b,
    0,
  );
  const added = new DataView(zeros.bytes.slice().buffer);
  const isWhole = 32 % bits === 0;
  for (let at = 0; isWhole && at < added.byteLength; at += 4) {
    added.setUint32(at, (added.getUint32(at, true) + (offset === 0 ? 0 : ones)) % 2 ** 32, true);
  }
  const zeroTensor = { ...zeros, bytes: new Uint8Array(added.buffer) };
  const awqBit = (output: number): number =>
    32 * Math.floor(output / 8) + 4 * ([0, 4, 1, 5, 2, 6, 3, 7][output % 8] as number);
  return (_, output, input) => {
    const group =
      groups === undefined ? Math.floor(input / groupLength) : item(groups, 'I32', input);
    const words = (outputs * bits) / 32;
    const code = isAwq
      ? field(weight, input * words, 1, awqBit(output), bits)
      : field(weight, output, outputs, input * bits, bits);
    const stored = field(
      zeroTensor,
      group * words,
      1,
      isAwq ? awqBit(output) : output * bits,
      bits,
    );
    const zero = isWhole ? stored : (stored + offset) % 2 ** bits;
    return fround((code - zero) * item(scale, scale.dtype, group * outputs + output));
  };
}

function ruleOf(facts: RuleFacts): Rule {
  const { scheme } = facts;
  if (scheme === 'pack-quantized') return packRule(facts);
  if (scheme === 'mlx-affine') return affineRule(facts);
  if (scheme === 'gptq' || scheme === 'awq') return columnRule(facts);
  if (scheme === 'bitsandbytes-nf4' || scheme === 'bitsandbytes-fp4') return flatRule(facts);
  return scheme?.includes('fp4') ? e2m1Rule(facts) : elementRule(facts);
}

/** All values of a weight, one after the other. */
export function ruleValues(facts: RuleFacts): Float32Array {
  const [columns = 1, rows = 1] = facts.shape.toReversed();
  const rule = ruleOf(facts);
  const values = new Float32Array(count(facts.shape));
  for (let i = 0; i < values.length; i++) {
    const row = Math.floor(i / columns);
    values[i] = rule(Math.floor(row / rows), row % rows, i % columns);
  }
  return values;
}

/** Bit patterns, with one for every NaN. */
export function patternsOf(values: Float32Array): Uint32Array {
  const patterns = new Uint32Array(values.slice().buffer);
  return patterns.map((pattern, i) => (Number.isNaN(values[i]) ? 0x7fc00000 : pattern));
}
