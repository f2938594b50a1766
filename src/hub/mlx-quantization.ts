/** MLX's quantization: packed weights in U32 with scales beside them, and overrides by module. */
import type { Dtype } from '../format/dtype.js';
import {
  type Fields,
  fieldsOf,
  lastPart,
  type Multiplier,
  packingFactor,
} from './parameter-packing.js';

/** A configuration that is MLX's. */
export interface MlxConfig {
  readonly fields: Fields;
}

interface Packing {
  readonly bits: number;
  readonly mode: string;
}

/** Bits and group sizes of each mode; the first ones are the defaults. */
const MODES: ReadonlyMap<string, { bits: readonly number[]; groups: readonly number[] }> = new Map([
  ['affine', { bits: [4, 2, 3, 5, 6, 8], groups: [64, 32, 128] }],
  ['mxfp4', { bits: [4], groups: [32] }],
  ['nvfp4', { bits: [4], groups: [16] }],
  ['mxfp8', { bits: [8], groups: [32] }],
]);

/** What the fields say, completed by the mode's defaults; null when it is no packing of MLX. */
function packingOf(fields: Fields): Packing | null {
  const mode = fields['mode'] ?? 'affine';
  if (typeof mode !== 'string') return null;
  const allowed = MODES.get(mode.toLowerCase());
  if (allowed === undefined) return null;
  const bits = fields['bits'] ?? allowed.bits[0];
  const group = fields['group_size'] ?? allowed.groups[0];
  if (typeof bits !== 'number' || typeof group !== 'number') return null;
  const isKnown = allowed.bits.includes(bits) && allowed.groups.includes(group);
  return isKnown ? { bits, mode: mode.toLowerCase() } : null;
}

function describesPacking(fields: Fields): boolean {
  const isGiven = ['bits', 'group_size', 'mode'].some((key) => Object.hasOwn(fields, key));
  return isGiven && packingOf(fields) !== null;
}

/** MLX names no method, so that its own fields, global or of a module, tell that it is MLX. */
export function mlxConfigOf(fields: Fields): MlxConfig | null {
  const { quant_method: method } = fields;
  const isOther =
    method !== undefined && (typeof method !== 'string' || method.toLowerCase() !== 'mlx');
  if (isOther) return null;
  const isMlx = [fields, ...Object.values(fields).map(fieldsOf)].some(describesPacking);
  return isMlx ? { fields } : null;
}

/** Counts by a configuration; a module is packed where its tensors have MLX's form too. */
export function mlxCounter(
  { fields }: MlxConfig,
  dtypeOf: (name: string) => Dtype | undefined,
): Multiplier {
  const packingOfModule = (module: string): Packing | null => {
    const own = Object.hasOwn(fields, module) ? fields[module] : undefined;
    if (own === false) return null;
    const isOverride = typeof own === 'object' && own !== null;
    const packing = packingOf(isOverride ? fieldsOf(own) : fields);
    if (packing === null || dtypeOf(`${module}.weight`) !== 'U32') return null;
    if (dtypeOf(`${module}.scales`) === undefined) return null;
    const isWhole = packing.mode !== 'affine' || dtypeOf(`${module}.biases`) !== undefined;
    return isWhole ? packing : null;
  };
  return ({ name, dtype }) => {
    const part = lastPart(name);
    if (part !== 'weight' && part !== 'scales' && part !== 'biases') return 1;
    const dot = name.lastIndexOf('.');
    const packing = packingOfModule(dot === -1 ? name : name.slice(0, dot));
    if (packing === null) return 1;
    if (part === 'scales' || (part === 'biases' && packing.mode === 'affine')) return 0;
    return part === 'weight' ? packingFactor(dtype, packing.bits) : 1;
  };
}
