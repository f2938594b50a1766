/** The models that are merged. */

import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { OwnMergeSource } from '../base.js';

/** An open model. */
export interface Model {
  readonly handle: OwnMergeSource;
  /** What it was opened from, or the handle. */
  readonly source: unknown;
  /** Hub id, or the name of its file or folder; null for bytes. */
  readonly name: string | null;
  readonly entries: ReadonlyMap<string, TensorEntry>;
  /** The name of the input embeddings, which are the head of a model without one. */
  readonly inputEmbeddings: string | undefined;
  /** Whether it is a Stable Diffusion checkpoint of a single file. */
  readonly isSingleFile: boolean;
}

/** Names a model for messages. */
export function modelLabel({ name }: Pick<Model, 'name'>): string {
  return name === null ? 'a model' : `model ${JSON.stringify(name)}`;
}
