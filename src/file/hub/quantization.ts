/**
 * How many parameters the elements of quantized tensors stand for, by the model's `config.json` and
 * the rules by which the Hub counts. The configuration is untrusted: a field of the wrong type
 * counts as absent.
 */
import { DTYPES, type Dtype } from '../../header/dtype.js';
import { exclusionTest, type NameTest, targetTest } from './module-patterns.js';

/** A tensor to count. */
interface NamedDtype {
  readonly name: string;
  readonly dtype: Dtype;
}

/** Parameters per element; 0 for tensors that only serve to read others. */
export type Multiplier = (tensor: NamedDtype) => number;

/** The quantization that a configuration declares. */
export interface Quantization {
  /** Its `quant_method` in lower case; null without one. */
  readonly method: string | null;
  /** Cost of comparing a name with all patterns, per character: 1 for a short pattern. */
  readonly matchingCost: number;
  /** `dtypeOf` gives the dtype of any tensor of the model, undefined for an unknown name. */
  multiplier(dtypeOf: (name: string) => Dtype | undefined): Multiplier;
}

/** Dtypes into which quantizers pack narrower values. */
const PACKED_DTYPES: ReadonlySet<Dtype> = new Set(['U8', 'I8', 'U16', 'I16', 'U32', 'I32']);

/** Last parts of the names of tensors that only serve to read others. */
const AUXILIARY: ReadonlySet<string> = new Set([
  'weight_scale',
  'weight_scale_inv',
  'weight_scale_2',
  'weight_global_scale',
  'weight_zero_point',
  'weight_shape',
  'weight_g_idx',
  'input_scale',
  'input_global_scale',
  'input_zero_point',
  'zero_point',
]);
const GPTQ_AUXILIARY: ReadonlySet<string> = new Set(['qzeros', 'g_idx', 'scales']);
const BITSANDBYTES_AUXILIARY: ReadonlySet<string> = new Set([
  'absmax',
  'quant_map',
  'nested_absmax',
  'nested_quant_map',
]);
/** A pattern of up to this many characters costs no more than one pass over the name. */
const SHORT_NAME_LENGTH = 16;
const FOUR_BIT = /(?:nv|mx)?fp4|u?int4|nf4/;

/** The members of a JSON object. */
type Fields = Readonly<Record<string, unknown>>;

/** The fields of a JSON object; empty for any other value. */
function fieldsOf(value: unknown): Fields {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Fields) : {};
}

/** The part of a name after the last dot. */
function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

/** How many values of `bits` each element of an integer dtype holds; may be a fraction. */
function packingFactor(dtype: Dtype, bits: unknown): number {
  const isPacked = typeof bits === 'number' && bits > 0 && bits < DTYPES[dtype].bits;
  return isPacked && PACKED_DTYPES.has(dtype) ? DTYPES[dtype].bits / bits : 1;
}

function ifText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function onlyTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function moduleOf(name: string): string {
  const at = name.lastIndexOf('.weight');
  return at === -1 ? name : name.slice(0, at);
}

/** Matching can compare most of a long pattern again at every character of a name. */
function costOf(patterns: readonly string[]): number {
  return patterns.reduce((sum, { length }) => sum + 1 + Math.floor(length / SHORT_NAME_LENGTH), 0);
}

function bitsOfFormat(format: string | undefined): number | undefined {
  const text = format?.toLowerCase() ?? '';
  if (FOUR_BIT.test(text)) return 4;
  return text.includes('int2') ? 2 : undefined;
}

/** The quantization of a parsed `config.json`; null if it declares none. */
export function quantizationOf(config: unknown): Quantization | null {
  const root = fieldsOf(config);
  const text = fieldsOf(root['text_config']);
  const found = sectionOf(root) ?? sectionOf(text);
  if (found === null) return null;
  const expertDtype = ifText(root['expert_dtype'] ?? text['expert_dtype']);
  const { fields } = found;
  return found.isMlx ? mlxQuantization(fields) : otherQuantization(fields, expertDtype);
}

/** The quantization of a section `quantization_config` by the method that it names; MLX must be named, too. */
export function quantizationOfSection(
  section: object,
  expertDtype: string | undefined,
): Quantization {
  const fields = fieldsOf(section);
  const isNamedMlx = ifText(fields['quant_method'])?.toLowerCase() === 'mlx';
  return isNamedMlx ? mlxQuantization(fields) : otherQuantization(fields, expertDtype);
}

