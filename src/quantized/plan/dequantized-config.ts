/**
 * The configuration of the same model with dequantized weights: `config.json` without its quantization. All
 * other bytes stay: Python distinguishes 1.0 from 1, JavaScript does not.
 */

import { FormatError, QuantizationError } from '../../errors/errors.js';
import { parsePythonJson, replacePythonNumbers } from '../../header/json/python-json.js';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  JsonReader,
  OPEN_BRACE,
  OPEN_BRACKET,
} from '../../header/json/reader.js';
import { skipValue } from '../../header/json/skip.js';
import { decodeString } from '../../header/json/strings.js';
import type { TextKind } from '../../header/json/utf8.js';

const CONFIG_TEXT: TextKind = {
  noun: 'configuration',
  syntaxCode: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
  utf8Code: 'SAFETENSORS_INVALID_HEADER_UTF8',
};

/** Members that are about quantization alone. The last one is of DeepSeek-V4: `fp4`. */
const SECTIONS: ReadonlySet<string> = new Set([
  'quantization_config',
  'compression_config',
  'quantization',
  'expert_dtype',
]);

/** Members with the dtype of the weights: in newer versions of transformers, and in older ones. */
const DTYPES: ReadonlySet<string> = new Set(['dtype', 'torch_dtype']);

/** A member of an object: where it begins, and where its value ends. */
interface Member {
  readonly begin: number;
  readonly end: number;
  readonly isRemoved: boolean;
}

/** A part of the text, and what takes its place. */
interface Edit {
  readonly begin: number;
  readonly end: number;
  readonly text: string;
}

/**
 * Returns the configuration without its sections about quantization, those of `text_config` and other configurations
 * in it, too. `dtype` is torch's name for the new dtype of the weights, null when none changed.
 *
 * @throws QuantizationError `SAFETENSORS_QUANTIZATION_INVALID` for a text that is not an object of JSON
 */
export function dequantizedConfig(
  config: Uint8Array,
  dtype: string | null,
  path: string,
): Uint8Array {
  try {
    const edits = new ConfigEdits(config, dtype).find();
    return edited(config, edits);
  } catch (error) {
    throw invalidConfig(error, path);
  }
}

function invalidConfig(error: unknown, path: string): unknown {
  if (!(error instanceof FormatError)) return error;
  const { message, cause } = error;
  return new QuantizationError('SAFETENSORS_QUANTIZATION_INVALID', message, { path, cause });
}

/** A configuration with another dtype. */
interface CastConfiguration {
  readonly contents: Uint8Array;
  /** The other dtypes that it listed before, without the prefix `torch.`; empty when the contents are the same. */
  readonly declared: readonly string[];
}

/** What changes in the configuration of the text model when layers or tokens are other ones. */
export interface ConfigChanges {
  /** Numbers that take the place of others, by the names of members. */
  readonly counts: ReadonlyMap<string, number>;
  /** Layers of the result: which ones of the `count` that lists have an item for. Null when these are the same. */
  readonly layers: { readonly count: number; readonly order: readonly number[] } | null;
}

const NO_CHANGES: ConfigChanges = { counts: new Map(), layers: null };

/** From this length on, a list with as many items as there are layers is taken for one of layers, whatever its name. */
const MIN_LAYERS = 8;

/**
 * Returns the configuration with another dtype of all weights, torch's name for it, at all places that list one; null
 * changes none. A section about quantization stays as it is.
 *
 * @throws As {@link dequantizedConfig}
 */
export function castConfig(
  config: Uint8Array,
  dtype: string | null,
  path: string,
  changes: ConfigChanges = NO_CHANGES,
): CastConfiguration {
  try {
    const found = new ConfigEdits(config, dtype, true, changes);
    const contents = edited(config, found.find());
    return { contents, declared: [...found.declared] };
  } catch (error) {
    throw invalidConfig(error, path);
  }
}

/**
 * Parses a configuration, with strings for numbers that only Python knows: no field takes these for a number. Without
 * it values may be others: one that cannot be read must not count as missing.
 *
 * @throws QuantizationError `SAFETENSORS_QUANTIZATION_INVALID` for a text that is not an object of JSON
 */
export function parsedConfig(config: Uint8Array, path: string): unknown {
  dequantizedConfig(config, null, path);
  return parsePythonJson(config);
}

class ConfigEdits {
  readonly #reader: JsonReader;
  readonly #dtype: string | null;
  /** Whether all weights have the dtype, and nothing but the dtype changes. */
  readonly #isCast: boolean;
  readonly #changes: ConfigChanges;
  readonly #config: Uint8Array;
  readonly #edits: Edit[] = [];
  /** The other dtypes that a cast replaces. */
  readonly declared: Set<string> = new Set();

