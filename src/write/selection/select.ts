/** Selects tensors of a source: one implementation for views, converting and downloading. */

import { argumentRangeError, requireBoolean, requireString } from '../../errors/arguments.js';
import {
  InvalidTensorError,
  quoteName,
  SafetensorsError,
  TensorNotFoundError,
} from '../../errors/errors.js';
import { pairsOf } from '../../errors/named-values.js';
import { tensorNotFound } from '../../errors/tensor-not-found.js';
import { DTYPE_NAMES, type Dtype } from '../../header/dtype.js';
import { nameProblem } from '../../header/header-writer.js';
import { packedWeightOf } from '../../quantized/plan/packed-weights.js';
import {
  CAST_SOURCES,
  CAST_TARGETS,
  type Cast,
  castOf,
  isCastSource,
} from '../../tensor/float32/cast.js';
import { forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import { notADtype, type SelectableInfo, type SelectionOptions } from './options.js';
import { SelectionError } from './selection-error.js';
import { remainingParameters, TOTAL_PARAMETERS } from './total-parameters.js';

/** The names of a source's tensors, for a selection. */
export interface SelectionSource {
  /** The source, for errors. */
  readonly path: string | undefined;
  /** Names of all tensors, without aliases. */
  names(): Iterable<string>;
  /** Returns the tensor for a name or an alias; undefined for an unknown name. */
  tensorOf(name: string): string | undefined;
  /** Returns the error for an unknown name. */
  notFound(name: string): SafetensorsError;
}

/** Builds a source from the names of its tensors, and from metadata that may have aliases. */
export function selectionSource(
  names: ReadonlySet<string>,
  metadata: ReadonlyMap<string, string> | null,
  path: string | undefined,
): SelectionSource {
  return {
    path,
    names: () => names,
    tensorOf: (name) => {
      const found = names.has(name) ? name : metadata?.get(name);
      return found !== undefined && names.has(found) ? found : undefined;
    },
    notFound: (name) => tensorNotFound(name, names, { path }),
  };
}

/** A tensor of the source. */
interface Selectable<Info> {
  readonly name: string;
  readonly info: Info;
  /** For a quantized weight: the dtype of its values before they are rounded to that of `info`. */
  readonly valueDtype?: Dtype;
}

/** A tensor of the source that cannot be taken. */
export interface Unselectable<Info> extends Selectable<Info> {
  /** The error to report unless the tensor is left out. */
  readonly problem: SafetensorsError;
}

/** The info of a tensor that can be taken. */
type WithDtype<Info> = Info & { readonly dtype: Dtype };

/** A selected tensor. */
export interface Selected<Tensor> {
  readonly tensor: Tensor;
  /** Its new name. */
  readonly name: string;
  /** The dtype that is written. */
  readonly dtype: Dtype;
  /** From the dtype of its values to that; null when they are the same. */
  readonly cast: Cast | null;
  /** Whether the option `dtype` skips it because it belongs to a quantized weight. */
  readonly isNotCast: boolean;
  /** Whether it stands in for a quantized weight. */
  readonly isDequantized: boolean;
}

/** Up to this number of names, an unknown name is compared with all of them. */
const MAX_EXPLAINED = 20;

/** Selects tensors of a source. */
export class Selection<Info extends SelectableInfo> {
  /** The caller's list of names; null without a list. */
  readonly names: ReadonlySet<string> | null;
  /** Whether one dtype is for all tensors, except quantized weights and their companions. */
  readonly castsAll: boolean;
  readonly #source: SelectionSource;
  readonly #isChosen: (name: string, info: Info) => boolean;
  readonly #rename: (name: string) => string;
  readonly #dtypeOf: (name: string, info: WithDtype<Info>) => Dtype;
  /** The option `names`, for errors. */
  readonly #given: SelectionOptions<Info>['names'];
  readonly #problems: SafetensorsError[] = [];
  /** The tensors asked about, and whether some were left out. */
  #asked: readonly Selectable<WithDtype<Info>>[] = [];
  #isPart = false;

  /** Looks up the listed names. Takes the options as `readSelection` returns them. */
  constructor(options: SelectionOptions<Info>, source: SelectionSource) {
    const { names, rename, dtype } = options;
    this.#source = source;
    this.castsAll = dtype !== undefined && typeof dtype !== 'function';
    this.#given = names;
    this.names = names === undefined || typeof names === 'function' ? null : this.#listed(names);
    this.#isChosen = typeof names === 'function' ? checkedChoice(names) : () => true;
    this.#rename = this.#renameOf(rename);
    this.#dtypeOf = dtypeChooser(dtype);
  }

  /**
   * Selects from all tensors, or from those of `names`. An unselectable tensor is a problem unless it is
   * left out. An empty source gives an empty selection. The tensors must include the companions of quantized weights.
   * With `maybe none` all tensors may be left out.
   *
   * @throws The problem with a name or a cast; SelectionError for several
   * @throws RangeError `ERR_OUT_OF_RANGE` when all tensors are left out
   * @throws TypeError `ERR_INVALID_ARG_TYPE` for an unusable result of the caller's function; errors of that function
   */
  *of<Tensor extends Selectable<WithDtype<Info>>>(
    tensors: readonly Tensor[],
    unselectable: readonly Unselectable<Info>[] = [],
    least: 'one' | 'maybe none' = 'one',
  ): Work<Selected<Tensor>[]> {
    const problems = [...this.#problems];
    for (const { name, info, problem } of unselectable) {
      if (this.#isTaken(name, info)) problems.push(problem);
    }
    const selected: Selected<Tensor>[] = [];
    const givenTo = new Map<string, string>();
    const dtypes = new Map<string, Dtype>();
    if (this.castsAll) {
      yield* forEachYielding(tensors, ({ name, info }) => void dtypes.set(name, info.dtype));
    }
    const isPacked = (name: string): boolean =>
      packedWeightOf(name, (other) => dtypes.get(other)) !== null;
    yield* forEachYielding(tensors, (tensor) => {
      const { name, info, valueDtype = info.dtype } = tensor;
      if (!this.#isTaken(name, info)) return;
      const newName = this.#rename(name);
      const dtype = this.#dtypeOf(name, info);
      const cast = castOf(valueDtype, dtype);
      if (cast === undefined) problems.push(this.#impossibleCast(name, info.dtype, dtype));
      const other = givenTo.get(newName);
      if (other !== undefined) problems.push(this.#nameTwice(newName, [other, name]));
      givenTo.set(newName, name);
      const problem = nameProblem(newName);
      if (problem !== undefined) problems.push(this.#problem(problem, name));
      const isNotCast = this.castsAll && cast != null && isPacked(name);
      const isDequantized = tensor.valueDtype !== undefined;
      const made = isNotCast ? { dtype: info.dtype, cast: null } : { dtype, cast: cast ?? null };
      selected.push({ tensor, name: newName, ...made, isNotCast, isDequantized });
    });
    throwTogether(problems, this.#source.path);
    this.#asked = tensors;
    this.#isPart = this.names !== null || selected.length < tensors.length + unselectable.length;
    const isEmpty = this.names === null && tensors.length + unselectable.length === 0;
    if (selected.length === 0 && !isEmpty && least === 'one') throw this.nothingLeft();
    return selected;
  }

  #isTaken(name: string, info: Info): boolean {
    return this.names?.has(name) !== false && this.#isChosen(name, info);
  }

  /**
   * Adapts the source's metadata to the tensors that `of` selected. An alias goes with its tensor, renamed by
   * `rename`. For a part of the tensors `total_parameters` is counted again, or removed when the count is unknown. All
   * other keys stay.
   */
  *metadataOf(
    selected: readonly Selected<Selectable<WithDtype<Info>>>[],
  ): Work<(metadata: ReadonlyMap<string, string> | null) => Map<string, string> | null> {
    const newNames = new Map<string, string>();
    const taken = new Set<string>();
    yield* forEachYielding(selected, ({ tensor, name }) => {
      newNames.set(tensor.name, name);
      taken.add(name);
    });
    return (metadata) => {
      if (metadata === null) return null;
      const result = new Map<string, string>();
      for (const [key, value] of metadata) {
        if (key === TOTAL_PARAMETERS && this.#isPart) {
          const taken = selected.map(({ tensor }) => tensor);
          const count = remainingParameters(taken, this.#asked, this.#source.names(), value);
          if (count !== null) result.set(key, String(count));
          continue;
        }
        if (!this.#isTensor(value) || this.#isTensor(key)) {
          result.set(key, value);
          continue;
        }
        const kept = newNames.get(value);
        const alias = this.#rename(key);
        if (kept !== undefined && !taken.has(alias)) result.set(alias, kept);
      }
      return result;
    };
  }

  /** Returns the error for a choice that leaves out all tensors. */
  nothingLeft(): RangeError {
    if (typeof this.#given !== 'function') {
      return argumentRangeError('names', 'a choice of at least one tensor', this.#given);
    }
    return Object.assign(new RangeError('names left out every tensor'), {
      code: 'ERR_OUT_OF_RANGE',
      argument: 'names',
    });
  }

  #isTensor(name: string): boolean {
    return this.#source.tensorOf(name) === name;
  }

  #listed(names: Iterable<string>): Set<string> {
    const found = new Set<string>();
    for (const name of names) {
      requireString('name', name);
      const tensor = this.#source.tensorOf(name);
      if (tensor === undefined) this.#problems.push(this.#notFound(name));
      else found.add(tensor);
    }
    return found;
  }

  #renameOf(rename: SelectionOptions<Info>['rename']): (name: string) => string {
    if (rename === undefined) return (name) => name;
    if (typeof rename === 'function') {
      return (name) => {
        const renamed = rename(name);
        requireString(`the result of rename for ${quoteName(name)}`, renamed);
        return renamed;
      };
    }
    const renames = new Map(pairsOf(rename, 'rename'));
    for (const name of renames.keys()) {
      if (this.#source.tensorOf(name) === undefined) this.#problems.push(this.#notFound(name));
    }
    return (name) => renames.get(name) ?? name;
  }

  #notFound(name: string): SafetensorsError {
    if (this.#problems.length < MAX_EXPLAINED) return this.#source.notFound(name);
    return new TensorNotFoundError(name, [], { path: this.#source.path });
  }

  #problem(message: string, tensor: string): SafetensorsError {
    const context = { path: this.#source.path, tensor };
    return new InvalidTensorError('SAFETENSORS_INVALID_TENSOR_VIEW', message, context);
  }

  #nameTwice(name: string, tensors: readonly string[]): SafetensorsError {
    const both = tensors.map(quoteName).join(' and ');
    return this.#problem(`duplicate tensor name: the new name of ${both}`, name);
  }

  #impossibleCast(tensor: string, from: Dtype, to: Dtype): SafetensorsError {
    const can = `${CAST_SOURCES.join(', ')} can be cast to ${CAST_TARGETS.join(', ')}`;
    const message = `${from} cannot be cast to ${to}; ${can}`;
    const context = { path: this.#source.path, tensor };
    return new SafetensorsError('SAFETENSORS_DTYPE_MISMATCH', message, context);
  }
}

/** Wraps the caller's predicate to check its results: a promise would take every tensor. */
function checkedChoice<Info>(
  isChosen: (name: string, info: Info) => boolean,
): (name: string, info: Info) => boolean {
  return (name, info) => {
    const chosen = isChosen(name, info);
    requireBoolean(`the result of names for ${quoteName(name)}`, chosen);
    return chosen;
  };
}

/**
 * Returns the function that maps a tensor to its new dtype. One dtype is for floating-point tensors only; the caller's
 * function decides for every tensor, and its results are checked.
 */
function dtypeChooser<Info extends SelectableInfo>(
  dtype: SelectionOptions<Info>['dtype'],
): (name: string, info: WithDtype<Info>) => Dtype {
  if (dtype === undefined) return (_, info) => info.dtype;
  if (typeof dtype !== 'function') {
    return (_, info) => (isCastSource(info.dtype) ? dtype : info.dtype);
  }
  return (name, info) => {
    const chosen = dtype(name, info);
    if (chosen === undefined) return info.dtype;
    if (DTYPE_NAMES.includes(chosen)) return chosen;
    throw notADtype(`the result of dtype for ${quoteName(name)}`, chosen, DTYPE_NAMES);
  };
}

/** Throws all problems together, and a single one as it is. */
export function throwTogether(
  problems: readonly SafetensorsError[],
  path: string | undefined,
): void {
  const [first] = problems;
  if (first === undefined) return;
  throw problems.length === 1 ? first : new SelectionError(problems, { path });
}