function mlxQuantization(fields: Fields): Quantization {
  return {
    method: 'mlx',
    matchingCost: 0,
    multiplier: (dtypeOf) => withoutAuxiliary(mlxMultiplier(fields, dtypeOf)),
  };
}

/** MLX writes `quantization`; older versions of it write `quantization_config`, as all others do. */
function sectionOf(config: Fields): { fields: Fields; isMlx: boolean } | null {
  const own = fieldsOf(config['quantization']);
  if (isMlx(own)) return { fields: own, isMlx: true };
  const section = config['quantization_config'];
  if (typeof section !== 'object' || section === null) return null;
  const fields = fieldsOf(section);
  return { fields, isMlx: isMlx(fields) };
}

function withoutAuxiliary(multiplier: Multiplier): Multiplier {
  return (tensor) => (AUXILIARY.has(lastPart(tensor.name)) ? 0 : multiplier(tensor));
}

function otherQuantization(fields: Fields, expertDtype: string | undefined): Quantization {
  const method = ifText(fields['quant_method'])?.toLowerCase() ?? null;
  const ignored = onlyTexts(fields['ignore']);
  const exactlyIgnored = new Set(ignored.filter((target) => !target.startsWith('re:')));
  const ignoredPatterns = ignored.filter((target) => target.startsWith('re:'));
  const ignoredTests = ignoredPatterns.map(targetTest);
  const excluded = onlyTexts(fields['modules_to_not_convert']);
  const exclusions = excluded.map(exclusionTest);
  const groups = method === 'compressed-tensors' ? quantizedGroups(fields) : [];
  const isQuantized: NameTest = (name) => {
    const module = moduleOf(name);
    if (exactlyIgnored.has(module) || ignoredTests.some((test) => test(module))) return false;
    return !exclusions.some((test) => test(name));
  };
  const byMethod = multiplierOf(method, fields, groups, expertDtype);
  const groupCost = groups.reduce((sum, { cost }) => sum + cost, 0);
  return {
    method,
    matchingCost: costOf(ignoredPatterns) + costOf(excluded) + groupCost,
    multiplier: () =>
      withoutAuxiliary((tensor) =>
        isAuxiliary(method, tensor, isQuantized)
          ? 0
          : isQuantized(tensor.name)
            ? byMethod(tensor)
            : 1,
      ),
  };
}

function isAuxiliary(method: string | null, tensor: NamedDtype, isQuantized: NameTest): boolean {
  const part = lastPart(tensor.name);
  if (method === 'mxfp4') return tensor.dtype === 'U8' && part.endsWith('_scales');
  if (method === 'bitsandbytes') {
    return BITSANDBYTES_AUXILIARY.has(part) || part.startsWith('bitsandbytes__');
  }
  const isGptq = method === 'gptq' || method === 'awq';
  return isGptq && GPTQ_AUXILIARY.has(part) && isQuantized(tensor.name);
}

/** A group of compressed-tensors: some modules with a separate bit width. */
interface QuantizedGroup {
  readonly targets: readonly NameTest[];
  /** Cost of finding out whether a module belongs to the group. */
  readonly cost: number;
  readonly format: string | undefined;
  readonly bits: unknown;
}

function quantizedGroups(fields: Fields): QuantizedGroup[] {
  return Object.values(fieldsOf(fields['config_groups'])).map((value) => {
    const group = fieldsOf(value);
    const targets = onlyTexts(group['targets']);
    return {
      targets: targets.map(targetTest),
      cost: 1 + costOf(targets),
      format: ifText(group['format']),
      bits: fieldsOf(group['weights'])['num_bits'] ?? undefined,
    };
  });
}

