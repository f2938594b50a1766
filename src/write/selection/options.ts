/** The options that select tensors: which, under which names, as which dtypes. */

import { argumentTypeError, type OptionNames, requireNames } from '../../errors/arguments.js';
import { type NamedValues, pairsOf } from '../../errors/named-values.js';
import type { TensorInfo } from '../../file/source/tensor-info.js';
import type { Dtype } from '../../header/dtype.js';
import { dtypeOfOtherName } from '../../header/dtype-names.js';
import { CAST_TARGETS, type CastTarget, isCastTarget } from '../../tensor/float32/cast.js';

/** Dtypes of dequantized weights. */
const PLAIN_DTYPES: readonly Dtype[] = ['BF16', 'F16', 'F32'];

/** The info of a tensor that callbacks receive. */
export interface SelectableInfo {
  /** Dtype in the source; null for a tensor that cannot be taken. */
  readonly dtype: Dtype | null;
  /** Dimensions in elements, outermost first; empty for a scalar. */
  readonly shape: readonly number[];
}

/** Names or aliases of tensors to take, or a predicate. */
type TensorChoice<Info extends SelectableInfo = TensorInfo> =
  | Iterable<string>
  | ((name: string, info: Info) => boolean);

/** Returns the new dtype of a tensor; undefined to keep its dtype. */
type DtypeChoice<Info extends SelectableInfo = TensorInfo> = (
  name: string,
  info: Info,
) => Dtype | undefined;

/** Selects tensors, names and dtypes. By default, takes all tensors unchanged. */
export interface SelectionOptions<Info extends SelectableInfo = TensorInfo> {
  /**
   * The tensors to take: their names or aliases, or a function that is called with name and info of every tensor.
   */
  readonly names?: TensorChoice<Info> | undefined;
  /**
   * New names: a function that is called with every name, or a Map, pairs or an object from old to new names. Tensors
   * not in it keep their names.
   */
  readonly rename?: ((name: string) => string) | NamedValues<string> | undefined;
  /**
   * Casts all tensors of F32, F64, F16 and BF16 to this dtype, with the rounding of PyTorch. Other dtypes stay:
   * integers, BOOL, and quantized ones such as F8. The companions of quantized weights stay, too: scales, zero points,
   * code books, recognized by the names and dtypes of all tensors of the source.
   *
   * Or a function that is called with name and info of every tensor in `names`. It returns the new dtype, or undefined
   * to keep the dtype. It can cast companions of quantized weights, too.
   */
  readonly dtype?: CastTarget | DtypeChoice<Info> | undefined;
  /**
   * Writes dequantized weights of this dtype in place of codes, scales and zero points. All other options apply to the
   * dequantized model. The source is safetensors; `docs/quantized.md` lists the schemes.
   */
  readonly dequantize?: 'BF16' | 'F16' | 'F32' | undefined;
}

/** Names of the options. */
export const SELECTION_OPTIONS: OptionNames<SelectionOptions<SelectableInfo>> = {
  names: true,
  rename: true,
  dtype: true,
  dequantize: true,
};

/** Whether all tensors are taken unchanged. */
export function selectsAll(options: SelectionOptions<never>): boolean {
  return !Object.keys(SELECTION_OPTIONS).some((name) => options[name as 'names'] !== undefined);
}

/**
 * Checks the options, and copies one-time iterables to a Map or an array.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for unusable options
 */
export function readSelection<Info extends SelectableInfo>({
  names,
  rename,
  dtype,
  dequantize,
}: SelectionOptions<Info>): SelectionOptions<Info> {
  if (dequantize !== undefined && !PLAIN_DTYPES.includes(dequantize)) {
    throw notADtype('dequantize', dequantize, PLAIN_DTYPES);
  }
  if (names !== undefined && typeof names !== 'function') requireNames(names);
  const isOne = dtype !== undefined && typeof dtype !== 'function';
  if (isOne && !isCastTarget(dtype)) throw notADtype('dtype', dtype, CAST_TARGETS);
  const isList = rename !== undefined && typeof rename !== 'function';
  return {
    names: names === undefined || typeof names === 'function' ? names : [...names],
    rename: isList ? renamesOf(rename) : rename,
    dtype,
    dequantize,
  };
}

/** New names by old ones. */
function renamesOf(rename: NamedValues<string>): Map<string, string> {
  const renames = new Map<string, string>();
  for (const [name, to] of pairsOf(rename, 'rename')) {
    if (typeof to !== 'string') throw argumentTypeError('a new name of rename', 'a string', to);
    renames.set(name, to);
  }
  return renames;
}

/** Returns the error for a dtype outside of the list. */
export function notADtype(what: string, dtype: unknown, known: readonly Dtype[]): TypeError {
  const meant = typeof dtype === 'string' ? dtypeOfOtherName(dtype) : undefined;
  const isKnown = meant !== undefined && known.includes(meant);
  return argumentTypeError(what, isKnown ? `'${meant}'` : `one of ${known.join(', ')}`, dtype);
}
