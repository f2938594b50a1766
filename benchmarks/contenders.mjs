/**
 * The contenders as data. `program` runs one: a script of `children/` (`.mjs`, `.py`), `cli` for the command
 * line, a program of `native/`, or one of the system. `method` is its first argument, the file the second:
 * the same weights in `format`. `needs` are packages from npm or for Python that may be missing. `ours` marks
 * those that run this package, which `--compare` runs with two versions of it.
 */
export const contender = (name, program, method, more = {}) => {
  return { name, program, method, format: 'safetensors', needs: [], ours: false, ...more };
};

/** One that runs this package. */
export const ours = (name, program, method, more = {}) =>
  contender(name, program, method, { ours: true, ...more });

/** A command of the command line with its options; `exitCode` is how it ends when all went well. */
export const command = (method, exitCode = 0) =>
  ours(`safetensors-mmap ${method}`, 'cli', method, { exitCode });

/** The reference over numpy, which knows BF16 by ml_dtypes; the same over torch. */
export const NUMPY = { needs: ['safetensors', 'numpy', 'ml_dtypes'] };
export const TORCH = { needs: ['safetensors', 'torch'] };
const TORCH_FILE = { format: 'torch', needs: ['torch'] };
const PICKLE_FILE = { format: 'pickle', needs: ['numpy'] };

const MMAP_TORCH = 'torch.load(mmap=True)';
const NUMPY_NAME = 'Python safe_open, numpy';
const TORCH_NAME = 'Python safe_open, torch';

// The limits: the loop over a bare mapping; over memory that was read into, as all readers that copy do;
// the same past the page cache; past it into one block again and again, which is what the disk gives.
export const PLAIN_MAPPING = contender('limit: plain mapping, C', 'limits', 'mapping');
export const READ = contender('limit: read, C', 'limits', 'read');
export const DIRECT = contender('limit: O_DIRECT, C', 'limits', 'direct');
export const DIRECT_BLOCK = contender(
  'limit: O_DIRECT into one block, C',
  'limits',
  'direct-block',
);

// This package: mapped; prefetched before the first tensor is asked for; streamed, each tensor read while the
// next ones are fetched; loaded into ordinary memory.
export const OURS = ours('safetensors-mmap', 'read.mjs', 'mapped');
export const OURS_PREFETCHED = ours('safetensors-mmap, prefetch()', 'read.mjs', 'prefetched');
export const OURS_STREAMED = ours('safetensors-mmap, stream()', 'read.mjs', 'streamed');
export const OURS_LOADED = ours('safetensors-mmap, load()', 'read.mjs', 'loaded');

export const READ_FILE = contender('fs.readFile', 'read.mjs', 'readFile');
export const MMAP_IO = contender('@riaskov/mmap-io', 'read.mjs', 'mmapIo', {
  needs: ['@riaskov/mmap-io'],
});
export const TORCH_LOAD = contender('torch.load', 'read.py', 'torch', TORCH_FILE);
export const TORCH_MAPPED = contender(MMAP_TORCH, 'read.py', 'torch-mapped', TORCH_FILE);
/** A dictionary of numpy arrays. */
export const PICKLE = contender('pickle, protocol 5', 'read.py', 'pickle', PICKLE_FILE);
/** The reference with numpy, which copies, and with torch, which maps. */
export const SAFE_OPEN_NUMPY = contender(NUMPY_NAME, 'read.py', 'safe_open-numpy', NUMPY);
export const SAFE_OPEN_TORCH = contender(TORCH_NAME, 'read.py', 'safe_open-torch', TORCH);
/** What a program in Python can do at best. */
export const PYTHON_MAPPING = contender(
  'Python mmap, json, numpy; no checks',
  'read.py',
  'mmap-numpy',
  {
    needs: ['numpy'],
  },
);

/** Checkpoints of torch in Node: this package, and the pickle parsers of npm. */
export const TORCH_CHECKPOINT = ours('openTorchCheckpoint', 'read.mjs', 'torch', {
  format: 'torch',
});
const pickles = (name, method, format = 'torch') =>
  contender(name, 'read.mjs', method, { format, needs: [name] });
export const PICKLE_READERS = [
  pickles('pickleparser', 'torchByPickleparser'),
  pickles('jpickle', 'torchByJpickle'),
];

/**
 * A format with a reader of it in Node, and what is known without measuring: whether reading a file from a
 * stranger cannot run code in it; whether a tensor is found without reading the others. Pickle is not safe by
 * its design: Python's own reader calls what the file names, the readers in JavaScript do not.
 */
const format = (name, safe, layout, reader) => {
  return { safe, layout, contender: { ...reader, name: `${name}: ${reader.name}` } };
};
const rival = (name, method, file) =>
  contender(name, 'read.mjs', method, { format: file, needs: [name] });
const CONVERT = 'safetensors-mmap/convert';

/** All formats that a maintained library writes; this package's own is the first. */
export const FORMATS = [
  format('safetensors', '✓', '✓', OURS),
  format('pickle (PyTorch)', '✗', '✗', { ...TORCH_CHECKPOINT, name: CONVERT }),
  ...PICKLE_READERS.map((reader) => format('pickle (PyTorch)', '✗', '✗', reader)),
  format(
    'pickled NumPy (pdparams)',
    '✗',
    '✗',
    pickles('pickleparser', 'numpyByPickleparser', 'numpy-pickle'),
  ),
  format('npz', '✓', '✓', ours(CONVERT, 'read.mjs', 'npz', { format: 'npz' })),
  format('HDF5', '✓', '~', rival('h5wasm', 'hdf5', 'hdf5')),
  format('MessagePack (Flax)', '✓', '✗', rival('@msgpack/msgpack', 'messagePack', 'msgpack')),
  format('Arrow IPC', '✓', '✓', rival('apache-arrow', 'arrow', 'arrow')),
  format('Protobuf (ONNX)', '✓', '✗', rival('onnx-proto', 'onnx', 'onnx')),
];

// Whole processes: Node without any package; the import alone, by a clock of its own; up to a first byte.
export const NODE_START = contender('Node alone, opens nothing', 'start.mjs', 'nothing');
export const OUR_IMPORT = ours('safetensors-mmap, its import alone', 'start.mjs', 'import');
export const OUR_START = ours('safetensors-mmap', 'start.mjs', 'safetensors');
export const OUR_TORCH_START = ours('openTorchCheckpoint', 'start.mjs', 'torch', {
  format: 'torch',
});
export const TORCH_START = contender(TORCH_NAME, 'first_byte.py', 'safe_open-torch', TORCH);
export const MAPPED_START = contender(MMAP_TORCH, 'first_byte.py', 'torch-mapped', TORCH_FILE);
export const PYTHON_STARTERS = [
  contender(NUMPY_NAME, 'first_byte.py', 'safe_open-numpy', NUMPY),
  TORCH_START,
  MAPPED_START,
  contender('pickle, protocol 5', 'first_byte.py', 'pickle', PICKLE_FILE),
];
