/** Names of the files of a sharded checkpoint: shards, the only file, the index. */

import { argumentRangeError, requireString } from '../../errors/arguments.js';

/** Stands for the number of a shard in a pattern. */
const PLACEHOLDER = '{suffix}';

/** The names that models have on the Hub. */
export const DEFAULT_FILENAME_PATTERN = 'model{suffix}.safetensors';

/** Least number of digits of a shard's number; the 100 000th has one more. */
const NUMBER_WIDTH = 5;

const NUMBERED_END = new RegExp(`^-[0-9]{${NUMBER_WIDTH},}-of-[0-9]{${NUMBER_WIDTH},}$`);

/** As for the Hub, a longer `config.json` is ignored. */
export const MAX_CONFIG_BYTE_LENGTH = 10_000_000;

/** Those of large vocabularies have up to 35 MB. */
const MAX_TOKENIZER_BYTE_LENGTH = 64 * 2 ** 20;

/** How many bytes of a file next to the weights are read, by its name. */
export function maxSiblingByteLength(name: string): number {
  return /(?:^|\/)tokenizer\.json$/.test(name) ? MAX_TOKENIZER_BYTE_LENGTH : MAX_CONFIG_BYTE_LENGTH;
}

/** Marks a pipeline of diffusers, which has each model in a folder. */
export const PIPELINE_FILE = 'model_index.json';

/** Whether a path has the name of a DDUF archive; its bytes look like those of any zip archive. */
export function isDdufName(path: string): boolean {
  return /\.dduf$/i.test(path);
}

/** Added to the name of a single file, it is that of an index. */
export const INDEX_SUFFIX = '.index.json';

/** Forbidden in every part of a file name: separators, drives, control characters, lone surrogates. */
// Ranges: of a property such as \p{Cc} the engine collects the characters when it parses the code.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for them
const UNSAFE_IN_PATTERN = /[/\\:{}\u0000-\u001f\u007f-\u009f\ud800-\udfff]/u;

function paddedNumber(number: number): string {
  return String(number).padStart(NUMBER_WIDTH, '0');
}

/** A checked pattern such as `model{suffix}.safetensors`, and the file names that it gives. */
export class FilenamePattern {
  /** The pattern as text, with the variant. */
  readonly text: string;
  /** Name of the index; a variant is placed as transformers does. */
  readonly indexFilename: string;
  readonly #prefix: string;
  readonly #suffix: string;

  /**
   * A variant stands before the number: `fp16` makes `model.fp16-00001-of-00002.safetensors`, with
   * the index `model.safetensors.index.fp16.json`.
   *
   * @throws TypeError `ERR_INVALID_ARG_TYPE` when one of them is not a string
   * @throws RangeError `ERR_OUT_OF_RANGE` when the pattern does not have `{suffix}` exactly once, has
   * other braces, or would not give plain file names: no separator, no drive, no control character,
   * not `.` or `..`
   */
  constructor(pattern: string, variant?: string) {
    requireString('filenamePattern', pattern);
    const parts = pattern.split(PLACEHOLDER);
    const name = parts.join('');
    if (parts.length !== 2 || UNSAFE_IN_PATTERN.test(name) || ['', '.', '..'].includes(name)) {
      const expected =
        "a plain file name with {suffix} exactly once, as 'model{suffix}.safetensors'";
      throw argumentRangeError('filenamePattern', expected, pattern);
    }
    const [prefix = '', suffix = ''] = parts;
    this.#prefix = variant === undefined ? prefix : `${prefix}.${checkVariant(variant)}`;
    this.#suffix = suffix;
    this.text = this.#prefix + PLACEHOLDER + suffix;
    this.indexFilename =
      variant === undefined ? `${name}${INDEX_SUFFIX}` : `${name}.index.${variant}.json`;
  }

  /** Name of shard `number` of `count`, from 1; an only shard has no number. */
  filename(number: number, count: number): string {
    const place = count === 1 ? '' : `-${paddedNumber(number)}-of-${paddedNumber(count)}`;
    return `${this.#prefix}${place}${this.#suffix}`;
  }

  /**
   * Whether a file of this name belongs to a checkpoint of this pattern, with any number of shards:
   * it is the index in one of its spellings, or has the prefix, perhaps a number, and the suffix.
   * Prefix and suffix are taken literally; numbers have at least five ASCII digits. A backup or the
   * file of another variant does not belong to it.
   */
  owns(filename: string): boolean {
    if (this.isIndex(filename)) return true;
    const numberEnd = filename.length - this.#suffix.length;
    if (numberEnd < this.#prefix.length) return false;
    if (!filename.startsWith(this.#prefix) || !filename.endsWith(this.#suffix)) return false;
    const place = filename.slice(this.#prefix.length, numberEnd);
    return place === '' || NUMBERED_END.test(place);
  }

  /** Whether a file is the index of this pattern, in either spelling of a variant. */
  isIndex(filename: string): boolean {
    return filename === this.indexFilename || filename === this.filename(1, 1) + INDEX_SUFFIX;
  }
}

function checkVariant(variant: string): string {
  requireString('variant', variant);
  if (variant === '' || UNSAFE_IN_PATTERN.test(variant)) {
    throw argumentRangeError('variant', "a part of a file name, as 'fp16'", variant);
  }
  return variant;
}
