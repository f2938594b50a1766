/** Calls that make tensors without a counterpart in safetensors: their kinds and the dense tensors inside. */

import { PickleGlobal, type PickleTuple, type PickleValue } from '../../pickle/values.js';
import { TorchGlobal } from './globals.js';
import { isStorage, OldTensor, storageDtype, TorchTensor, UnsupportedTensor } from './values.js';

/** A kind of tensor, and its parts: undefined for other arguments than torch writes. */
interface Kind {
  /** The kind, to complete "found …". */
  readonly found: string;
  readonly partsOf: (args: PickleTuple) => readonly TorchTensor[] | undefined;
}

const KINDS: ReadonlyMap<string, Kind> = new Map<string, Kind>([
  [
    '_rebuild_qtensor',
    {
      found: 'a quantized tensor, whose scale and zero point would be lost',
      partsOf: quantizedParts,
    },
  ],
  [
    '_rebuild_sparse_tensor',
    { found: 'a sparse tensor; save it as x.to_dense()', partsOf: sparseParts },
  ],
  [
    '_rebuild_nested_tensor',
    {
      found: 'a nested tensor; save its parts',
      partsOf: (args) => (args.length === 4 ? allTensors(args) : undefined),
    },
  ],
  [
    '_rebuild_meta_tensor_no_storage',
    {
      found: 'a tensor on the device "meta", which has no values',
      partsOf: ({ length, 0: dtype }) => (length === 4 && isDtype(dtype) ? [] : undefined),
    },
  ],
  [
    '_rebuild_wrapper_subclass',
    {
      found: 'a tensor of a subclass; save the tensor that it wraps',
      partsOf: ({ length, 1: dtype }) => (length === 8 && isDtype(dtype) ? [] : undefined),
    },
  ],
  [
    '_rebuild_device_tensor_from_cpu_tensor',
    {
      found: 'a tensor of another device; save x.cpu()',
      partsOf: (args) =>
        args.length === 4 && isDtype(args[1]) ? allTensors(args.slice(0, 1)) : undefined,
    },
  ],
]);

/** Builds the result of a call; undefined for arguments that torch never writes. */
export function unsupportedTensor(
  { name, path }: PickleGlobal,
  args: PickleTuple,
): UnsupportedTensor | undefined {
  const kind = KINDS.get(name);
  if (kind === undefined) {
    return args.length <= 1
      ? new OldTensor(`a ${path}, a PyTorch class before 0.4`, [])
      : undefined;
  }
  const parts = kind.partsOf(args);
  return parts && new UnsupportedTensor(kind.found, parts);
}

/** Builds a tensor of an old class from its state: storage, offset, shape, strides. */
export function builtOldTensor(
  { kind }: OldTensor,
  state: PickleValue,
): UnsupportedTensor | undefined {
  const part = Array.isArray(state) && state.length === 4 ? denseTensor(state) : undefined;
  return part && new UnsupportedTensor(kind, [part]);
}

/** Storages with less than a byte per element: the count of elements doesn't give the length. */
const PACKED: ReadonlySet<string> = new Set(['quint4x2', 'quint2x4']);

/** (storage, offset, shape, strides, (scheme, …), requires_grad, hooks) */
function quantizedParts(args: PickleTuple): TorchTensor[] | undefined {
  const tensor = args.length === 7 ? denseTensor(args) : undefined;
  const scheme = args[4];
  if (tensor === undefined || !Array.isArray(scheme) || scheme.length > 4) return undefined;
  if (!(scheme[0] instanceof PickleGlobal)) return undefined;
  const own = PACKED.has(tensor.dtype.name) ? [] : [tensor];
  return [...own, ...scheme.filter((part) => part instanceof TorchTensor)];
}

/** (layout, (indices, values, shape, …)); compressed layouts have two kinds of indices. */
function sparseParts([layout, data, ...others]: PickleTuple): TorchTensor[] | undefined {
  if (!(layout instanceof PickleGlobal) || others.length > 0) return undefined;
  if (!Array.isArray(data) || data.length < 3 || data.length > 4) return undefined;
  const count = layout.name === 'sparse_coo' ? 2 : 3;
  return allTensors(data.slice(0, count));
}

function allTensors(values: PickleTuple): TorchTensor[] | undefined {
  const tensors = values.filter((value) => value instanceof TorchTensor);
  return tensors.length === values.length ? tensors : undefined;
}

/** Builds a tensor from the first four arguments: storage, offset, shape, strides. */
function denseTensor([storage, offset = null, shape = null, strides = null]: PickleTuple):
  | TorchTensor
  | undefined {
  const dtype = isStorage(storage) ? storageDtype(storage) : null;
  if (!isStorage(storage) || dtype === null) return undefined;
  const bits = { isConjugate: false, isNegative: false };
  return new TorchTensor(storage, dtype, [offset, shape, strides], bits);
}

function isDtype(value: PickleValue | undefined): boolean {
  return value instanceof TorchGlobal && value.kind === 'dtype';
}
