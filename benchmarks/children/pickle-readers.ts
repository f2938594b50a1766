/**
 * Pickled weights, by the pickle parsers that npm has. They know nothing of archives and tensors: finding the
 * entries and building the tensors is up to the program that uses them, as here.
 */
import { readFile } from 'node:fs/promises';
import { known, type NamedTensor, type OpenTensors, readTensors } from './named-tensors.js';
import { requireRival } from './rivals.js';

/** The part of pickleparser that is used here. */
interface PickleParser {
  readonly Parser: new (options: {
    nameResolver: { resolve(module: string, name: string): unknown };
    persistentResolver?: { resolve(id: unknown): unknown };
    unpicklingTypeOfDictionary: 'Map';
  }) => { parse(data: Uint8Array): unknown };
}

/** The entries of a zip archive whose entries are all stored; no zip64. */
function storedEntries(file: Buffer): Map<string, Buffer> {
  const entries = new Map<string, Buffer>();
  const end = file.lastIndexOf('PK\x05\x06');
  let at = file.readUInt32LE(end + 16);
  for (let count = file.readUInt16LE(end + 10); count > 0; count--) {
    const [size, header] = [file.readUInt32LE(at + 24), file.readUInt32LE(at + 42)];
    const [name, extra, comment] = [28, 30, 32].map((field) => file.readUInt16LE(at + field));
    const begin = header + 30 + file.readUInt16LE(header + 26) + file.readUInt16LE(header + 28);
    entries.set(
      file.toString('utf8', at + 46, at + 46 + (name ?? 0)),
      file.subarray(begin, begin + size),
    );
    at += 46 + (name ?? 0) + (extra ?? 0) + (comment ?? 0);
  }
  return entries;
}

/** The pickle of a checkpoint, and its storages by their keys. */
async function torchEntries(
  path: string,
): Promise<{ pickle: Buffer; storages: Map<string, Buffer> }> {
  const entries = [...storedEntries(await readFile(path))];
  const below = entries.map(([name, bytes]) => [name.slice(name.indexOf('/') + 1), bytes] as const);
  const pickle = known(new Map(below).get('data.pkl'), 'data.pkl');
  const storages = below.filter(([name]) => name.startsWith('data/'));
  return { pickle, storages: new Map(storages.map(([name, bytes]) => [name.slice(5), bytes])) };
}

const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  FloatStorage: 4,
  BFloat16Storage: 2,
  float8_e4m3fn: 1,
};

/** A checkpoint of torch, by pickleparser. */
export function torchZip(): OpenTensors {
  const { Parser } = requireRival<PickleParser>('pickleparser');
  return async (path) => {
    const { pickle, storages } = await torchEntries(path);
    const parser = new Parser({
      unpicklingTypeOfDictionary: 'Map',
      nameResolver: { resolve: (module, name) => torchGlobal(`${module}.${name}`) },
      persistentResolver: {
        resolve: (id) => {
          const [, dtype, key] = id as [string, string, string];
          return { bytes: known(storages.get(key), key), dtype };
        },
      },
    });
    return readTensors(parser.parse(pickle) as Map<string, NamedTensor>);
  };
}

/** What a global of the pickle stands for; a storage is known by its name. */
function torchGlobal(name: string): unknown {
  if (name === 'torch._utils._rebuild_tensor_v2') return rebuildTensor;
  if (name === 'torch._utils._rebuild_tensor_v3') return rebuildTyped;
  if (name === 'collections.OrderedDict') return () => new Map();
  return name.replace(/^torch\./, '');
}

function rebuildTensor(
  storage: NamedTensor,
  offset: number,
  shape: readonly number[],
): NamedTensor {
  const { bytes, dtype } = storage;
  const width = known(ELEMENT_BYTES[dtype], dtype);
  const begin = offset * width;
  const byteLength = shape.reduce((product, dimension) => product * dimension, width);
  return { bytes: bytes.subarray(begin, begin + byteLength), dtype };
}

/** Of dtypes that are younger than typed storages. */
function rebuildTyped(
  { bytes }: NamedTensor,
  offset: number,
  shape: readonly number[],
  ...[, , , dtype]: [stride: unknown, requiresGrad: unknown, hooks: unknown, dtype: string]
): NamedTensor {
  return rebuildTensor({ bytes, dtype }, offset, shape);
}

/** The same by jpickle, which gives up at the first storage. */
export function torchZipByJpickle(): OpenTensors {
  const { loads } = requireRival<{ loads(pickle: string): unknown }>('jpickle');
  return async (path) => {
    const { pickle } = await torchEntries(path);
    try {
      return readTensors(loads(pickle.toString('latin1')) as Map<string, NamedTensor>);
    } catch (error) {
      throw error instanceof Error ? error : new Error(String(error));
    }
  };
}

/** An array as numpy's pickles build it. */
class NumpyArray implements NamedTensor {
  bytes: Uint8Array = new Uint8Array();
  dtype = '';

  __setstate__([, , { name }, , bytes]: [unknown, unknown, NumpyDtype, unknown, Uint8Array]): void {
    this.bytes = bytes;
    this.dtype = name;
  }
}

class NumpyDtype {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  /** The byte order and the fields of a structure: nothing that matters here. */
  __setstate__(): void {}
}

/** A dictionary of numpy arrays, by pickleparser. */
export function numpyPickle(): OpenTensors {
  const { Parser } = requireRival<PickleParser>('pickleparser');
  const globals: Readonly<Record<string, unknown>> = {
    'numpy._core.multiarray._reconstruct': () => new NumpyArray(),
    'numpy.dtype': (name: string) => new NumpyDtype(name),
    'numpy.ndarray': NumpyArray,
  };
  return async (path) => {
    const resolve = (module: string, name: string) =>
      known(globals[`${module}.${name}`], `${module}.${name}`);
    const parser = new Parser({ unpicklingTypeOfDictionary: 'Map', nameResolver: { resolve } });
    return readTensors(parser.parse(await readFile(path)) as Map<string, NamedTensor>);
  };
}
