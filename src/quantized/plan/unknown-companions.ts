/**
 * Codes that no scheme claims, with a tensor that may be their scale: a quantizer stored them, and which one is not
 * known. By names and dtypes only.
 */

import type { Dtype } from '../../header/dtype.js';
import type { StoredTensor } from './logical-plan.js';
import { isHarmless } from './members.js';
import { memberOf } from './scaled.js';

/** The end of a name that quantizers give to what their codes need. */
const SCALE =
  /(?:^|_)(?:(?:de|re)?scales?(?:_inv)?|absmax|amax|zeros|zero_?points?|zp|code_?books?|lut|centroids?|(?:de)?quant\w*)$/i;

/**
 * A child with the scale of its module's tensor: `weight_quantizer`, `scales`; a number for a parametrization of torch.
 */
const CHILD = /(?:^|_)(?:(?:fake_)?quant\w*|scales?)$|^\d+$/i;

/** Dtypes of scales. */
const FLOATS: ReadonlySet<Dtype> = new Set<Dtype>(['F64', 'F32', 'F16', 'BF16', 'F8_E8M0']);

/** Names of a module's codes where its scale has no name but `scale`. */
const CODES: readonly string[] = ['weight', 'data', 'int_data', 'original'];

/** The companions of tensors that no scheme knows. */
export class UnknownCompanions {
  readonly #byOwner = new Map<string, string>();

  constructor(tensors: Iterable<StoredTensor>) {
    for (const tensor of tensors) {
      for (const owner of ownersOf(tensor)) this.#byOwner.set(owner, tensor.name);
    }
  }

  /** The name of a tensor that may be the scale of this one; undefined without one. */
  find(name: string): string | undefined {
    return this.#byOwner.get(name);
  }
}

/** Names of tensors whose companion a tensor may be. */
function ownersOf({ name, dtype }: StoredTensor): string[] {
  const [module, last] = split(name);
  if (isHarmless(last)) return [];
  const [parent, child] = split(module);
  return [
    ...ownersBy(SCALE, last, module),
    // What a float next to codes means is not known, whatever it is called.
    ...(FLOATS.has(dtype) && module !== '' ? [memberOf(module, 'weight')] : []),
    ...(child === '' ? [] : ownersBy(CHILD, child, parent)),
  ];
}

/** Owners by a name such as `weight_scale`, or `scale` for whatever codes the module has. */
function ownersBy(ending: RegExp, last: string, module: string): string[] {
  const found = ending.exec(last);
  if (found === null) return [];
  const stem = last.slice(0, found.index);
  if (stem !== '') return [memberOf(module, stem)];
  if (module === '') return [];
  return [module, ...CODES.map((codes) => memberOf(module, codes))];
}

/** The module of a name, and its last part. */
function split(name: string): [module: string, last: string] {
  const dot = name.lastIndexOf('.');
  return [dot === -1 ? '' : name.slice(0, dot), name.slice(dot + 1)];
}
