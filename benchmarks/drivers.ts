/** The rivals as data: what each reads and needs, and the program that runs it. */
import type { Format } from './equipment.js';

/** One way of getting at the weights of a file, or of writing them. */
export interface Driver {
  /** Heading of its row. */
  readonly name: string;
  readonly program: 'c' | 'command' | 'node' | 'python' | 'system';
  /** Script in `children/`; for C the name of the compiled program, of the system that of the program. */
  readonly script: string;
  /** What the script is asked to do; of the command line the command and its options. */
  readonly method: string;
  /** The format of the file that it gets. */
  readonly format: Format;
  /** Packages that it imports, from npm or for Python. */
  readonly packages: readonly string[];
  /** How it ends when all went well, when that is not 0. */
  readonly exitCode?: number;
}

/** A program in C, with nothing between the file and the loop: the limit that others can reach. */
export function limit(name: string, script: string, method: string): Driver {
  return { name, program: 'c', script, method, format: 'safetensors', packages: [] };
}

/** A command of the command line, with its options. */
export function command(method: string): Driver {
  const name = `safetensors-mmap ${method}`;
  return { name, program: 'command', script: '', method, format: 'safetensors', packages: [] };
}

/** A program of the system. */
export function system(script: string): Driver {
  const format = 'safetensors';
  return { name: script, program: 'system', script, method: '', format, packages: [] };
}

/** A script in TypeScript. */
export function node(
  name: string,
  script: string,
  method: string,
  packages: readonly string[] = [],
  format: Format = 'safetensors',
): Driver {
  return { name, program: 'node', script, method, format, packages };
}

/** A script in Python. */
export function python(
  name: string,
  script: string,
  method: string,
  packages: readonly string[],
  format: Format = 'safetensors',
): Driver {
  return { name, program: 'python', script, method, format, packages };
}

/** The reference over numpy, which knows BF16 by ml_dtypes. */
export const NUMPY_REFERENCE: readonly string[] = ['safetensors', 'numpy', 'ml_dtypes'];
/** The reference over torch. */
export const TORCH_REFERENCE: readonly string[] = ['safetensors', 'torch'];

/** The loop over a bare mapping. */
export const PLAIN_MAPPING: Driver = limit('limit: plain mapping, C', 'read_limit', 'mapping');
/** Read into memory, then the loop: the limit of readers that copy. */
export const READ: Driver = limit('limit: read, C', 'read_limit', 'read');
/** The same past the page cache. */
export const DIRECT: Driver = limit('limit: O_DIRECT, C', 'read_limit', 'direct');
/** Past the page cache into one block of memory again and again: what the disk gives. */
export const DIRECT_BLOCK: Driver = limit(
  'limit: O_DIRECT into one block, C',
  'read_limit',
  'direct-block',
);

/** This package. */
export const OURS: Driver = node('safetensors-mmap', 'read.js', 'mapped');
/** This package, everything prefetched before the first tensor is asked for. */
export const OURS_PREFETCHED: Driver = node(
  'safetensors-mmap, prefetch()',
  'read.js',
  'prefetched',
);
/** This package, each tensor read while the next ones are fetched. */
export const OURS_STREAMED: Driver = node('safetensors-mmap, stream()', 'read.js', 'streamed');
/** This package, everything loaded into ordinary memory. */
export const OURS_LOADED: Driver = node('safetensors-mmap, load()', 'read.js', 'loaded');

