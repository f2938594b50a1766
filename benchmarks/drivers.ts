/** The rivals as data: what each reads and needs, and the program that runs it. */

/** File formats that hold the same weights. */
export type InputFormat =
  | 'safetensors'
  | 'torch'
  | 'torchLegacy'
  | 'pickle4'
  | 'pickle5'
  | 'npz'
  | 'npy'
  | 'hdf5';

/** One way of getting at the weights of a file. */
export interface Driver {
  /** Heading of its row. */
  readonly name: string;
  readonly program: 'native' | 'node' | 'python';
  readonly input: InputFormat;
  /** Packages that it imports, of the program's own kind. */
  readonly packages: readonly string[];
  /** Script in `children/`; none for the program in C. */
  readonly script: string;
  /** What the script is asked for, if it knows several ways. */
  readonly method: string;
}

type Details = Partial<Pick<Driver, 'input' | 'packages'>>;

function limit(name: string, method: string): Driver {
  const script = '';
  return { program: 'native', name, script, method, input: 'safetensors', packages: [] };
}

function node(name: string, script: string, method = '', details: Details = {}): Driver {
  return { program: 'node', name, script, method, input: 'safetensors', packages: [], ...details };
}

function python(
  name: string,
  method: string,
  input: InputFormat,
  packages: readonly string[],
  script = 'read_all.py',
): Driver {
  return { program: 'python', name, script, method, input, packages };
}

function npmPackage(name: string, script: string, input: InputFormat): Driver {
  return node(name, script, name, { input, packages: [name] });
}

/** The floor: the loop over a mapping of the same file, in C. */
export const PLAIN_MAPPING: Driver = limit('limit: plain mapping, C', 'mapping');
/** The mapping copied once, then the loop: the floor of readers that copy. */
export const MEMCPY: Driver = limit('limit: memcpy of the mapping, C', 'memcpy');
/** Read into memory, then the loop. */
export const READ: Driver = limit('limit: read, C', 'read');
/** The same past the page cache: what the disk gives. */
export const DIRECT: Driver = limit('limit: O_DIRECT, C', 'direct');
/** This package, reading. */
export const OURS: Driver = node('safetensors-mmap', 'read-mapped.js');
/** This package, everything prefetched before the first tensor is asked for. */
export const OURS_PREFETCHED: Driver = node('safetensors-mmap, prefetch()', 'read-prefetched.js');
/** This package, everything loaded into ordinary memory. */
export const OURS_LOADED: Driver = node('safetensors-mmap, load()', 'read-loaded.js');
/** Node's own way. */
export const READ_FILE: Driver = node('fs.readFile', 'read-whole.js');
/** Node's own way, tensor by tensor. */
export const READ_POSITIONED: Driver = node('fs.read per tensor', 'read-positioned.js');
/** PyTorch's own format, as it is loaded by default. */
export const TORCH_LOAD: Driver = python('torch.load', 'torch.load', 'torch', ['torch']);
/** The same, mapped. */
export const TORCH_LOAD_MAPPED: Driver = python(
  'torch.load(mmap=True)',
  'torch.load-mmap',
  'torch',
  ['torch'],
);
/** Python's own format: a dictionary of numpy arrays, of bytes where numpy is missing. */
export const PICKLE: Driver = python('pickle, protocol 5', 'pickle', 'pickle5', []);
/** The reference with torch. */
export const REFERENCE_TORCH: Driver = python(
  'Python safe_open, torch',
  'torch-mmap',
  'safetensors',
  ['safetensors', 'torch'],
);
const NUMPY = ['safetensors', 'numpy', 'ml_dtypes'];
/** The reference with numpy. */
export const REFERENCE_NUMPY: Driver = python(
  'Python safe_open, numpy',
  'numpy-mmap',
  'safetensors',
  NUMPY,
);
/** HDF5, the format of the older Keras. */
export const HDF5: Driver = python('h5py', 'hdf5', 'hdf5', ['numpy', 'h5py']);

/** All readers, in the order of the tables. */
export const READERS: readonly Driver[] = [
  PLAIN_MAPPING,
  MEMCPY,
  READ,
  OURS,
  OURS_PREFETCHED,
  OURS_LOADED,
  READ_FILE,
  READ_POSITIONED,
  npmPackage('@riaskov/mmap-io', 'read-mmap-io.js', 'safetensors'),
  npmPackage('mmap-io', 'read-mmap-io.js', 'safetensors'),
  npmPackage('pickleparser', 'read-pickle.js', 'pickle4'),
  npmPackage('jpickle', 'read-pickle.js', 'pickle4'),
  TORCH_LOAD,
  python('torch.load, legacy format', 'torch.load', 'torchLegacy', ['torch']),
  TORCH_LOAD_MAPPED,
  python('pickle, protocol 4', 'pickle', 'pickle4', []),
  PICKLE,
  python('np.load, npz', 'npz', 'npz', ['numpy']),
  python('np.load, npy files', 'npy', 'npy', ['numpy']),
  python('np.load, npy files, mmap_mode', 'npy-mmap', 'npy', ['numpy']),
  HDF5,
  REFERENCE_NUMPY,
  python('Python safe_open, numpy, pread', 'numpy-pread', 'safetensors', NUMPY),
  REFERENCE_TORCH,
  python('Python safe_open, torch, pread', 'torch-pread', 'safetensors', ['safetensors', 'torch']),
];

/** Readers of files that are not in memory: one of each kind, since the disk decides. */
export const COLD_READERS: readonly Driver[] = [
  DIRECT,
  PLAIN_MAPPING,
  OURS,
  OURS_PREFETCHED,
  OURS_LOADED,
  READ_FILE,
  TORCH_LOAD,
  TORCH_LOAD_MAPPED,
  PICKLE,
  HDF5,
  REFERENCE_NUMPY,
  REFERENCE_TORCH,
];

/** Readers whose memory is shown for one process and for four. */
export const MEMORY_READERS: readonly Driver[] = [
  PLAIN_MAPPING,
  OURS,
  READ_FILE,
  TORCH_LOAD,
  TORCH_LOAD_MAPPED,
  PICKLE,
  REFERENCE_NUMPY,
  REFERENCE_TORCH,
];

/** This package, from the start of its process to a first byte. */
export const OUR_START: Driver = node('safetensors-mmap', 'first-byte.js');
const FIRST_BYTE = 'first_byte.py';
/** The reference with torch, the same. */
export const TORCH_START: Driver = python(
  'Python safe_open, torch',
  'torch',
  'safetensors',
  ['safetensors', 'torch'],
  FIRST_BYTE,
);

/** Programs that print the first byte of the first tensor and end. */
export const STARTERS: readonly Driver[] = [
  node('Node alone, opens nothing', 'start-only.js'),
  OUR_START,
  python('Python safe_open, numpy', 'numpy', 'safetensors', NUMPY, FIRST_BYTE),
  TORCH_START,
  python('torch.load(mmap=True)', 'torch.load', 'torch', ['torch'], FIRST_BYTE),
  python('pickle, protocol 5', 'pickle', 'pickle5', ['numpy'], FIRST_BYTE),
];
