/** The stored tensors of a checkpoint by name, and the bytes of the few that plans read. */

import type { StoredTensor } from './logical-plan.js';
import { formatShape, invalid } from './unsupported.js';

/** bitsandbytes' own JSON has some hundred bytes. */
const MAX_READ_BYTE_LENGTH = 65_536;

/** Endings of tensors whose values a plan needs: shapes, states and markers as JSON, the format of an int8 weight. */
const READ_ENDINGS: readonly string[] = ['_shape', 'weight_format', 'comfy_quant'];

/** The mark of a bitsandbytes state in a name. */
export const STATE_MARK = '.quant_state.bitsandbytes__';

/** The last part of the name of ComfyUI's markers. */
export const MARKER_NAME = 'comfy_quant';

/** All tensors of a checkpoint. */
export class CheckpointTensors {
  readonly #all: readonly StoredTensor[];
  /** Created for the first name that is looked up: of a checkpoint without codes none is. */
  #byName: Map<string, number> | undefined;
  /** Positions of the tensors that were found last, and before. */
  #last = 0;
  #before = 0;
  /** Names from their last dot on: most companions are in no name of a checkpoint, which is soon known. */
  readonly #endings = new Set<string>();
  readonly #bytes: ReadonlyMap<string, Uint8Array>;

  /** `bytes` are those of the tensors that {@link namesToRead} gives. */
  constructor(tensors: readonly StoredTensor[], bytes: ReadonlyMap<string, Uint8Array>) {
    this.#all = tensors;
    for (const { name } of tensors) this.#endings.add(name.slice(name.lastIndexOf('.') + 1));
    this.#bytes = bytes;
  }

  [Symbol.iterator](): IterableIterator<StoredTensor> {
    return this.#all.values();
  }

  has(name: string): boolean {
    return this.find(name) !== undefined;
  }

  /**
   * The tensor of a name. Weights and their companions are looked up in the order of the file: the tensors after the
   * last two that were found are compared first, and often no name has to be hashed.
   */
  find(name: string): StoredTensor | undefined {
    let at = this.#near(this.#last, name);
    if (at === -1) {
      at = this.#near(this.#before, name);
      if (at === -1) at = this.#lookUp(name);
      if (at === -1) return undefined;
      this.#before = this.#last;
    }
    this.#last = at;
    return this.#all[at];
  }

  /** The position of a name if it is at a place or one of the next two; else -1. */
  #near(place: number, name: string): number {
    const end = Math.min(place + 3, this.#all.length);
    for (let at = place; at < end; at++) if (this.#all[at]?.name === name) return at;
    return -1;
  }

  #lookUp(name: string): number {
    if (this.#byName === undefined) {
      this.#byName = new Map();
      for (const [at, tensor] of this.#all.entries()) this.#byName.set(tensor.name, at);
    }
    return this.#byName.get(name) ?? -1;
  }

  /** What the names have after their last dot, each once. */
  get endings(): ReadonlySet<string> {
    return this.#endings;
  }

  /** The tensor of a module, by what follows the last dot of its name; the name of the outermost module is empty. */
  member(module: string, ending: string): StoredTensor | undefined {
    if (!this.#endings.has(ending)) return undefined;
    return this.find(module === '' ? ending : `${module}.${ending}`);
  }

  /** The tensor whose name is that of a weight with an ending, such as `_scale`. */
  suffixed(name: string, suffix: string): StoredTensor | undefined {
    const ending = name.slice(name.lastIndexOf('.') + 1) + suffix;
    return this.#endings.has(ending) ? this.find(name + suffix) : undefined;
  }

  /** A tensor that a weight needs; `weight` names that one in the error. */
  need(name: string, weight: string): StoredTensor {
    const found = this.find(name);
    if (found === undefined) throw invalid(weight, `${JSON.stringify(name)} is missing`);
    return found;
  }

  /** The bytes of a tensor that plans read. */
  bytesOf({ name, shape }: StoredTensor, weight: string): Uint8Array {
    const bytes = this.#bytes.get(name);
    if (bytes !== undefined) return bytes;
    throw invalid(weight, `${JSON.stringify(name)} is too long: shape ${formatShape(shape)}`);
  }
}

/** Names of the tensors whose bytes a plan needs. All are short. */
export function namesToRead(
  tensors: Iterable<StoredTensor & { readonly byteLength: number }>,
): string[] {
  const names: string[] = [];
  for (const { name, byteLength } of tensors) {
    const isWanted = name.includes(STATE_MARK) || READ_ENDINGS.some((end) => name.endsWith(end));
    if (isWanted && byteLength <= MAX_READ_BYTE_LENGTH) names.push(name);
  }
  return names;
}
