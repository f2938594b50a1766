/**
 * Codes that no scheme claims, with a tensor whose name is that of their scale: a quantizer stored them, and which one
 * is not known. By names only.
 */

import type { StoredTensor } from './logical-plan.js';
import { isHarmless } from './members.js';
import { memberOf } from './scaled.js';

/** The end of a name that quantizers give to what their codes need. */
const SCALE =
  /(?:^|_)(?:(?:de|re)?scales?(?:_inv)?|absmax|amax|zeros|zero_?points?|zp|code_?books?|lut|centroids?|(?:de)?quant\w*)$/i;

/** A child with the scale of its module's tensor: `weight_quantizer`; or of a parametrization of torch: a number. */
const QUANTIZER = /(?:^|_)(?:fake_)?quant\w*$|^\d+$/i;

/** Names of a module's codes where its scale has no name but `scale`. */
const CODES: readonly string[] = ['weight', 'data', 'int_data', 'original'];

/** The companions of tensors that no scheme knows. */
export class UnknownCompanions {
  readonly #byOwner = new Map<string, string>();

  constructor(tensors: Iterable<StoredTensor>) {
    for (const { name } of tensors) {
      for (const owner of ownersOf(name)) this.#byOwner.set(owner, name);
    }
  }

  /** The name of a tensor that looks like the scale of this one; undefined without one. */
  find(name: string): string | undefined {
    return this.#byOwner.get(name);
  }
}

/** Names of tensors whose scale a tensor may be, by its own name. */
function ownersOf(name: string): string[] {
  const [module, last] = split(name);
  const found = SCALE.exec(last);
  if (found === null || isHarmless(last)) return [];
  const stem = last.slice(0, found.index);
  if (stem !== '') return [memberOf(module, stem)];
  if (module === '') return [];
  const [parent, child] = split(module);
  const quantizer = QUANTIZER.exec(child);
  const owner = quantizer === null ? '' : child.slice(0, quantizer.index);
  return [
    module,
    ...CODES.map((codes) => memberOf(module, codes)),
    ...(owner === '' ? [] : [memberOf(parent, owner)]),
    ...(quantizer === null || owner !== '' ? [] : CODES.map((codes) => memberOf(parent, codes))),
  ];
}

/** The module of a name, and its last part. */
function split(name: string): [module: string, last: string] {
  const dot = name.lastIndexOf('.');
  return [dot === -1 ? '' : name.slice(0, dot), name.slice(dot + 1)];
}
