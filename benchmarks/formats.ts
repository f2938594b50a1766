/** Formats of weights as data: who reads them in Node, and what is known about them without measuring. */
import { type Driver, node } from './drivers.js';
import type { Format } from './equipment.js';

/** A format with a reader of it. */
export interface FormatEntry {
  /** Its reader; the name of the format comes first in its own. */
  readonly driver: Driver;
  /** Whether reading a file from a stranger cannot run code in it. */
  readonly safe: Judgement;
  /** Whether the writer decides where a tensor lies, and a reader finds it without reading the others. */
  readonly layout: Judgement;
}

/** Yes, in part, or no. */
export type Judgement = '✓' | '~' | '✗';

function entry(
  format: string,
  [safe, layout]: readonly [Judgement, Judgement],
  [reader, method, packages, file]: Reader,
): FormatEntry {
  const name = `${format}: ${reader}`;
  return { safe, layout, driver: node(name, 'read-format.js', method, packages, file) };
}

/** A reader: its name, its method, its packages, and the format of its file. */
type Reader = readonly [string, string, readonly string[], Format];

const PICKLEPARSER: Reader = ['pickleparser', 'torch-pickleparser', ['pickleparser'], 'torch'];
const JPICKLE: Reader = ['jpickle', 'torch-jpickle', ['jpickle'], 'torch'];

/** Readers of checkpoints of torch in Node: this package. */
export const TORCH_CHECKPOINT: Driver = node(
  'openTorchCheckpoint',
  'read-format.js',
  'torch',
  [],
  'torch',
);
/** The pickle parsers of npm. */
export const PICKLE_READERS: readonly Driver[] = [PICKLEPARSER, JPICKLE].map(
  ([name, method, packages, format]) => node(name, 'read-format.js', method, packages, format),
);

/** This package's own format. */
export const SAFETENSORS: FormatEntry = entry(
  'safetensors',
  ['✓', '✓'],
  ['safetensors-mmap', 'safetensors', [], 'safetensors'],
);

/**
 * All formats that a maintained library writes. Pickle is not safe by its design: Python's own reader calls
 * what the file names. The readers in JavaScript call only what the program gives them.
 */
export const FORMATS: readonly FormatEntry[] = [
  SAFETENSORS,
  entry('pickle (PyTorch)', ['✗', '✗'], ['safetensors-mmap/convert', 'torch', [], 'torch']),
  entry('pickle (PyTorch)', ['✗', '✗'], PICKLEPARSER),
  entry('pickle (PyTorch)', ['✗', '✗'], JPICKLE),
  entry(
    'pickled NumPy (pdparams)',
    ['✗', '✗'],
    ['pickleparser', 'numpy-pickleparser', ['pickleparser'], 'numpy-pickle'],
  ),
  entry('npz', ['✓', '✓'], ['safetensors-mmap/convert', 'npz', [], 'npz']),
  entry('HDF5', ['✓', '~'], ['h5wasm', 'hdf5', ['h5wasm'], 'hdf5']),
  entry(
    'MessagePack (Flax)',
    ['✓', '✗'],
    ['@msgpack/msgpack', 'messagePack', ['@msgpack/msgpack'], 'msgpack'],
  ),
  entry('Arrow IPC', ['✓', '✓'], ['apache-arrow', 'arrow', ['apache-arrow'], 'arrow']),
  entry('Protobuf (ONNX)', ['✓', '✗'], ['onnx-proto', 'onnx', ['onnx-proto'], 'onnx']),
];

/** Formats without a row, and why. */
export const NOT_MEASURED: readonly string[] = [
  'SavedModel was not measured: TensorFlow alone writes and reads it, and no package on npm reads its variables ' +
    'without TensorFlow itself',
  "Cap'n Proto was not measured: it has no schema for tensors that files share, and no type of 16 bits " +
    'for floats',
  'npy was not measured: it holds one array; npz is an archive of such files',
];
