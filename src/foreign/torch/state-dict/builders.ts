/**
 * Builds the results of calls of allowed globals: data, and tensors without bytes. A checkpoint can call no other
 * functions.
 */

import { FormatError, quoteName } from '../../../errors/errors.js';
import type { PickleHost } from '../../pickle/host.js';
import { loadsInnerFile } from '../../pickle/inner-files.js';
import type { NamedGlobal } from '../../pickle/known-values.js';
import { formatPlace, type PickleContext, pickleError } from '../../pickle/limits.js';
import {
  PickleGlobal,
  PickleMap,
  type PickleTuple,
  type PickleValue,
  Placeholder,
} from '../../pickle/values.js';
import type { TorchDtype } from './dtypes.js';
import { allowedGlobal, TorchGlobal } from './globals.js';
import { adviceFor, isHostileGlobal, PLAIN_PICKLE, type Remedy } from './judged-globals.js';
import { deviceTensor } from './numpy-arrays.js';
import { plainValue } from './plain-builders.js';
import { attributesIn } from './states.js';
import { isDictAttribute, isTensorAttribute } from './tensor-attributes.js';
import { builtOldTensor, unsupportedTensor } from './unsupported-builders.js';
import {
  type AnyTensor,
  isStorage,
  isTensor,
  OldTensor,
  storageDtype,
  TorchTensor,
  UnsupportedTensor,
} from './values.js';

/** How to treat globals outside the list: refuse the file, or keep them as inert data. */
export type UnknownGlobals = 'refuse' | 'placeholder';

/** Resolves a persistent id. */
export type PersistentIds = (id: PickleValue, at: number) => PickleValue;

/** Refuses every persistent id: for pickles without storages. */
export function noPersistentIds(context: PickleContext): PersistentIds {
  return (_, at) => {
    throw pickleError('expected no persistent id, found one', at, context);
  };
}

/** Most attributes of a state, more than real objects have: every object with the state looks at all of them. */
const MAX_ATTRIBUTES = 256;

const UTILS = 'torch._utils';
const FROM_NUMPY = '_rebuild_device_tensor_from_numpy';

/** Answers the pickle machine for torch's checkpoints. */
export class TorchHost implements PickleHost {
  readonly #unknownGlobals: UnknownGlobals;
  readonly #persistentIds: PersistentIds;
  readonly #context: PickleContext;
  /** Checked states: their kind and the count of their attributes. */
  readonly #harmless = new Map<PickleMap, string>();

  /** `context` is the pickle's. */
  constructor(
    persistentIds: PersistentIds,
    unknownGlobals: UnknownGlobals,
    context: PickleContext,
  ) {
    this.#persistentIds = persistentIds;
    this.#unknownGlobals = unknownGlobals;
    this.#context = context;
  }

  global(module: string, name: string): PickleGlobal | undefined {
    const known = allowedGlobal(module, name);
    if (known !== undefined || this.#unknownGlobals === 'refuse') return known;
    // Its name in older versions of torch, whose files torch's restricted loader rejects.
    if (module === UTILS && name === '_rebuild_xla_tensor') return allowedGlobal(UTILS, FROM_NUMPY);
    return isHostileGlobal(module, name) ? undefined : new PickleGlobal(module, name, true);
  }

  advice(globals: readonly NamedGlobal[]): Remedy | undefined {
    return adviceFor(globals);
  }

  persistent(id: PickleValue, at: number): PickleValue {
    return this.#persistentIds(id, at);
  }

  /** The attributes of a state dict (`_metadata`) are left out. */
  build(target: PickleValue, state: PickleValue, at: number): PickleValue {
    const old = target instanceof OldTensor ? builtOldTensor(target, state) : undefined;
    if (old !== undefined) return old;
    if (target instanceof PickleMap && target.kind !== 'dict' && state instanceof PickleMap) {
      this.#requireHarmless(state, isDictAttribute, 'a dict', at);
      return target;
    }
    throw pickleError('expected a state only of an OrderedDict, found another', at, this.#context);
  }

  /** Leaves out the attributes that a state sets, which must not change the object's meaning in torch. */
  #requireHarmless(
    state: PickleMap,
    isOwn: (name: string) => boolean,
    owner: string,
    at: number,
  ): void {
    if (state.size > MAX_ATTRIBUTES) this.#refuse(`a state of ${state.size} attributes`, at);
    // Tensors may share a state, and dicts only grow.
    if (state.size === 0) return;
    if (this.#harmless.get(state) === `${owner} ${state.size}`) return;
    this.#harmless.set(state, `${owner} ${state.size}`);
    for (const [key] of state) {
      if (typeof key !== 'string') this.#refuse(`a state of ${owner} without a name`, at);
      if (isOwn(key)) this.#refuse(`a state that sets ${quoteName(key)}, which ${owner} has`, at);
    }
  }

  call(callee: PickleGlobal, args: PickleTuple, at: number, isNew: boolean): PickleValue {
    const { kind, name } = callee as TorchGlobal;
    if (name === FROM_NUMPY && kind === 'refused') {
      return deviceTensor(args) ?? this.#refuse(`other arguments of ${name}`, at);
    }
    if (kind === 'refused') {
      return unsupportedTensor(callee, args) ?? this.#refuse(`other arguments of ${name}`, at);
    }
    if (kind === 'tensor' && name === 'Parameter') return this.#wrapped(args, 1, 2, at);
    if (kind !== 'builder') return this.#refuse(`a call of ${callee.path}`, at);
    // Python would ignore most of them, and picklers write none.
    if (isNew && args.length > 0) return this.#refuse(`arguments of a new ${callee.path}`, at);
    return this.#build(name, args, at);
  }

  #build(name: string, args: PickleTuple, at: number): PickleValue {
    switch (name) {
      case '_rebuild_tensor':
        return this.#tensor(args, 4, 4, at);
      case '_rebuild_tensor_v2':
        return this.#tensor(args, 6, 7, at);
      case '_rebuild_tensor_v3':
        this.#requireCount(args, 7, 8, at);
        return this.#tensor([...args.slice(0, 6), ...args.slice(7)], 6, 7, at, args[6] ?? null);
      case '_rebuild_parameter':
        return this.#wrapped(args, 3, 3, at);
      case '_rebuild_parameter_with_state':
        return this.#withState(this.#wrapped(args, 4, 4, at), args[3] ?? null, at);
      case '_rebuild_from_type_v2':
        return this.#ofType(args, at);
      default:
        return plainValue(name, args) ?? this.#refuse(`other arguments of ${name}`, at);
    }
  }

  /** (storage, offset, size, strides, requires_grad, hooks, metadata); the dtype of v3 apart. */
  #tensor(
    args: PickleTuple,
    fewest: number,
    most: number,
    at: number,
    given?: PickleValue,
  ): TorchTensor {
    this.#requireCount(args, fewest, most, at);
    const [storage, offset = null, shape = null, strides = null] = args;
    if (!isStorage(storage)) {
      if (storage instanceof Placeholder && loadsInnerFile(storage.global)) {
        const message = `expected a PyTorch checkpoint, found one that ${PLAIN_PICKLE}: scanPickle lists what loading it would run`;
        throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, this.#context);
      }
      return this.#refuse('a tensor without a storage', at);
    }
    const bits = this.#bitsOf(args[6] ?? null, at);
    const dtype = given === undefined ? storageDtype(storage) : dtypeOf(given);
    if (dtype === null) return this.#refuse('a tensor without a dtype', at);
    return new TorchTensor(storage, dtype, [offset, shape, strides], bits);
  }

