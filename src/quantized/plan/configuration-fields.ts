/**
 * The fields of a configuration that decide what codes mean. A malformed value is an error: a default in its place
 * would give other values. `null` counts as absent, as in Python.
 */

import { QuantizationError } from '../../errors/errors.js';
import { invalid, shownValue, unsupported } from './unsupported.js';

/** The members of a JSON object. */
type Fields = Readonly<Record<string, unknown>>;

/** What a field holds, and a test of it. */
interface Kind {
  readonly needed: string;
  isValid(value: unknown): boolean;
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) > 0;
const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const COUNT: Kind = { needed: 'a positive integer', isValid: isCount };
const GROUP: Kind = {
  needed: 'a positive integer, or -1',
  isValid: (value) => value === -1 || isCount(value),
};
const FLAG: Kind = { needed: 'true or false', isValid: (value) => typeof value === 'boolean' };
const TEXT: Kind = { needed: 'a string', isValid: (value) => typeof value === 'string' };
const TEXTS: Kind = {
  needed: 'a list of strings',
  isValid: (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
};
const OBJECT: Kind = { needed: 'an object', isValid: isObject };
const ORDER: Kind = {
  needed: 'a string, true or false',
  isValid: (value) => typeof value === 'string' || typeof value === 'boolean',
};
const NUMBER_TYPE = oneOf('int', 'float');
const STRATEGY = oneOf('tensor', 'channel', 'group', 'block', 'tensor_group');

/** Formats of compressed-tensors that are read, and those of groups that differ. */
const FORMATS: readonly string[] = [
  ...['dense', 'int-quantized', 'float-quantized', 'naive-quantized', 'pack-quantized'],
  ...['nvfp4-pack-quantized', 'mxfp4-pack-quantized', 'mxfp8-quantized', 'mixed-precision'],
];

/** Values of `quant_algo` of modelopt whose tensors show what they hold. */
const ALGORITHMS: readonly string[] = [
  ...['FP8', 'FP8_PB_WO', 'FP8_PB_REAL', 'FP8_PER_CHANNEL_PER_TOKEN', 'MXFP8', 'MIXED_PRECISION'],
  ...['NVFP4', 'NVFP4_AWQ', 'W4A8_NVFP4_FP8', 'W4A8_MXFP4_FP8', 'W4A16_AWQ', 'W4A8_AWQ'],
  ...['W8A16', 'W4A16', 'W8A8_SQ_PER_CHANNEL'],
];

function oneOf(...values: readonly string[]): Kind {
  const needed = values.map((value) => JSON.stringify(value)).join(', ');
  return { needed: `one of ${needed}`, isValid: (value) => values.includes(value as string) };
}

type Kinds = Readonly<Record<string, Kind>>;

/** Lists of modules that are left untouched. */
const LISTS: Kinds = {
  modules_to_not_convert: TEXTS,
  ignored_layers: TEXTS,
  llm_int8_skip_modules: TEXTS,
  ignore: TEXTS,
  exclude_modules: TEXTS,
};

const AWQ: Kinds = {
  bits: COUNT,
  w_bit: COUNT,
  group_size: GROUP,
  q_group_size: GROUP,
  version: TEXT,
  checkpoint_format: TEXT,
  zero_point: FLAG,
};

const MLX: Kinds = { bits: COUNT, group_size: COUNT, mode: TEXT };

const MODELOPT: Kinds = { quant_algo: TEXT };

const FIELDS: Readonly<Record<string, Kinds>> = {
  gptq: {
    bits: COUNT,
    group_size: GROUP,
    desc_act: FLAG,
    sym: FLAG,
    checkpoint_format: TEXT,
    pack_dtype: TEXT,
    is_marlin_format: FLAG,
    dynamic: OBJECT,
  },
  awq: AWQ,
  mlx: MLX,
  modelopt: MODELOPT,
  bitsandbytes: { load_in_4bit: FLAG, load_in_8bit: FLAG },
  'compressed-tensors': { format: TEXT, config_groups: OBJECT, transform_config: OBJECT },
};

/** Fields of `weights` of a group of compressed-tensors. */
const WEIGHTS: Kinds = {
  num_bits: COUNT,
  type: NUMBER_TYPE,
  symmetric: FLAG,
  strategy: STRATEGY,
  group_size: GROUP,
  actorder: ORDER,
};

/** Returns the error for the first malformed field of the section about quantization; null without one. */
export function problemOfFields(method: string | null, fields: Fields): QuantizationError | null {
  try {
    requireFields(method, fields);
    return null;
  } catch (error) {
    if (error instanceof QuantizationError) return error;
    throw error;
  }
}

function requireFields(method: string | null, fields: Fields): void {
  const kinds = Object.hasOwn(FIELDS, method ?? '') ? FIELDS[method ?? ''] : undefined;
  // Methods that are not dequantized may have any fields.
  if (kinds === undefined && !SCALED.has(method ?? '')) return;
  requireKinds(fields, { ...LISTS, ...kinds }, '');
  if (method === 'mlx') {
    for (const [module, own] of Object.entries(fields)) {
      if (isObject(own)) requireKinds(own as Fields, MLX, `${module}.`);
    }
  }
  if (method === 'modelopt') requireKnown('quant_algo', fields['quant_algo'], ALGORITHMS);
  if (method !== 'compressed-tensors') return;
  requireKnown('format', fields['format'], FORMATS);
  for (const [name, group] of Object.entries((fields['config_groups'] ?? {}) as Fields)) {
    const path = `config_groups.${name}`;
    requireKinds({ [path]: group }, { [path]: OBJECT }, '');
    const kindsOfGroup = { targets: TEXTS, format: TEXT, weights: OBJECT };
    requireKinds(group as Fields, kindsOfGroup, `${path}.`);
    const { format, weights } = (group ?? {}) as Fields;
    requireKnown(`${path}.format`, format, FORMATS);
    requireKinds((weights ?? {}) as Fields, WEIGHTS, `${path}.weights.`);
  }
}

/** Methods whose scales need no field but the size of a block, which is read with its own check. */
const SCALED: ReadonlySet<string> = new Set(['fp8', 'mxfp8', 'fbgemm_fp8', 'mxfp4', 'unknown']);

function requireKinds(fields: Fields | null, kinds: Kinds, path: string): void {
  for (const [field, { needed, isValid }] of Object.entries(kinds)) {
    const value = fields?.[field];
    if (value === undefined || value === null || isValid(value)) continue;
    throw invalid(undefined, `${path}${field} must be ${needed}, found ${shownValue(value)}`);
  }
}

/** Throws for a name that may stand for another layout of codes. */
function requireKnown(path: string, value: unknown, known: readonly string[]): void {
  if (value === undefined || value === null) return;
  if (known.some((name) => name.toLowerCase() === String(value).toLowerCase())) return;
  throw unsupported(undefined, `${path} ${shownValue(value)} is not supported`);
}