/** What a program does without any package. */
export const READ_FILE: Driver = node('fs.readFile', 'read.js', 'readFile');
const MMAP_IO = node('@riaskov/mmap-io', 'read.js', 'mmap-io', ['@riaskov/mmap-io']);
/** PyTorch's own format, as it is loaded by default. */
export const TORCH_LOAD: Driver = python('torch.load', 'read.py', 'torch', ['torch'], 'torch');
/** The same mapped. */
export const TORCH_MAPPED: Driver = python(
  'torch.load(mmap=True)',
  'read.py',
  'torch-mapped',
  ['torch'],
  'torch',
);
/** A dictionary of numpy arrays. */
export const PICKLE: Driver = python(
  'pickle, protocol 5',
  'read.py',
  'pickle',
  ['numpy'],
  'pickle',
);
/** The reference with numpy, which copies. */
export const SAFE_OPEN_NUMPY: Driver = python(
  'Python safe_open, numpy',
  'read.py',
  'safe_open-numpy',
  NUMPY_REFERENCE,
);
/** The reference with torch, which maps. */
export const SAFE_OPEN_TORCH: Driver = python(
  'Python safe_open, torch',
  'read.py',
  'safe_open-torch',
  TORCH_REFERENCE,
);

/** What a program in Python can do at best: a mapping and JSON, without any check. */
export const PYTHON_MAPPING: Driver = python(
  'Python mmap, json, numpy; no checks',
  'read.py',
  'mmap-numpy',
  ['numpy'],
);

/** All readers, in the order of the tables. */
export const READERS: readonly Driver[] = [
  PLAIN_MAPPING,
  READ,
  OURS,
  OURS_PREFETCHED,
  OURS_LOADED,
  READ_FILE,
  MMAP_IO,
  TORCH_LOAD,
  TORCH_MAPPED,
  PICKLE,
  SAFE_OPEN_NUMPY,
  SAFE_OPEN_TORCH,
  PYTHON_MAPPING,
];

/** Readers of files that are not in memory: one of each kind, since the disk decides. */
export const COLD_READERS: readonly Driver[] = [
  DIRECT,
  DIRECT_BLOCK,
  PLAIN_MAPPING,
  OURS,
  OURS_PREFETCHED,
  OURS_STREAMED,
  OURS_LOADED,
  READ_FILE,
  TORCH_LOAD,
  TORCH_MAPPED,
  SAFE_OPEN_NUMPY,
  SAFE_OPEN_TORCH,
];

/**
 * Readers of one tensor. Those that read the whole file first, `load()`, torch.load and pickle, take as
 * long as for all tensors; `fs.readFile` stands for them.
 */
export const ONE_TENSOR_READERS: readonly Driver[] = [
  PLAIN_MAPPING,
  OURS,
  READ_FILE,
  TORCH_MAPPED,
  SAFE_OPEN_NUMPY,
  SAFE_OPEN_TORCH,
];

/** Readers whose memory is shown for one process and for four. */
export const MEMORY_READERS: readonly Driver[] = [
  PLAIN_MAPPING,
  OURS,
  READ_FILE,
  TORCH_LOAD,
  TORCH_MAPPED,
  PICKLE,
  SAFE_OPEN_NUMPY,
  SAFE_OPEN_TORCH,
];

/** This package, from the start of its process to a first byte. */
export const OUR_START: Driver = node('safetensors-mmap', 'first-byte.js', '-');
/** The reference with torch, the same. */
export const TORCH_START: Driver = python(
  'Python safe_open, torch',
  'first_byte.py',
  'safe_open-torch',
  TORCH_REFERENCE,
);

/** What importing this package costs, told by a process of its own. */
export const OUR_IMPORT: Driver = node('safetensors-mmap, its import alone', 'import-only.js', '-');
/** Node without any package. */
export const NODE_START: Driver = node('Node alone, opens nothing', 'start-only.js', '-');
/** Programs in Python that print the first byte of the first tensor and end. */
export const PYTHON_STARTERS: readonly Driver[] = [
  python('Python safe_open, numpy', 'first_byte.py', 'safe_open-numpy', NUMPY_REFERENCE),
  TORCH_START,
  python('torch.load(mmap=True)', 'first_byte.py', 'torch-mapped', ['torch'], 'torch'),
  python('pickle, protocol 5', 'first_byte.py', 'pickle', ['numpy'], 'pickle'),
];
