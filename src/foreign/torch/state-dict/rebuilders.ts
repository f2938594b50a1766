/**
 * Classes and functions of Python's standard library, torch, NumPy, pandas and joblib that rebuild data from a pickle.
 * They run no code but their own: no function that is passed to them, no file, no module that they import by name.
 */

const STANDARD: Readonly<Record<string, string>> = {
  // `long`, `unicode` and `xrange` are Python 2's.
  builtins:
    'bool bytes dict float frozenset int list object range slice str tuple long unicode xrange Ellipsis NotImplemented',
  argparse: 'Namespace',
  array: '_array_reconstructor array',
  collections: 'ChainMap UserDict UserList UserString defaultdict deque',
  copyreg: '__newobj__ __newobj_ex__ _reconstructor',
  dataclasses: '_MISSING_TYPE',
  datetime: 'date datetime time timedelta timezone tzinfo',
  _decimal: 'Decimal',
  decimal: 'Decimal',
  fractions: 'Fraction',
  io: 'BytesIO StringIO',
  _io: 'BytesIO StringIO',
  ipaddress: 'IPv4Address IPv4Network IPv6Address IPv6Network',
  itertools: 'count',
  logging: 'Logger getLogger',
  ordereddict: 'OrderedDict',
  pathlib: 'Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath',
  'pathlib._local': 'Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath',
  random: 'Random',
  re: '_compile',
  time: 'struct_time',
  types: 'SimpleNamespace',
  typing:
    'Any Callable ClassVar Dict Final FrozenSet Generic Iterable Iterator List Literal Mapping Optional Sequence Set ' +
    'Tuple Type Union',
  uuid: 'SafeUUID UUID',
};

const SCALARS =
  'bool bool_ byte bytes_ cdouble clongdouble complex128 complex256 complex64 csingle datetime64 double float128 ' +
  'float16 float32 float64 half int16 int32 int64 int8 int_ intc intp long longdouble longlong object_ short single ' +
  'str_ timedelta64 ubyte uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong ushort void';

const NUMPY: Readonly<Record<string, string>> = {
  numpy: `dtype ndarray matrix poly1d recarray record ${SCALARS}`,
  'numpy.core.multiarray': '_reconstruct scalar',
  'numpy._core.multiarray': '_reconstruct scalar',
  'numpy.core._multiarray_umath': '_reconstruct scalar',
  'numpy._core._multiarray_umath': '_reconstruct scalar',
  'numpy.core.numeric': '_frombuffer',
  'numpy._core.numeric': '_frombuffer',
  'numpy.core.records': 'recarray record',
  'numpy._core.records': 'recarray record',
  'numpy.rec': 'recarray record',
  'numpy.matrixlib.defmatrix': 'matrix',
  'numpy.lib.polynomial': 'poly1d',
  'numpy.lib._polynomial_impl': 'poly1d',
  'numpy.ma.core': 'MaskedArray _mareconstruct',
  'numpy.ma': 'MaskedArray',
  'numpy.random': '__RandomState_ctor',
  'numpy.random._pickle': '__bit_generator_ctor __generator_ctor __randomstate_ctor',
  'numpy.random._mt19937': 'MT19937',
  'numpy.random._pcg64': 'PCG64 PCG64DXSM',
  'numpy.random._philox': 'Philox',
  'numpy.random._sfc64': 'SFC64',
  'numpy.random.bit_generator': 'SeedSequence __pyx_unpickle_SeedSequence',
};

const ACTIVATIONS =
  'celu elu gelu glu hardsigmoid hardswish hardtanh leaky_relu log_softmax logsigmoid mish prelu relu relu6 relu_ ' +
  'selu sigmoid silu softmax softplus softsign tanh tanhshrink';

