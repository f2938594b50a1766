/** What names of tensors contain: layers, embeddings and heads. */

/** The place of a tensor in a list of layers. */
export interface LayerPlace {
  /** What its name begins with: `model.layers.`. */
  readonly list: string;
  readonly index: number;
  /** The rest of the name: `.mlp.up_proj.weight`. */
  readonly rest: string;
}

/** The layer of a tensor, by the first number in its name; null without one. */
export function layerOf(name: string): LayerPlace | null {
  const [, list = '', index, rest = ''] = /^((?:.*?\.)?)(\d+)(\..+)$/s.exec(name) ?? [];
  return index === undefined ? null : { list, index: Number(index), rest };
}

const VOCABULARY_MATRIX =
  /(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|shared|embed_in|lm_head|embed_out)\.weight$/;

const VOCABULARY_BIAS = /(?:^|\.)(?:lm_head|embed_out)\.bias$/;

/** Whether rows of a matrix, or elements of a bias, are those of a vocabulary. */
export function isOfVocabulary(name: string, shape: readonly number[]): boolean {
  if (shape.length === 1) return VOCABULARY_BIAS.test(name);
  return shape.length === 2 && VOCABULARY_MATRIX.test(name);
}

/** Whether a tensor without a layer comes before all layers. */
export function isBeforeLayers(name: string): boolean {
  return /(?:^|\.)(?:w[tp]e|shared|\w*embed\w*)\./.test(name) && !/embed_out\./.test(name);
}

/** Whether a tensor is a head, which may be tied to the input embeddings. */
export function isHead(name: string): boolean {
  return /(?:^|\.)(?:lm_head|embed_out)\.weight$/.test(name);
}

/** The input embeddings of a model; undefined when it has none, or several. */
export function inputEmbeddings(names: Iterable<string>): string | undefined {
  const inputs =
    /(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|shared|embed_in)\.weight$/;
  const [found, other] = [...names].filter((one) => inputs.test(one));
  return other === undefined ? found : undefined;
}
