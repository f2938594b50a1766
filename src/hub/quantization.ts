/**
 * How many parameters the elements of quantized tensors stand for, by the model's `config.json` and
 * the rules by which the Hub counts. The configuration is a stranger's: what has the wrong type
 * counts as absent.
 */
import type { Dtype } from '../format/dtype.js';
import { type MlxConfig, mlxConfigOf, mlxCounter } from './mlx-quantization.js';
import { exclusionTest, type NameTest, targetTest } from './module-patterns.js';
import {
  type CountedTensor,
  type Fields,
  fieldsOf,
  INTEGERS,
  lastPart,
  type Multiplier,
  packingFactor,
} from './parameter-packing.js';

/** What a configuration says about quantization. */
export interface Quantization {
  /** Its `quant_method` in lower case; null when it names none. */
  readonly method: string | null;
  /** What comparing a name with all patterns costs, per character: one for a short pattern. */
  readonly matchingCost: number;
  /** `dtypeOf` gives the dtype of any tensor of the model, undefined when there is none. */
  multiplier(dtypeOf: (name: string) => Dtype | undefined): Multiplier;
}

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
/** Up to so many characters a pattern costs no more than looking at the name. */
const SHORT_LENGTH = 16;
const FOUR_BIT = /(?:nv|mx)?fp4|u?int4|nf4/;

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function moduleOf(name: string): string {
  const at = name.lastIndexOf('.weight');
  return at === -1 ? name : name.slice(0, at);
}

/** A search can compare most of a long pattern again at every character of a name. */
function costOf(patterns: readonly string[]): number {
  return patterns.reduce((sum, { length }) => sum + 1 + Math.floor(length / SHORT_LENGTH), 0);
}

function bitsOfFormat(format: string | undefined): number | undefined {
  const text = format?.toLowerCase() ?? '';
  if (FOUR_BIT.test(text)) return 4;
  return text.includes('int2') ? 2 : undefined;
}

/** The quantization of a parsed `config.json`; null when it has none. */
export function quantizationOf(config: unknown): Quantization | null {
  const root = fieldsOf(config);
  const text = fieldsOf(root['text_config']);
  const found = sectionOf(root) ?? sectionOf(text);
  if (found === null) return null;
  const expertDtype = textOf(root['expert_dtype'] ?? text['expert_dtype']);
  if (found.mlx !== null) {
    const { mlx } = found;
    return {
      method: 'mlx',
      matchingCost: 0,
      multiplier: (dtypeOf) => withoutAuxiliary(mlxCounter(mlx, dtypeOf)),
    };
  }
  return otherQuantization(found.fields, expertDtype);
}

/** MLX writes `quantization`, older versions of it only `quantization_config` as all others do. */
function sectionOf(config: Fields): { fields: Fields; mlx: MlxConfig | null } | null {
  const own = fieldsOf(config['quantization']);
  const ownMlx = mlxConfigOf(own);
  if (ownMlx !== null) return { fields: own, mlx: ownMlx };
  if (typeof config['quantization_config'] !== 'object' || config['quantization_config'] === null) {
    return null;
  }
  const fields = fieldsOf(config['quantization_config']);
  return { fields, mlx: mlxConfigOf(fields) };
}

function withoutAuxiliary(multiplier: Multiplier): Multiplier {
  return (tensor) => (AUXILIARY.has(lastPart(tensor.name)) ? 0 : multiplier(tensor));
}

function otherQuantization(fields: Fields, expertDtype: string | undefined): Quantization {
  const method = textOf(fields['quant_method'])?.toLowerCase() ?? null;
  const ignored = textsOf(fields['ignore']);
  const exactlyIgnored = new Set(ignored.filter((target) => !target.startsWith('re:')));
  const ignoredPatterns = ignored.filter((target) => target.startsWith('re:'));
  const ignoredTests = ignoredPatterns.map(targetTest);
  const excluded = textsOf(fields['modules_to_not_convert']);
  const exclusions = excluded.map(exclusionTest);
  const groups = method === 'compressed-tensors' ? groupsOf(fields) : [];
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

function isAuxiliary(method: string | null, tensor: CountedTensor, isQuantized: NameTest): boolean {
  const part = lastPart(tensor.name);
  if (method === 'mxfp4') return tensor.dtype === 'U8' && part.endsWith('_scales');
  if (method === 'bitsandbytes') {
    return BITSANDBYTES_AUXILIARY.has(part) || part.startsWith('bitsandbytes__');
  }
  const isGptq = method === 'gptq' || method === 'awq';
  return isGptq && GPTQ_AUXILIARY.has(part) && isQuantized(tensor.name);
}

/** A group of compressed-tensors: some modules with a bit width of their own. */
interface Group {
  readonly targets: readonly NameTest[];
  /** Of finding out whether a module is of the group. */
  readonly cost: number;
  readonly format: string | undefined;
  readonly bits: unknown;
}

function groupsOf(fields: Fields): Group[] {
  return Object.values(fieldsOf(fields['config_groups'])).map((value) => {
    const group = fieldsOf(value);
    const targets = textsOf(group['targets']);
    return {
      targets: targets.map(targetTest),
      cost: 1 + costOf(targets),
      format: textOf(group['format']),
      bits: fieldsOf(group['weights'])['num_bits'] ?? undefined,
    };
  });
}

function multiplierOf(
  method: string | null,
  fields: Fields,
  groups: readonly Group[],
  expertDtype: string | undefined,
): Multiplier {
  const { bits, load_in_4bit: isFourBit } = fields;
  const packed = (tensor: CountedTensor, factor: number): number =>
    tensor.dtype === 'U8' ? factor : 1;
  switch (method) {
    // Named, but without a packing of MLX's.
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
      return compressedMultiplier(textOf(fields['format']), groups);
    case 'fp8': {
      const declared =
        textOf(fields['expert_dtype']) ?? expertDtype ?? textOf(fields['store_dtype']);
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
  groups: readonly Group[],
): Multiplier {
  const anyBits = groups.find((group) => group.bits)?.bits;
  return ({ name, dtype }) => {
    if (!INTEGERS.has(dtype)) return 1;
    const module = moduleOf(name);
    const group = groups.find(({ targets }) => targets.some((test) => test(module)));
    const format = (group?.format ?? globalFormat)?.toLowerCase();
    if (!format?.endsWith('pack-quantized')) return 1;
    return packingFactor(dtype, group?.bits ?? anyBits ?? bitsOfFormat(format) ?? 4);
  };
}