const TORCH: Readonly<Record<string, string>> = {
  torch: 'Generator ScriptObject',
  'torch._C': 'Generator',
  'torch._C._nn': 'gelu silu',
  'torch.nn.functional': ACTIVATIONS,
  'torch.nn.backends.thnn': '_get_thnn_function_backend THNNFunctionBackend',
  'torch.nn.parallel.data_parallel': 'DataParallel',
  'torch.nn.parallel.distributed': 'DistributedDataParallel',
  'torch.nn.parameter': 'Buffer UninitializedBuffer UninitializedParameter',
  // Its bytes are another file, which is scanned too.
  'torch.storage': '_load_from_bytes',
  'torch.torch_version': 'TorchVersion',
  'torch.distributed.checkpoint.filesystem': '_StorageInfo _StoragePrefix',
  'torch.distributed.checkpoint.metadata':
    'BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta TensorProperties TensorStorageMetadata',
};

const OTHERS: Readonly<Record<string, string>> = {
  'joblib.numpy_pickle': 'NumpyArrayWrapper NDArrayWrapper ZNDArrayWrapper',
  'joblib.numpy_pickle_compat': 'NDArrayWrapper ZNDArrayWrapper',
  'pandas._libs.arrays': '__pyx_unpickle_NDArrayBacked',
  'pandas._libs.internals': 'BlockPlacement _unpickle_block',
  'pandas._libs.missing': 'NAType',
  'pandas._libs.tslibs.nattype': '_nat_unpickle',
  'pandas._libs.tslibs.timedeltas': '_timedelta_unpickle',
  'pandas._libs.tslibs.timestamps': '_unpickle_timestamp',
  'pandas._libs.tslibs.period': 'Period',
  'pandas.core.frame': 'DataFrame',
  'pandas.core.indexes.base': 'Index _new_Index',
  'pandas.core.indexes.datetimes': 'DatetimeIndex _new_DatetimeIndex',
  'pandas.core.indexes.period': 'PeriodIndex _new_PeriodIndex',
  'pandas.core.internals.blocks': 'new_block',
  'pandas.core.internals.managers': 'BlockManager SingleBlockManager',
  'pandas.core.series': 'Series',
};

const REBUILDERS: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({ ...STANDARD, ...NUMPY, ...TORCH, ...OTHERS }).map(([module, names]) => [
    module,
    new Set(names.split(' ')),
  ]),
);

/** Modules whose classes hold data or layers. */
const CLASS_MODULES: readonly RegExp[] = [
  /^numpy\.dtypes$/,
  /^pandas\.core\.(arrays|dtypes\.dtypes|indexes)(\.|$)/,
  /^pandas\._libs\.tslibs\.offsets$/,
  /^torch\.(ao\.)?nn\.(modules|qat|quantized|quantizable|intrinsic)(\.|$)/,
  /^torch\.nn\.utils\.(parametrizations|parametrize)$/,
  /^torch\.(ao\.)?quantization\.(_learnable_fake_quantize|fake_quantize|observer|stubs)$/,
  /^torch\.optim\.(lr_scheduler|swa_utils|[a-z_]+)$/,
];

const CLASS_NAME = /^_?[A-Z]\w+$/;

/** Names that such modules import from others. */
const IMPORTED_NAMES: ReadonlySet<string> = new Set(
  (
    'Any BackwardHook BackwardHookFunction BytesIO Callable ClassVar Dict Enum Final Function Generic Iterable Iterator ' +
    'List Literal Mapping MutableMapping NamedTuple Optional ParamSpec Path Protocol RemovableHandle Self Sequence ' +
    'StringIO Tuple Type TypeVar TypedDict Union'
  ).split(' '),
);

/** Whether a class or function of these packages only rebuilds data. */
export function isRebuilder(module: string, name: string): boolean {
  if (REBUILDERS.get(module)?.has(name) === true) return true;
  // Python 2 has exceptions in a separate module.
  if (module === 'builtins' || module === 'exceptions') return EXCEPTION.test(name);
  const isClass = CLASS_NAME.test(name) && !IMPORTED_NAMES.has(name);
  return isClass && CLASS_MODULES.some((pattern) => pattern.test(module));
}

const EXCEPTION = /^[A-Z]\w*(Error|Exception|Warning)$/;
