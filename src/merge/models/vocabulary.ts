/** Vocabularies of models, by their `tokenizer.json`: which row of which model a row of the result is. */

import { SafetensorsError } from '../../errors/errors.js';
import type { Work } from '../../work/work.js';
import { type OpenRows, type RowSource, StoredRows } from './inputs.js';
import { isOfVocabulary } from './layers.js';
import { type Model, modelLabel } from './model.js';
import type { PlannedInput } from './plan.js';
import type { VocabularyRows } from './tensors.js';

const TOKENIZER_FILE = 'tokenizer.json';

/** Files of a tokenizer. */
export const TOKENIZER_NAMES: ReadonlySet<string> = new Set([
  TOKENIZER_FILE,
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'vocab.txt',
  'tokenizer.model',
  'spiece.model',
  'chat_template.jinja',
  'chat_template.json',
]);

/** Whether a file belongs to the tokenizer. */
export function isOfTokenizer(name: string): boolean {
  return TOKENIZER_NAMES.has(name);
}

/** A token that is matched before the tokenizer's model runs. */
interface AddedToken {
  readonly id: number;
  readonly content: string;
}

/** What is read of a `tokenizer.json`. */
interface Tokenizer {
  readonly json: {
    readonly added_tokens?: readonly AddedToken[];
    readonly model: {
      readonly type?: string;
      readonly vocab: Readonly<Record<string, number>> | readonly (readonly [string, number])[];
      readonly merges?: readonly unknown[];
    };
  };
  /** Ids of all tokens. */
  readonly ids: ReadonlyMap<string, number>;
  readonly added: ReadonlyMap<string, AddedToken>;
}

/** The vocabulary of the result. */
export class Vocabulary implements VocabularyRows {
  /** The changed `tokenizer.json`; null when that of the model fits. */
  readonly contents: Uint8Array<ArrayBuffer> | null;
  readonly size: number;
  readonly #tokenizers: ReadonlyMap<Model, Tokenizer>;
  readonly #base: Model | null;
  /** Tokens by their rows. */
  readonly #tokens: readonly (string | undefined)[];

  private constructor(
    tokenizers: ReadonlyMap<Model, Tokenizer>,
    base: Model | null,
    ids: ReadonlyMap<string, number>,
    contents: Uint8Array<ArrayBuffer> | null,
  ) {
    const tokens: string[] = [];
    for (const [token, id] of ids) tokens[id] = token;
    this.contents = contents;
    this.size = tokens.length;
    this.#tokenizers = tokenizers;
    this.#base = base;
    this.#tokens = tokens;
  }

  /**
   * Reads the tokenizers of all models.
   *
   * @param base preferred for tokens that a model lacks
   * @param chosen the model whose vocabulary the result gets; of a union the one whose ids stay
   * @throws SafetensorsError `SAFETENSORS_MERGE_UNSUPPORTED` for a tokenizer that is missing or of another form or with
   *   ids past the rows of the embeddings, and for a union that needs more than the tokens
   */
  static async read(
    models: readonly Model[],
    { base, chosen, isUnion }: { base: Model | null; chosen: Model; isUnion: boolean },
    signal: AbortSignal | undefined,
  ): Promise<Vocabulary> {
    const tokenizers = new Map<Model, Tokenizer>();
    for (const model of models) tokenizers.set(model, await readTokenizer(model, signal));
    const own = tokenizers.get(chosen) as Tokenizer;
    if (!isUnion) return new Vocabulary(tokenizers, base, own.ids, null);
    const others = models.filter((model) => model !== chosen);
    const { ids, added } = unionOf(own, others, tokenizers);
    const json = { ...own.json, added_tokens: [...(own.json.added_tokens ?? []), ...added] };
    const contents = new TextEncoder().encode(`${JSON.stringify(json, null, 2)}\n`);
    return new Vocabulary(tokenizers, base, ids, added.length === 0 ? null : contents);
  }

  inputsOf(inputs: readonly PlannedInput[], columns: number): readonly RowSource[] {
    const stored = inputs.map(({ model, entry }) => new StoredRows(model.handle, entry, columns));
    const rowsOf = inputs.map(({ model, entry }) => {
      const { ids } = this.#tokenizers.get(model) as Tokenizer;
      const [count = 0] = entry.shape;
      return Int32Array.from(this.#tokens, (token) => {
        const id = token === undefined ? undefined : ids.get(token);
        return id === undefined || id >= count ? -1 : id;
      });
    });
    const base = inputs.findIndex(({ model }) => model === this.#base);
    return stored.map((own, input) => ({
      tensor: () => own.tensor(),
      open(): OpenRows {
        const opened = stored.map((one) => one.open());
        const read = (first: number, values: Float64Array): Work<void> =>
          readMapped(opened, rowsOf, { input, base }, first, values, columns);
        const isLocal = opened.every(({ tensor }) => tensor !== undefined);
        return { tensor: isLocal ? own.open().tensor : undefined, areWhole: false, read };
      },
    }));
  }
}

