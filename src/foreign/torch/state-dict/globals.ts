/**
 * The globals that torch's own restricted loader allows (torch 2.13), by exact name, and their role here. Everything
 * else is forbidden.
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
export type GlobalKind = 'builder' | 'refused' | 'tensor' | 'storage' | 'dtype' | 'constant';

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

const REFUSED_BUILDERS: readonly string[] = [
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
  for (const name of REFUSED_BUILDERS) add('torch._utils', name, 'refused');
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

/** Modules that run code. A pickle that names them is hostile; converting the rest would hide that. */
const HOSTILE_MODULES: ReadonlySet<string> = new Set([
  'os',
  'posix',
  'nt',
  'sys',
  'subprocess',
  'commands',
  '_posixsubprocess',
  'pty',
  'socket',
  'shutil',
  'ctypes',
  'importlib',
  'zipimport',
  'runpy',
  'pip',
  'pkgutil',
  'code',
  'codeop',
  'marshal',
  'pickle',
  '_pickle',
  'cPickle',
  'dill',
  'operator',
  '_operator',
  'functools',
  'webbrowser',
  'platform',
  'timeit',
  'pdb',
  'bdb',
  'multiprocessing',
  'urllib',
  'http',
  'requests',
]);

/** Types of data in `builtins`. */
const DATA_TYPES: ReadonlySet<string> = new Set([
  'bool',
  'bytes',
  'dict',
  'float',
  'frozenset',
  'int',
  'list',
  'object',
  'range',
  'slice',
  'str',
  'tuple',
  // Python 2's spelling, and so that of protocol 2.
  'long',
  'unicode',
  'xrange',
]);

/** Functions that write files or run code, in modules that also have harmless names. */
const HOSTILE_NAMES: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    io: ['open', 'open_code', 'FileIO'],
    _io: ['open', 'open_code', 'FileIO'],
    codecs: ['open'],
    types: ['FunctionType', 'CodeType', 'LambdaType', 'MethodType'],
    logging: ['FileHandler'],
    torch: ['load'],
    'torch.serialization': ['load'],
    'torch.jit': ['load'],
    joblib: ['load'],
    'joblib.numpy_pickle': ['load'],
    cloudpickle: ['load', 'loads'],
    'numpy.testing': ['runstring'],
    'numpy.testing.utils': ['runstring'],
  }).map(([module, names]) => [module, new Set(names)]),
);

/** Packages in which everything loads or runs code. */
const HOSTILE_PACKAGES: readonly string[] = [
  'torch.hub',
  'logging.config',
  'logging.handlers',
  'numpy.testing._private',
];

/** The allowed global with exactly these names. */
export function allowedGlobal(module: string, name: string): TorchGlobal | undefined {
  return ALLOWED.get(OLD_MODULES.get(module) ?? module)?.get(name);
}

/** Whether only hostile pickles name this global, which is not on the list. */
export function isHostileGlobal(module: string, name: string): boolean {
  const [top = ''] = module.split('.');
  if (HOSTILE_MODULES.has(top) || HOSTILE_NAMES.get(module)?.has(name.split('.')[0] ?? '') === true)
    return true;
  if (HOSTILE_PACKAGES.some((path) => `${module}.`.startsWith(`${path}.`))) return true;
  return (OLD_MODULES.get(module) ?? module) === 'builtins' && !DATA_TYPES.has(name);
}

/** Whether the global is the function that puts storages into the pickle if `pickle` is used without torch.save. */
export function isPlainPickle({ module, name }: { module: string; name: string }): boolean {
  return module === 'torch.storage' && name === '_load_from_bytes';
}

/** Explains a checkpoint with such a function, and the remedy. */
export const PLAIN_PICKLE =
  'pickle wrote, and not torch.save: load it in Python and save it with torch.save';

/** Advice about forbidden globals; undefined if any is hostile, or for an empty list. */
export function adviceFor(
  globals: readonly { readonly module: string; readonly name: string }[],
): string | undefined {
  const forbidden = globals.filter(({ module, name }) => allowedGlobal(module, name) === undefined);
  if (forbidden.length === 0) return undefined;
  if (forbidden.some(({ module, name }) => isHostileGlobal(module, name))) return undefined;
  if (forbidden.some(({ module }) => module.startsWith('torch.nn.'))) {
    return 'it is a whole pickled module: save its state_dict() instead';
  }
  if (forbidden.some(isPlainPickle)) return `it is a file that ${PLAIN_PICKLE}`;
  const placeholder = "with unknownGlobals: 'placeholder' they stay in values() as data";
  if (!forbidden.some(({ module }) => /^(numpy|joblib)\b/.test(module))) return placeholder;
  return (
    `a pickle of NumPy arrays, as PaddlePaddle (.pdparams) and joblib write it, has to be loaded there and ` +
    `saved by numpy.savez; of NumPy values among torch's tensors, ${placeholder}`
  );
}
