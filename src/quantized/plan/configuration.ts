/**
 * What a model's `config.json` declares about its quantization. It is untrusted: patterns never become regular
 * expressions, and a malformed field is a problem of all weights. The tensors decide what is quantized; the
 * configuration gives what their shapes do not show.
 */

import type { QuantizationError } from '../../errors/errors.js';
import { globTest, type NameTest, targetTest } from '../../file/hub/module-patterns.js';
import { problemOfFields } from './configuration-fields.js';
import { invalid, shownValue } from './unsupported.js';

/** The members of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** The weights of a group of compressed-tensors. */
interface GroupWeights {
  readonly format: string | null;
  readonly weights: Fields;
}

/** Most work for the patterns of a configuration: steps of matching, some seconds. Real models need a thousandth. */
const MAX_MATCHING_STEPS = 1e9;

/** Files with the section about quantization where `config.json` has none. */
export const OTHER_CONFIGS: readonly string[] = [
  'hf_quant_config.json',
  'quantize_config.json',
  'quant_config.json',
];

/** The file of SDNQ, whose scales have a name that other methods use, too. */
export const SDNQ_CONFIG = 'quantization_config.json';

/** What a configuration declares. */
export interface Configuration {
  /** `quant_method` in lower case, or what other fields say; null without a configuration. */
  readonly method: string | null;
  /** Fields of the section about quantization. */
  readonly fields: Fields;
  /** Why no weight can be read by it, as a field is malformed; null for one that is well-formed. */
  readonly problem: QuantizationError | null;
  /** `weight_block_size`; null when there is none, or the shape of the scale tells. */
  readonly blockSize: readonly [rows: number, columns: number] | null;
  /** Whether a module is left untouched, so that its weight needs no scale. */
  isExcluded(module: string): boolean;
  /** The group of compressed-tensors that a module belongs to. */
  groupOf(module: string): GroupWeights | null;
}

/** Whether `actorder` of compressed-tensors stores the group of each column: true is an older word for it. */
export function isGroupOrder(value: unknown): boolean {
  const order = typeof value === 'string' ? value.toLowerCase() : value;
  return order === 'group' || order === 'dynamic' || order === true;
}

/** The fields of a JSON object; empty for any other value. */
export function fieldsOf(value: unknown): Fields {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? (value as Fields) : {};
}

/** A string; undefined for any other value. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** An integer from 1 on; undefined for any other value. */
export function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined;
}

/** The strings of an array. Empty ones are left out: as patterns they would match every name. */
function textsOf(value: unknown): string[] {
  const texts = Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
  return texts.filter((text) => text !== '');
}

/** The section about quantization; null without one. */
function sectionOf(config: Fields): Fields | null {
  // ModelSlim.
  const slim = textOf(config['quantize']);
  if (slim !== undefined) return { quant_method: 'modelslim', variant: slim };
  const text = fieldsOf(config['text_config']);
  const quantization = fieldsOf(config['quantization']);
  // hf_quant_config.json of modelopt.
  if (textOf(quantization['quant_algo']) !== undefined) {
    return { quant_method: 'modelopt', ...quantization };
  }
  // MLX copies its section to `quantization_config`, where another method may stand, too.
  const isMlx = 'bits' in quantization || 'group_size' in quantization;
  const sections = [
    isMlx ? quantization : null,
    config['quantization_config'],
    config['compression_config'],
    config['quantization'],
    text['quantization_config'],
    text['compression_config'],
    text['quantization'],
  ].map(fieldsOf);
  const found = sections.find((section) => Object.keys(section).length > 0);
  if (found !== undefined) return found;
  // quantize_config.json of GPTQ, quant_config.json of AWQ: the file is the section.
  const hasBits = 'bits' in config || 'w_bit' in config;
  const isOwnFile =
    countOf(config['bits'] ?? config['w_bit']) !== undefined ||
    (hasBits && OWN_FIELDS.some((field) => field in config)) ||
    'quant_method' in config;
  return isOwnFile ? config : null;
}

/** Fields of a file that is about quantization alone. */
const OWN_FIELDS: readonly string[] = [
  'group_size',
  'q_group_size',
  'desc_act',
  'zero_point',
  'sym',
  'version',
];

function methodOf(fields: Fields): string {
  const { quant_method: given } = fields;
  if (given !== undefined && given !== null && typeof given !== 'string') {
    throw invalid(undefined, `quant_method must be a string, found ${shownValue(given)}`);
  }
  const method = textOf(given)?.toLowerCase();
  if (method === 'modelopt_fp4' || method === 'modelopt_mixed') return 'modelopt';
  if (method === 'sparseml') return 'compressed-tensors';
  if (method !== undefined) return method;
  if ('config_groups' in fields) return 'compressed-tensors';
  if (textOf(fields['quant_algo']) !== undefined) return 'modelopt';
  if ('load_in_4bit' in fields || 'load_in_8bit' in fields) return 'bitsandbytes';
  if ('w_bit' in fields || fields['version'] === 'gemm') return 'awq';
  // MLX names no method.
  if ('desc_act' in fields || 'checkpoint_format' in fields) return 'gptq';
  return 'group_size' in fields || 'mode' in fields ? 'mlx' : 'unknown';
}