/** Reads rows: those of the input, or the replacements of tokens that it lacks. */
function* readMapped(
  opened: readonly OpenRows[],
  rowsOf: readonly Int32Array[],
  { input, base }: { readonly input: number; readonly base: number },
  first: number,
  values: Float64Array,
  columns: number,
): Work<void> {
  const end = first + values.length / columns;
  const own = rowsOf[input] as Int32Array;
  for (let row = first; row < end; ) {
    const at = own[row] as number;
    let next = row + 1;
    if (at !== -1) {
      while (next < end && own[next] === at + next - row) next++;
      const into = values.subarray((row - first) * columns, (next - first) * columns);
      yield* (opened[input] as OpenRows).read(at, into);
    } else {
      const having = [...rowsOf.keys()].filter((one) => rowsOf[one]?.[row] !== -1);
      const sources = having.includes(base) ? [base] : having;
      const into = values.subarray((row - first) * columns, (next - first) * columns);
      const part = new Float64Array(columns);
      into.fill(0);
      for (const source of sources) {
        yield* (opened[source] as OpenRows).read(rowsOf[source]?.[row] as number, part);
        for (let i = 0; i < columns; i++) {
          into[i] = (into[i] as number) + (part[i] as number) / sources.length;
        }
      }
    }
    row = next;
  }
}

/** Appends the tokens of other models, first those that are no added tokens, in the order of their ids. */
function unionOf(
  own: Tokenizer,
  others: readonly Model[],
  tokenizers: ReadonlyMap<Model, Tokenizer>,
): { readonly ids: ReadonlyMap<string, number>; readonly added: readonly AddedToken[] } {
  const ids = new Map(own.ids);
  const added: AddedToken[] = [];
  let next = [...ids.values()].reduce((max, id) => Math.max(max, id), -1) + 1;
  const add = (token: object, content: string): void => {
    if (ids.has(content)) return;
    ids.set(content, next);
    added.push({ ...token, id: next++, content });
  };
  const flags = { single_word: false, lstrip: false, rstrip: false, special: false };
  for (const model of others) {
    const tokenizer = tokenizers.get(model) as Tokenizer;
    const tokens = [...tokenizer.ids].sort(([, a], [, b]) => a - b).map(([token]) => token);
    const inModel = tokens.filter((token) => !tokenizer.added.has(token) && !ids.has(token));
    if (inModel.length > 0) requireSameRules(own, tokenizer, model);
    for (const token of inModel) add({ ...flags, normalized: true }, token);
  }
  for (const model of others) {
    for (const token of (tokenizers.get(model) as Tokenizer).added.values()) {
      add(token, token.content);
    }
  }
  return { ids, added };
}

/** Rejects tokenizers that split texts by other rules: these would have to be merged, too. */
function requireSameRules(own: Tokenizer, other: Tokenizer, model: Model): void {
  const rules = (tokenizer: Tokenizer): string =>
    JSON.stringify([tokenizer.json.model.type, tokenizer.json.model.merges ?? null]);
  const { type } = own.json.model;
  if ((type === 'BPE' || type === 'WordLevel') && rules(own) === rules(other)) return;
  throw unsupportedTokenizer(
    model,
    "has tokens that need other rules to split texts; tokenizer: 'base' takes those of the base",
  );
}

async function readTokenizer(model: Model, signal: AbortSignal | undefined): Promise<Tokenizer> {
  const file = await model.handle.sibling(TOKENIZER_FILE, { signal });
  if (file === undefined) throw unsupportedTokenizer(model, `has no ${TOKENIZER_FILE}`);
  if (file.bytes.length < file.byteLength) {
    throw unsupportedTokenizer(model, `has a ${TOKENIZER_FILE} of more than 64 MiB`);
  }
  let json: Tokenizer['json'] | null = null;
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(file.bytes));
  } catch {
    // As a file of another form.
  }
  const vocab = json?.model?.vocab;
  const tokens = Array.isArray(vocab)
    ? vocab.map((item, id): [string, number] => [Object(item)[0], id])
    : Object.entries((vocab ?? {}) as Readonly<Record<string, number>>);
  const given: unknown = json?.added_tokens ?? [];
  const added = (Array.isArray(given) ? given : [null]).map((token) => Object(token) as AddedToken);
  const all = [...tokens, ...added.map(({ id, content }): [string, number] => [content, id])];
  const isValid = all.every(([token, id]) => {
    return typeof token === 'string' && Number.isInteger(id) && id >= 0 && id < 2 ** 24;
  });
  if (json === null || tokens.length === 0 || !isValid) {
    throw unsupportedTokenizer(model, `has a ${TOKENIZER_FILE} without a vocabulary`);
  }
  const largest = all.reduce((max, [, id]) => Math.max(max, id), 0);
  if (largest >= rowCount(model)) {
    const rows = `embeddings of ${rowCount(model)} rows`;
    throw unsupportedTokenizer(model, `has a token with the id ${largest}, and ${rows}`);
  }
  return {
    json,
    ids: new Map(all),
    added: new Map(added.map((token) => [token.content, token])),
  };
}

/** Rows of the embeddings of a model: no more tokens have one. */
function rowCount({ entries }: Model): number {
  return [...entries.values()].reduce(
    (max, { name, shape }) => (isOfVocabulary(name, shape) ? Math.max(max, shape[0] ?? 0) : max),
    0,
  );
}

function unsupportedTokenizer(model: Model, found: string): SafetensorsError {
  const message = `${modelLabel(model)} ${found}`;
  const { path } = model.handle;
  return new SafetensorsError('SAFETENSORS_MERGE_UNSUPPORTED', message, { path });
}
