/**
 * The globals that torch's own restricted loader allows (torch 2.13), by exact name, and their role here. Everything
 * else is forbidden; `forbidden-globals.ts` judges it.
 */

import { PickleGlobal } from '../../pickle/values.js';
import { OLD_TENSOR_CLASSES, STORAGE_CLASSES, TORCH_DTYPES, type TorchDtype } from './dtypes.js';

/**
 * Role of an allowed global:
 * - `builder`: calling it gives data or a tensor
 * - `refused`: calling it gives a tensor that safetensors cannot hold
 * - `tensor`: named as the class of a tensor
 * - `storage`: named as the class of a storage
 * - `dtype`, `constant`: named
 */
type GlobalKind = 'builder' | 'refused' | 'tensor' | 'storage' | 'dtype' | 'constant';

/** A global of the list. */
export class TorchGlobal extends PickleGlobal {
  readonly kind: GlobalKind;
  /** The dtype, or that of a storage's elements; null for untyped bytes. */
  readonly dtype: TorchDtype | null;

  /** One row of the list. */
  constructor(module: string, name: string, kind: GlobalKind, dtype: TorchDtype | null = null) {
    super(module, name);
    this.kind = kind;
    this.dtype = dtype;
  }
}

const BUILDERS: readonly (readonly [module: string, ...names: string[]])[] = [
  ['collections', 'OrderedDict', 'Counter'],
  ['builtins', 'set', 'bytearray', 'complex'],
  ['_codecs', 'encode'],
  ['torch', 'Size', 'device'],
  ['torch.serialization', '_get_layout'],
  ['torch._tensor', '_rebuild_from_type_v2'],
  [
    'torch._utils',
    '_rebuild_tensor',
    '_rebuild_tensor_v2',
    '_rebuild_tensor_v3',
    '_rebuild_parameter',
    '_rebuild_parameter_with_state',
  ],
];

const UNSUPPORTED_BUILDERS: readonly string[] = [
  '_rebuild_qtensor',
  '_rebuild_sparse_tensor',
  '_rebuild_nested_tensor',
  '_rebuild_meta_tensor_no_storage',
  '_rebuild_wrapper_subclass',
  '_rebuild_device_tensor_from_numpy',
  '_rebuild_device_tensor_from_cpu_tensor',
];

const QSCHEMES: readonly string[] = [
  'per_tensor_affine',
  'per_tensor_symmetric',
  'per_channel_affine',
  'per_channel_symmetric',
  'per_channel_affine_float_qparams',
];

/** Modules in which storages and old tensors had classes of the same names. */
const CLASS_MODULES: readonly string[] = [
  'torch',
  'torch.cuda',
  'torch.sparse',
  'torch.cuda.sparse',
];

const ALLOWED: ReadonlyMap<string, ReadonlyMap<string, TorchGlobal>> = allowed();

function allowed(): Map<string, Map<string, TorchGlobal>> {
  const modules = new Map<string, Map<string, TorchGlobal>>();
  const add = (module: string, name: string, kind: GlobalKind, dtype?: TorchDtype): void => {
    const names = modules.get(module) ?? new Map<string, TorchGlobal>();
    modules.set(module, names.set(name, new TorchGlobal(module, name, kind, dtype)));
  };
  for (const [module, ...names] of BUILDERS) for (const name of names) add(module, name, 'builder');
  for (const name of UNSUPPORTED_BUILDERS) add('torch._utils', name, 'refused');
  for (const name of QSCHEMES) add('torch', name, 'constant');
  for (const [name, dtype] of TORCH_DTYPES) add('torch', name, 'dtype', dtype);
  for (const module of CLASS_MODULES) {
    for (const [name, dtype] of STORAGE_CLASSES) add(module, name, 'storage', dtype);
    for (const name of OLD_TENSOR_CLASSES) add(module, name, 'refused');
  }
  add('torch.storage', 'UntypedStorage', 'storage');
  add('torch.storage', 'TypedStorage', 'constant');
  add('torch', 'Tensor', 'tensor');
  add('torch.nn.parameter', 'Parameter', 'tensor');
  return modules;
}

/** Former names of modules, in Python 2 and older versions of torch. */
const OLD_MODULES: ReadonlyMap<string, string> = new Map([
  ['__builtin__', 'builtins'],
  ['copy_reg', 'copyreg'],
  ['torch.tensor', 'torch._tensor'],
]);

/** The allowed global with exactly these names. */
export function allowedGlobal(module: string, name: string): TorchGlobal | undefined {
  return ALLOWED.get(currentModule(module))?.get(name);
}

/** The current name of a module that Python 3 or torch has renamed. */
export function currentModule(module: string): string {
  return OLD_MODULES.get(module) ?? module;
}