  /**
   * Operations that torch has deferred and notes next to the tensor. Torch sets every named bit, even to false, but
   * writes only true.
   */
  #bitsOf(metadata: PickleValue, at: number): { isConjugate: boolean; isNegative: boolean } {
    const bits = { isConjugate: false, isNegative: false };
    if (metadata === null) return bits;
    if (!(metadata instanceof PickleMap)) return this.#refuse('other metadata of a tensor', at);
    for (const [key, value] of metadata) {
      if (typeof key !== 'string') return this.#refuse('metadata without a name', at);
      if (value !== true) return this.#refuse(`another value of ${quoteName(key)}`, at);
      if (key === 'conj') bits.isConjugate = true;
      if (key === 'neg') bits.isNegative = true;
    }
    return bits;
  }

  /** A parameter or the like: returns the tensor in its first argument. */
  #wrapped(args: PickleTuple, fewest: number, most: number, at: number): AnyTensor {
    this.#requireCount(args, fewest, most, at);
    const [tensor] = args;
    return isTensor(tensor) ? tensor : this.#refuse('a parameter without a tensor', at);
  }

  /** Applies attributes to a tensor. */
  #withState(tensor: AnyTensor, state: PickleValue, at: number): AnyTensor {
    const attributes = attributesIn(state);
    if (attributes === undefined) return this.#refuse('another state of a tensor', at);
    for (const some of attributes) this.#requireHarmless(some, isTensorAttribute, 'a tensor', at);
    // The same tensor may occur elsewhere without the attributes.
    return tensor instanceof TorchTensor ? tensor.withAttributes(attributes) : tensor;
  }

  /** (function, class, arguments, state): a tensor; leaves out its attributes. */
  #ofType(args: PickleTuple, at: number): AnyTensor {
    this.#requireCount(args, 4, 4, at);
    const [callee, type, inner, state = null] = args;
    if (type instanceof PickleGlobal && type.isUnknown) {
      const found = `one of the subclass ${type.path}; save x.as_subclass(torch.Tensor)`;
      return new UnsupportedTensor(found, []);
    }
    const isTensorType = type instanceof TorchGlobal && type.kind === 'tensor';
    if (!isTensorType || !(callee instanceof TorchGlobal) || !Array.isArray(inner)) {
      return this.#refuse('a tensor of another class', at);
    }
    if (callee.name === '_rebuild_from_type_v2') return this.#refuse('a type within a type', at);
    const made = this.call(callee, inner, at, false);
    if (!isTensor(made)) return this.#refuse('a class of tensors without a tensor', at);
    return this.#withState(made, state, at);
  }

  #requireCount(args: PickleTuple, fewest: number, most: number, at: number): void {
    if (args.length < fewest || args.length > most) this.#refuse(`${args.length} arguments`, at);
  }

  #refuse(found: string, at: number): never {
    throw new FormatError(
      'SAFETENSORS_INVALID_TORCH_CHECKPOINT',
      `${formatPlace(at, this.#context)}: expected a call as torch writes it, found ${found}`,
      this.#context,
    );
  }
}

function dtypeOf(value: PickleValue): TorchDtype | null {
  return value instanceof TorchGlobal && value.kind === 'dtype' ? value.dtype : null;
}
