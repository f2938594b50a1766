/** Views: checkpoints whose tensors are those of another one, under other names, or computed from them. */

import type { SafetensorsError } from '../../errors/errors.js';
import type { Dtype } from '../../header/dtype.js';
import type { FileContents } from '../../header/file-contents.js';
import { sortByName } from '../../header/json/code-point-order.js';
import type { SliceIndices } from '../../tensor/slice.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import type { TransferOptions } from '../../work/transfer.js';
import type { FileMetadata, SourceMetadata } from '../shards/metadata.js';
import type { Quantization, SiblingFile, TensorEntry, ViewInfo } from './tensor-info.js';

/** A tensor of a view. */
export interface ViewTensor {
  /** Its entry under its name in the view. `dataOffsets` and `file` are the place of its first source. */
  readonly entry: TensorEntry;
  /**
   * Names of the tensors in the base that it is computed from: the only one, or that with the codes first. Empty for a
   * tensor of other checkpoints.
   */
  readonly sources: readonly string[];
  /** How its values are computed; null for a stored tensor under its own or another name. */
  readonly computation: Computation | null;
}

/** Computes a tensor from others. */
export interface Computation {
  /** Returns a tensor over these sources that computes what is used; it keeps them, and reads nothing yet. */
  compute(sources: ReadonlyMap<string, Tensor>): Tensor;
  /** Fetches what a slice needs from a remote base, and computes it into new memory; all for `[]`. */
  fetch(index: SliceIndices, options: TransferOptions): Promise<Tensor>;
}

/** What a view shows. */
export interface ViewParts {
  /** In the order of `offsetKeys`. */
  readonly tensors: readonly ViewTensor[];
  readonly metadata: FileMetadata;
  /** Returns metadata of the base, of its index or of a file, as the view has it; absent where `metadata` is all. */
  readonly adaptMetadata?: (metadata: FileMetadata) => FileMetadata;
  /** Errors of tensors that the view cannot show, each with its name. */
  readonly problems: readonly SafetensorsError[];
  /** Of a dequantized view the `quant_method` of the configuration, or what that implies; null without one. */
  readonly quantMethod: string | null;
  /** Reads a small file next to the weights, such as `config.json`; absent where those of the base fit the view. */
  readonly sibling?: (
    name: string,
    signal: AbortSignal | undefined,
  ) => Promise<SiblingFile | undefined>;
  /** Closes what the view has opened, besides the base. */
  readonly close?: (options: { readonly detach?: boolean | undefined }) => void;
}

/** Key of the method that makes a view: no name that callers could call. */
export const VIEW_OF: unique symbol = Symbol('viewOf');

/** A handle that makes views of itself. */
export interface Viewable<View> {
  /** @internal Makes a view, which does not own this handle: closing the view leaves it open. */
  [VIEW_OF](parts: ViewParts): View;
}

/** The tensors of a view, in the place of a file's header. */
export class ViewContents implements FileContents, ViewInfo {
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly #tensors: readonly ViewTensor[];
  /** Created for the first name that is looked up. */
  #entries: ReadonlyMap<string, number> | undefined;

  /** Names must be unique. */
  constructor({ tensors, metadata }: Pick<ViewParts, 'tensors' | 'metadata'>) {
    this.metadata = metadata;
    this.#tensors = tensors;
  }

  get size(): number {
    return this.#tensors.length;
  }

  get json(): { readonly length: number } {
    return { length: this.#tensors.reduce((sum, { entry: { name } }) => sum + name.length, 0) };
  }

  /** The tensors of each file of the base, as separate contents. */
  get files(): { readonly name: string; readonly header: ViewContents }[] {
    const byFile = new Map<string, ViewTensor[]>();
    for (const tensor of this.#tensors) {
      const { file } = tensor.entry;
      const others = byFile.get(file);
      if (others === undefined) byFile.set(file, [tensor]);
      else others.push(tensor);
    }
    const { metadata } = this;
    return Array.from(byFile, ([name, tensors]) => {
      return { name, header: new ViewContents({ tensors, metadata }) };
    });
  }

  /** Whether weights are computed from codes, so that a configuration does not describe what is shown. */
  get isDequantized(): boolean {
    return this.#tensors.some(({ entry: { quantization } }) => quantization !== undefined);
  }

  find(name: string): number {
    this.#entries ??= new Map(this.#tensors.map(({ entry }, at) => [entry.name, at]));
    return this.#entries.get(name) ?? -1;
  }

  /** Returns a tensor. */
  tensor(entry: number): ViewTensor {
    return this.#tensors[entry] as ViewTensor;
  }

  name(entry: number): string {
    return this.#entry(entry).name;
  }

  names(): string[] {
    return this.#tensors.map(({ entry }) => entry.name);
  }

  sortedNames(): string[] {
    const names = this.names();
    sortByName(names, (name) => name);
    return names;
  }

  dtype(entry: number): Dtype {
    return this.#entry(entry).dtype;
  }

  shape(entry: number): readonly number[] {
    return this.#entry(entry).shape;
  }

  begin(entry: number): number {
    return this.#entry(entry).dataOffsets[0];
  }

  end(entry: number): number {
    return this.#entry(entry).dataOffsets[1];
  }

  fileOf(entry: number): string {
    return this.#entry(entry).file;
  }

  quantizationOf(entry: number): Quantization | undefined {
    return this.#entry(entry).quantization;
  }

  listed(entry: number): TensorEntry {
    return this.#entry(entry);
  }

  #entry(entry: number): TensorEntry {
    return this.tensor(entry).entry;
  }
}

/** What is counted of a shard: of a view the files of its base. */
export function countedFiles(
  name: string,
  header: FileContents,
): readonly { readonly name: string; readonly header: FileContents }[] {
  return header instanceof ViewContents ? header.files : [{ name, header }];
}

/** Whether the contents are those of a view with weights that were quantized. */
export function isDequantized(contents: FileContents): boolean {
  return contents instanceof ViewContents && contents.isDequantized;
}

/** The same tensor under another name: the same memory. */
export function renamed(tensor: Tensor, name: string): Tensor {
  if (tensor.name === name) return tensor;
  const source = TensorOf.sourceOf(tensor);
  return TensorOf.of(name, tensor.dtype, tensor.shape, source, TensorOf.offsetOf(tensor));
}

/** The metadata of files and index of a view, from those of its base. */
export function viewMetadata(
  { metadata, adaptMetadata: adapt }: Pick<ViewParts, 'metadata' | 'adaptMetadata'>,
  base: () => SourceMetadata,
): SourceMetadata {
  if (adapt === undefined) return { files: [metadata], index: null };
  const { files, index } = base();
  return {
    files: files.map(adapt),
    index: index && { metadata: adapt(index.metadata), jsonKeys: index.jsonKeys },
  };
}
