/** Stability AI's ModelSpec, version 1.0.1: the keys for a model's metadata and their forms. */

/** Prefix of every key of the specification. */
export const MODELSPEC_PREFIX = 'modelspec.';

/** The version to check and write. */
export const MODELSPEC_VERSION = '1.0.1';

type Level = 'must' | 'should' | 'can';

/** A key, without the prefix. */
interface KeyRule {
  readonly level: Level;
  /** The form of values; any text unless given. */
  readonly form?: RegExp;
  /** The form, to complete "must be …". */
  readonly expected?: string;
}

const DATE: KeyRule = {
  level: 'should',
  form: /^\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)?)?$/,
  expected: 'a date of ISO 8601, such as 2024-06-30',
};

const COMMON: Readonly<Record<string, KeyRule>> = {
  sai_model_spec: { level: 'must', form: /^\d+(?:\.\d+){2}$/, expected: 'a version such as 1.0.1' },
  architecture: { level: 'must' },
  implementation: { level: 'must' },
  title: { level: 'must' },
  description: { level: 'should' },
  author: { level: 'should' },
  date: DATE,
  hash_sha256: {
    level: 'should',
    form: /^0x[\da-f]{64}$/,
    expected: '0x and 64 hexadecimal digits in lower case',
  },
  implementation_version: { level: 'can' },
  license: { level: 'can' },
  usage_hint: { level: 'can' },
  thumbnail: { level: 'can', form: /^data:image\//, expected: 'a data URL of an image' },
  tags: { level: 'can' },
  merged_from: { level: 'can' },
};

const IMAGE: Readonly<Record<string, KeyRule>> = {
  resolution: { level: 'must', form: /^\d+x\d+$/, expected: 'a width and a height, as 1024x1024' },
  trigger_phrase: { level: 'can' },
  prediction_type: { level: 'can', form: /^(?:v|epsilon)$/, expected: 'v or epsilon' },
  timestep_range: { level: 'can', form: /^\d+,\s*\d+$/, expected: 'two numbers, as 0,1000' },
  encoder_layer: { level: 'can', form: /^\d+$/, expected: 'the number of a layer' },
  preprocessor: { level: 'can' },
  is_negative_embedding: { level: 'can', form: /^(?:true|false)$/, expected: 'true or false' },
  unet_dtype: { level: 'can' },
  vae_dtype: { level: 'can' },
};

const TEXT_KEYS: Readonly<Record<string, KeyRule>> = {
  data_format: { level: 'must' },
  format_type: { level: 'should' },
  language: { level: 'can' },
  format_template: { level: 'can' },
};

/** Hashes by other algorithms have the form of `hash_sha256`. */
const OTHER_HASH = /^hash_\w+$/;

const HASH_FORM = /^0x[\da-f]+$/;

/** Architectures of language models; all others are of images, or unknown. */
const TEXT_ARCHITECTURE = /^(?:gpt|llama|mistral|qwen(?!-image)|gemma|phi|stablelm)/i;

/** Image models of the specification's list; only these are known to have a resolution. */
const FIXED_RESOLUTION = /^stable-(?:diffusion|video-diffusion|cascade)/;

/** A missing or malformed key. */
export interface ModelspecProblem {
  /** With the prefix. */
  readonly key: string;
  /** `error` for a required key, `warning` for a recommended one. */
  readonly level: 'error' | 'warning';
  /** What is wrong, to follow the key: `is required`. */
  readonly message: string;
}

/** The rules for an architecture, by key without the prefix. */
function rulesFor(architecture: string): Readonly<Record<string, KeyRule>> {
  if (TEXT_ARCHITECTURE.test(architecture)) return { ...COMMON, ...TEXT_KEYS };
  // Components and adapters, such as `stable-diffusion-xl-v1-base/lora`, have no resolution of their own.
  const hasResolution = FIXED_RESOLUTION.test(architecture) && !architecture.includes('/');
  const level = hasResolution ? 'must' : 'can';
  return { ...COMMON, ...IMAGE, resolution: { ...(IMAGE['resolution'] as KeyRule), level } };
}

/**
 * The problems of metadata by the specification: missing keys, then malformed ones.
 *
 * @example
 * ```ts
 * const problems = checkModelspec(new Map([['modelspec.date', 'today']]));
 * console.log(problems.find(({ key }) => key === 'modelspec.date')?.message);
 * // → must be a date of ISO 8601, such as 2024-06-30
 * ```
 */
export function checkModelspec(metadata: ReadonlyMap<string, string>): ModelspecProblem[] {
  const specified = (key: string): string | undefined => metadata.get(MODELSPEC_PREFIX + key);
  const rules = rulesFor(specified('architecture') ?? '');
  const problems: ModelspecProblem[] = [];
  for (const [key, { level }] of Object.entries(rules)) {
    if (level === 'can' || specified(key)) continue;
    problems.push({
      key: MODELSPEC_PREFIX + key,
      level: level === 'must' ? 'error' : 'warning',
      message: level === 'must' ? 'is required' : 'is recommended',
    });
  }
  for (const [key, value] of metadata) {
    if (!key.startsWith(MODELSPEC_PREFIX) || value === '') continue;
    const problem = valueProblem(key.slice(MODELSPEC_PREFIX.length), value, rules);
    if (problem !== null) problems.push({ key, ...problem });
  }
  return problems;
}

function valueProblem(
  key: string,
  value: string,
  rules: Readonly<Record<string, KeyRule>>,
): Omit<ModelspecProblem, 'key'> | null {
  const rule = Object.hasOwn(rules, key) ? rules[key] : undefined;
  if (rule?.form !== undefined && !rule.form.test(value)) {
    return { level: 'error', message: `must be ${rule.expected}` };
  }
  if (rule !== undefined) return null;
  if (!OTHER_HASH.test(key))
    return { level: 'warning', message: 'is not a key of the specification' };
  return HASH_FORM.test(value)
    ? null
    : { level: 'error', message: 'must be 0x and hexadecimal digits in lower case' };
}

/** First bytes of images, by media type; null stands for any byte. */
const IMAGE_STARTS: Readonly<Record<string, readonly (number | null)[]>> = {
  'image/png': [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a],
  'image/jpeg': [0xff, 0xd8, 0xff],
  // RIFF, four bytes of length, WEBP.
  'image/webp': [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50],
};

/** The media type of an image by its first bytes: PNG, JPEG or WebP; null for anything else. */
export function imageTypeOf(bytes: Uint8Array): string | null {
  const found = Object.entries(IMAGE_STARTS).find(([, start]) =>
    start.every((byte, i) => (byte === null ? i < bytes.length : bytes[i] === byte)),
  );
  return found?.[0] ?? null;
}

/**
 * A thumbnail's image; null unless the value is a data URL with base64. Its bytes can be anything.
 *
 * @example
 * ```ts
 * console.log(thumbnailOf('data:image/png;base64,iVBORw==')); // → { type: 'image/png', bytes: Uint8Array(4) [ 137, 80, 78, 71 ] }
 * ```
 */
export function thumbnailOf(value: string): {
  /** The image's media type, as the URL says. */
  type: string;
  /** Its bytes; a new array. */
  bytes: Uint8Array;
} | null {
  const [prefix, type] = /^data:(image\/[\w.+-]+);base64,/.exec(value) ?? [];
  if (prefix === undefined || type === undefined) return null;
  try {
    const text = atob(value.slice(prefix.length));
    return { type, bytes: Uint8Array.from(text, (character) => character.charCodeAt(0)) };
  } catch {
    // It is not base64.
    return null;
  }
}
