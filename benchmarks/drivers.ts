/** The rivals as data: what each reads, what it needs, and the command that runs it. */
import { join } from 'node:path';
import type { Python } from './python.js';
import type { Command } from './run-child.js';
import type { TouchLoop } from './touch-loop.js';

/** File formats that hold the same weights. */
export type InputFormat = 'safetensors' | 'torch' | 'pickle';

/** A file of weights. */
export interface Input {
  readonly path: string;
}

/** What is there to measure with. A text in place of a thing says why it is not there. */
export interface Equipment {
  readonly loop: TouchLoop | string;
  readonly python: Python | string;
  readonly inputs: Readonly<Record<InputFormat, Input | string>>;
}

/** One way of getting at the weights of a file. */
export interface Driver {
  /** Heading of its row. */
  readonly name: string;
  readonly program: 'native' | 'node' | 'python';
  readonly input: InputFormat;
  /** Python packages that it imports. */
  readonly packages: readonly string[];
  /** Script in `children/`, and for Python the method it is asked for. */
  readonly script: readonly string[];
}

const SCRIPTS = join(import.meta.dirname, 'children');
const PYTHON_SCRIPTS = join(import.meta.dirname, '../children');

/** Stands for the path of the addon where the children have to use the loop in JavaScript. */
const NO_ADDON = '-';

type Details = Partial<Pick<Driver, 'input' | 'packages'>>;

function driver(
  program: Driver['program'],
  name: string,
  script: readonly string[],
  details: Details = {},
): Driver {
  return { program, name, script, input: 'safetensors', packages: [], ...details };
}

/** The floor: the loop over a mapping of the same file, in C. */
export const PLAIN_MAPPING: Driver = driver('native', 'plain mapping, C', []);
/** This package, reading. */
export const OURS: Driver = driver('node', 'safetensors-mmap', ['read-mapped.js']);
/** Node's own way. */
export const READ_FILE: Driver = driver('node', 'fs.readFile', ['read-whole.js']);
/** PyTorch's own format, as it is loaded by default. */
export const TORCH_LOAD: Driver = driver('python', 'torch.load', ['read_all.py', 'torch.load'], {
  input: 'torch',
  packages: ['torch'],
});
/** Python's own format: a dictionary of numpy arrays, of bytes where numpy is missing. */
export const PICKLE: Driver = driver('python', 'pickle', ['read_all.py', 'pickle'], {
  input: 'pickle',
});
const TORCH_LOAD_MAPPED = driver(
  'python',
  'torch.load(mmap=True)',
  ['read_all.py', 'torch.load-mmap'],
  { input: 'torch', packages: ['torch'] },
);
const SAFE_OPEN_TORCH = driver(
  'python',
  'Python safe_open, torch',
  ['read_all.py', 'safe_open-torch'],
  { packages: ['safetensors', 'torch'] },
);
const SAFE_OPEN_NUMPY = driver(
  'python',
  'Python safe_open, numpy',
  ['read_all.py', 'safe_open-numpy'],
  { packages: ['safetensors', 'numpy', 'ml_dtypes'] },
);

/** Readers of every byte, in the order of the tables. */
export const READERS: readonly Driver[] = [
  PLAIN_MAPPING,
  OURS,
  READ_FILE,
  TORCH_LOAD,
  PICKLE,
  TORCH_LOAD_MAPPED,
  SAFE_OPEN_TORCH,
  SAFE_OPEN_NUMPY,
];

/** This package, from the start of its process to a first byte. */
export const OUR_START: Driver = driver('node', 'safetensors-mmap', ['first-byte.js']);
/** The reference with torch, the same. */
export const TORCH_START: Driver = driver(
  'python',
  'Python safe_open, torch',
  ['first_byte.py', 'torch'],
  { packages: ['safetensors', 'torch'] },
);
const NUMPY_START = driver('python', 'Python safe_open, numpy', ['first_byte.py', 'numpy'], {
  packages: ['safetensors', 'numpy', 'ml_dtypes'],
});
const NODE_START = driver('node', 'Node alone, opens nothing', ['start-only.js']);

/** Programs that print the first byte of the first tensor and end. */
export const STARTERS: readonly Driver[] = [NODE_START, OUR_START, NUMPY_START, TORCH_START];

/** The command that runs the driver, or a text that says why it cannot run here. */
export function driverCommand(driver: Driver, equipment: Equipment): Command | string {
  const { loop, python: interpreter } = equipment;
  const input = equipment.inputs[driver.input];
  const compiled = typeof loop === 'string' ? undefined : loop;
  switch (driver.program) {
    case 'native':
      if (typeof input === 'string') return input;
      return compiled === undefined
        ? 'needs a C compiler'
        : { file: compiled.plainMapping, args: [input.path] };
    case 'node': {
      if (typeof input === 'string') return input;
      const [script = ''] = driver.script;
      const args = [join(SCRIPTS, script), input.path, compiled?.addon ?? NO_ADDON];
      return { file: process.execPath, args };
    }
    case 'python': {
      if (typeof interpreter === 'string') return interpreter;
      const missing = driver.packages.filter((name) => !(name in interpreter.packages));
      if (missing.length > 0) return `Python has no ${missing.join(', no ')}`;
      if (typeof input === 'string') return input;
      if (compiled === undefined) return 'needs a C compiler';
      const [script = '', ...method] = driver.script;
      const args = [join(PYTHON_SCRIPTS, script), ...method, input.path, compiled.library];
      return { file: interpreter.file, args };
    }
  }
}