function multiplierOf(
  method: string | null,
  fields: Fields,
  groups: readonly QuantizedGroup[],
  expertDtype: string | undefined,
): Multiplier {
  const { bits, load_in_4bit: isFourBit } = fields;
  const packed = (tensor: NamedDtype, factor: number): number =>
    tensor.dtype === 'U8' ? factor : 1;
  switch (method) {
    // The method is named, but there is no packing of MLX's.
    case 'mlx':
      return () => 1;
    case 'mxfp4':
      return (tensor) => packed(tensor, tensor.name.includes('_blocks') ? 2 : 1);
    case 'gptq':
    case 'awq': {
      const width = typeof bits === 'number' && bits > 0 ? bits : 4;
      const perWord = Math.max(1, Math.floor(32 / width));
      const perByte = bits === 4 ? 2 : bits === 2 ? 4 : 1;
      return (tensor) => (lastPart(tensor.name) === 'qweight' ? perWord : packed(tensor, perByte));
    }
    case 'compressed-tensors':
      return compressedMultiplier(ifText(fields['format']), groups);
    case 'fp8': {
      const declared =
        ifText(fields['expert_dtype']) ?? expertDtype ?? ifText(fields['store_dtype']);
      const width = bitsOfFormat(declared);
      return ({ name, dtype }) =>
        name.includes('.experts.') && !name.includes('shared_experts')
          ? packingFactor(dtype, width)
          : 1;
    }
    case 'bitsandbytes':
      return (tensor) => packed(tensor, isFourBit ? 2 : 1);
    default:
      return (tensor) => packed(tensor, isFourBit || bits === 4 ? 2 : 1);
  }
}

function compressedMultiplier(
  globalFormat: string | undefined,
  groups: readonly QuantizedGroup[],
): Multiplier {
  const anyBits = groups.find((group) => group.bits)?.bits;
  return ({ name, dtype }) => {
    if (!PACKED_DTYPES.has(dtype)) return 1;
    const module = moduleOf(name);
    const group = groups.find(({ targets }) => targets.some((test) => test(module)));
    const format = (group?.format ?? globalFormat)?.toLowerCase();
    if (!format?.endsWith('pack-quantized')) return 1;
    return packingFactor(dtype, group?.bits ?? anyBits ?? bitsOfFormat(format) ?? 4);
  };
}

/** How MLX packs a module: weights in U32, with scales next to them. */
interface MlxPacking {
  readonly bits: number;
  readonly mode: string;
}

/** Bits and group sizes of each mode of MLX; the first ones are the defaults. */
const MLX_MODES: ReadonlyMap<string, { bits: readonly number[]; groups: readonly number[] }> =
  new Map([
    ['affine', { bits: [4, 2, 3, 5, 6, 8], groups: [64, 32, 128] }],
    ['mxfp4', { bits: [4], groups: [32] }],
    ['nvfp4', { bits: [4], groups: [16] }],
    ['mxfp8', { bits: [8], groups: [32] }],
  ]);

/** The fields, completed by the mode's defaults; null if MLX has no such packing. */
function mlxPackingOf(fields: Fields): MlxPacking | null {
  const mode = fields['mode'] ?? 'affine';
  if (typeof mode !== 'string') return null;
  const allowed = MLX_MODES.get(mode.toLowerCase());
  if (allowed === undefined) return null;
  const bits = fields['bits'] ?? allowed.bits[0];
  const group = fields['group_size'] ?? allowed.groups[0];
  if (typeof bits !== 'number' || typeof group !== 'number') return null;
  const isKnown = allowed.bits.includes(bits) && allowed.groups.includes(group);
  return isKnown ? { bits, mode: mode.toLowerCase() } : null;
}

function describesMlxPacking(fields: Fields): boolean {
  const isGiven = ['bits', 'group_size', 'mode'].some((key) => Object.hasOwn(fields, key));
  return isGiven && mlxPackingOf(fields) !== null;
}

/** MLX names no method: its own fields, global or of a module, tell that it is MLX. */
function isMlx(fields: Fields): boolean {
  const { quant_method: method } = fields;
  const isOther =
    method !== undefined && (typeof method !== 'string' || method.toLowerCase() !== 'mlx');
  return !isOther && [fields, ...Object.values(fields).map(fieldsOf)].some(describesMlxPacking);
}

/** By the configuration; a module counts as packed only if its tensors have MLX's form too. */
function mlxMultiplier(fields: Fields, dtypeOf: (name: string) => Dtype | undefined): Multiplier {
  const packingOfModule = (module: string): MlxPacking | null => {
    const own = Object.hasOwn(fields, module) ? fields[module] : undefined;
    if (own === false) return null;
    const isOverride = typeof own === 'object' && own !== null;
    const packing = mlxPackingOf(isOverride ? fieldsOf(own) : fields);
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
