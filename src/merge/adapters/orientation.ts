/** How the weights of linear layers are stored: as `[out, in]`, or as `[in, out]` like those of GPT-2. */

import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { Slot } from './change.js';
import type { AdapterModule } from './keys.js';
import type { BaseNames } from './names.js';

/** Names of GPT-2's layers. Other layers of the same model are stored as `[out, in]`. */
const CONV1D = /(?:^|\.)(?:c_attn|c_proj|c_fc|q_attn)$/;

/** Whether a weight is stored as `[in, out]`; undefined when both fit, or neither. */
export function orientationOf(
  { parts }: Pick<AdapterModule, 'parts'>,
  { rows, columns }: Slot,
): boolean | undefined {
  const inner = parts.get('down')?.tensor.shape[1];
  const out = parts.get('up')?.tensor.shape[0];
  const isNormal = out === rows && inner === columns;
  const isTransposed = out === columns && inner === rows;
  return isNormal === isTransposed ? undefined : isTransposed;
}

/** What is known of weights whose own shape does not show how they are stored. */
export interface OrientationHints {
  /** How the other weights of the adapter are stored. */
  ofAdapter(): ReadonlySet<boolean>;
  /** `fan_in_fan_out` of the configuration: that of the last layer that PEFT wrapped. */
  readonly isDeclared: boolean;
}

/** The orientation of square weights: that of layers with the same kind of name, as their biases show it. */
export class Orientations {
  readonly #names: BaseNames;
  readonly #entries: ReadonlyMap<string, TensorEntry>;
  readonly #ofBase = new Map<boolean, ReadonlySet<boolean>>();

  constructor(names: BaseNames, entries: ReadonlyMap<string, TensorEntry>) {
    this.#names = names;
    this.#entries = entries;
  }

  /** Whether the square weight of a module is stored as `[in, out]`. */
  isTransposed(module: string, { ofAdapter, isDeclared }: OrientationHints): boolean {
    const isConv1d = CONV1D.test(module);
    const [ofBase, otherOfBase] = this.#inBase(isConv1d);
    if (ofBase !== undefined && otherOfBase === undefined) return ofBase;
    if (!isConv1d && this.#inBase(true).has(true)) return false;
    const [only, other] = ofAdapter();
    if (only === undefined) return isDeclared;
    return other === undefined ? only : isConv1d;
  }

  /** How weights of the base are stored, as far as biases show their outputs. */
  #inBase(isConv1d: boolean): ReadonlySet<boolean> {
    const known = this.#ofBase.get(isConv1d);
    if (known !== undefined) return known;
    const found = new Set<boolean>();
    for (const module of this.#names.modulesWith('bias')) {
      const shape = this.#entries.get(`${module}.weight`)?.shape ?? [];
      const [rows, columns] = shape;
      const [out] = this.#entries.get(`${module}.bias`)?.shape ?? [];
      if (shape.length !== 2 || rows === columns || CONV1D.test(module) !== isConv1d) continue;
      if (out === rows || out === columns) found.add(out === columns);
    }
    this.#ofBase.set(isConv1d, found);
    return found;
  }
}