  constructor(
    config: Uint8Array,
    dtype: string | null,
    isCast = false,
    changes: ConfigChanges = NO_CHANGES,
  ) {
    const replaced = replacePythonNumbers(config, (number) => '1'.repeat(number.length));
    const standard = new TextEncoder().encode(replaced);
    // Only a text that is not UTF-8 has another length, and is refused as it stands.
    const text = standard.length === config.length ? standard : config;
    this.#reader = new JsonReader(text, {}, CONFIG_TEXT);
    this.#dtype = dtype;
    this.#isCast = isCast;
    this.#changes = changes;
    this.#config = config;
  }

  find(): readonly Edit[] {
    const reader = this.#reader;
    reader.skipByteOrderMark();
    if (reader.peek() !== OPEN_BRACE) reader.fail('an object');
    this.#object(true, true, 1);
    reader.expectEnd();
    return this.#edits.sort((a, b) => a.begin - b.begin);
  }

  #object(hasWeights: boolean, isText: boolean, depth: number): void {
    const reader = this.#reader;
    const members: Member[] = [];
    if (!reader.enter(CLOSE_BRACE)) return;
    do {
      reader.peek();
      const begin = reader.at;
      const key = decodeString(reader.bytes, reader.readKey());
      const isSection = SECTIONS.has(key);
      const isObject = reader.peek() === OPEN_BRACE;
      const valueBegin = reader.at;
      if (!isSection && isObject && key.endsWith('_config')) {
        const isTextConfig = key === 'text_config';
        this.#object(this.#isCast || isTextConfig, isText && isTextConfig, depth + 1);
      } else if (isText && this.#changes.layers !== null && reader.peek() === OPEN_BRACKET) {
        this.#list(key, depth + 1);
      } else skipValue(reader, depth);
      const end = reader.at;
      const isDtype = hasWeights && this.#dtype !== null && DTYPES.has(key);
      if (isDtype && (!this.#isCast || this.#isOther(valueBegin, end))) {
        this.#edits.push({ begin: valueBegin, end, text: JSON.stringify(this.#dtype) });
      }
      const count = isText ? this.#changes.counts.get(key) : undefined;
      if (count !== undefined) {
        this.#edits.push({ begin: valueBegin, end, text: String(count) });
      }
      members.push({ begin, end, isRemoved: isSection && !this.#isCast });
    } while (reader.hasNext(CLOSE_BRACE));
    this.#remove(members);
  }

  /** Takes the items of the layers, if the list has one for each layer. */
  #list(key: string, depth: number): void {
    const reader = this.#reader;
    const begin = reader.at;
    const items: string[] = [];
    if (!reader.enter(CLOSE_BRACKET)) return;
    do {
      reader.peek();
      const from = reader.at;
      skipValue(reader, depth);
      items.push(new TextDecoder().decode(this.#config.subarray(from, reader.at)));
    } while (reader.hasNext(CLOSE_BRACKET));
    const { count, order } = this.#changes.layers as NonNullable<ConfigChanges['layers']>;
    const isOfLayers = items.length === count && (/layer/.test(key) || count >= MIN_LAYERS);
    if (!isOfLayers || order.some((layer) => layer >= count)) return;
    const text = `[${order.map((layer) => items[layer]).join(', ')}]`;
    this.#edits.push({ begin, end: reader.at, text });
  }

  /** Whether a value is the name of another dtype; null and `auto` stay. */
  #isOther(begin: number, end: number): boolean {
    const value: unknown = JSON.parse(
      new TextDecoder().decode(this.#reader.bytes.subarray(begin, end)),
    );
    if (typeof value !== 'string' || value === 'auto') return false;
    const name = value.replace(/^torch\./, '');
    if (name === this.#dtype) return false;
    this.declared.add(name);
    return true;
  }

  /** Removes members with the commas after them, those at the end with the comma before them. */
  #remove(members: readonly Member[]): void {
    const last = members.findLastIndex(({ isRemoved }) => !isRemoved);
    const cut = (begin: number, end: number): void =>
      void this.#edits.push({ begin, end, text: '' });
    for (const [i, { begin, isRemoved }] of members.entries()) {
      if (isRemoved && i < last) cut(begin, (members[i + 1] as Member).begin);
    }
    if (last === members.length - 1) return;
    const begin = last === -1 ? members[0]?.begin : members[last]?.end;
    cut(begin as number, (members.at(-1) as Member).end);
  }
}

function edited(config: Uint8Array, edits: readonly Edit[]): Uint8Array {
  const encoder = new TextEncoder();
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const { begin, end, text } of edits) {
    parts.push(config.subarray(at, begin), encoder.encode(text));
    at = end;
  }
  parts.push(config.subarray(at));
  const result = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let place = 0;
  for (const part of parts) {
    result.set(part, place);
    place += part.length;
  }
  return result;
}