/** Lists of modules that are left untouched, and how each is matched. */
const EXCLUDED_MODULES: readonly (readonly [field: string, test: (pattern: string) => NameTest])[] =
  [
    ['modules_to_not_convert', conversionTest],
    ['ignored_layers', conversionTest],
    ['llm_int8_skip_modules', conversionTest],
    ['ignore', ignoreTest],
    ['exclude_modules', ignoreTest],
  ];

/** transformers: the pattern at the start of the name, or the whole pattern at its end. */
function conversionTest(pattern: string): NameTest {
  const start = targetTest(`re:${pattern}`);
  return (module) => start(module) || module.endsWith(pattern);
}

/** compressed-tensors: a name, or `re:` and a regex; modelopt: `*` for any characters. */
function ignoreTest(pattern: string): NameTest {
  return pattern.startsWith('re:') ? targetTest(pattern) : globTest(pattern);
}

/** Counts steps of matching: a pattern with `*` may compare much of itself again at every character of a name. */
class Meter {
  #steps = 0;

  /** The test, counted. */
  count(pattern: string, test: NameTest): NameTest {
    const isWild = pattern.includes('*');
    return (name) => {
      this.#steps += pattern.length * (isWild ? name.length : 1) + 1;
      if (this.#steps <= MAX_MATCHING_STEPS) return test(name);
      throw invalid(undefined, 'the patterns of the configuration take too long to match');
    };
  }
}

/** What the parsed text of `config.json` declares. */
export function configurationOf(config: unknown): Configuration {
  const fields = sectionOf(fieldsOf(config));
  const meter = new Meter();
  const method = fields === null ? null : methodOf(fields);
  const groups = fields === null ? [] : groupsOf(fields, meter);
  const patterns = EXCLUDED_MODULES.map(([field]) => textsOf(fields?.[field]));
  const exact = new Set(patterns.flat());
  const tests = EXCLUDED_MODULES.flatMap(([, test], i) =>
    (patterns[i] as string[]).map((pattern) => meter.count(pattern, test(pattern))),
  );
  return {
    method,
    fields: fields ?? {},
    problem: fields === null ? null : problemOfFields(method, fields),
    blockSize: blockSizeOf(method, fields ?? {}),
    isExcluded: (module) => exact.has(module) || tests.some((test) => test(module)),
    groupOf: (module) => matchGroup(groups, module, textOf(fields?.['format'])),
  };
}

interface Group {
  readonly exact: ReadonlySet<string>;
  readonly tests: readonly NameTest[];
  readonly namesClass: boolean;
  readonly fields: Fields;
}

function groupsOf(fields: Fields, meter: Meter): Group[] {
  return Object.values(fieldsOf(fields['config_groups'])).map((value) => {
    const group = fieldsOf(value);
    const targets = textsOf(group['targets']);
    const patterns = targets.filter((target) => target.startsWith('re:'));
    return {
      exact: new Set(targets),
      tests: patterns.map((pattern) => meter.count(pattern, targetTest(pattern))),
      // A class of torch, such as Linear. Files have no classes: it stands for every module.
      namesClass: targets.some((target) => /^[A-Z]\w*$/.test(target)),
      fields: group,
    };
  });
}

/** Exact names go before patterns, patterns before classes. */
function matchGroup(
  groups: readonly Group[],
  module: string,
  format: string | undefined,
): GroupWeights | null {
  const found =
    groups.find(({ exact }) => exact.has(module)) ??
    groups.find(({ tests }) => tests.some((test) => test(module))) ??
    groups.find(({ namesClass }) => namesClass) ??
    // Its targets may be patterns that are not matched here: it must be the group of what is quantized.
    (groups.length === 1 ? groups[0] : undefined);
  if (found === undefined) return null;
  return {
    format: textOf(found.fields['format']) ?? format ?? null,
    weights: fieldsOf(found.fields['weights']),
  };
}

function blockSizeOf(method: string | null, fields: Fields): Configuration['blockSize'] {
  const given = fields['weight_block_size'];
  if (given === undefined) return method === 'fp8' ? [128, 128] : null;
  if (given === null) return null;
  const [rows, columns, ...more] = Array.isArray(given) ? given.map(countOf) : [];
  if (rows === undefined || columns === undefined || more.length > 0) {
    const found = JSON.stringify(given).slice(0, 100);
    throw invalid(undefined, `weight_block_size must be two positive integers, found ${found}`);
  }
  return [rows, columns];
}
