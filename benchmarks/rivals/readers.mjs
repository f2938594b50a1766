/**
 * The same weights in other formats, by the reader of each that npm has. Each function loads its package and returns
 * a function that opens a file: by name, as a Map or what looks like one, the bytes and the reader's dtype.
 */
import { fstatSync, openSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { NumpyArray, NumpyDtype, rebuildTensor, rebuildTyped, torchEntries } from './pickles.mjs';

const require = createRequire(import.meta.url);

/** A file mapped by mmap-io. */
export function mapFile(path) {
  const { map, PROT_READ, MAP_PRIVATE } = require('@riaskov/mmap-io');
  const fd = openSync(path, 'r');
  return map(fstatSync(fd).size, PROT_READ, MAP_PRIVATE, fd);
}

/** HDF5's class of opaque types. */
const OPAQUE = 5;

export async function hdf5() {
  const { ready, File } = await import('h5wasm/node');
  await ready;
  return (path) => {
    const file = new File(path, 'r');
    const get = (name) => {
      const { dtype, metadata, value } = file.get(name);
      const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
      return { bytes, dtype: metadata.type === OPAQUE ? 'opaque' : dtype };
    };
    return { keys: () => file.keys(), get };
  };
}

/** As Flax writes it: extension 1 holds shape, dtype and bytes. */
export function messagePack() {
  const { decode, ExtensionCodec } = require('@msgpack/msgpack');
  const extensionCodec = new ExtensionCodec();
  const toTensor = ([, dtype, bytes]) => ({ bytes, dtype });
  extensionCodec.register({ type: 1, decode: (data) => toTensor(decode(data)) });
  return async (path) => new Map(Object.entries(decode(await readFile(path), { extensionCodec })));
}

/** A record batch for each tensor; the schema lists the names. */
export function arrow() {
  const { RecordBatchReader } = require('apache-arrow');
  return async (path) => {
    const reader = await (await RecordBatchReader.from(await open(path))).open();
    const names = JSON.parse(reader.schema.metadata.get('names'));
    const places = new Map(names.map((name, index) => [name, index]));
    const get = async (name) => {
      const { data, dtype } = (await reader.readRecordBatch(places.get(name))).get(0);
      return { bytes: data, dtype: `bytes (${dtype})` };
    };
    return { keys: () => names, get };
  };
}

export function onnx() {
  const { ModelProto, TensorProto } = require('onnx-proto').onnx;
  return async (path) => {
    const { initializer } = ModelProto.decode(await readFile(path)).graph;
    const dtypeOf = (type) => TensorProto.DataType[type] ?? `type ${type}`;
    const tensorOf = ({ dataType, rawData }) => ({ bytes: rawData, dtype: dtypeOf(dataType) });
    return new Map(initializer.map((each) => [each.name, tensorOf(each)]));
  };
}

/** A parser of pickles that knows these globals; another one, as the dtypes of torch are, is its name. */
function pickleParser(globals, options) {
  const { Parser } = require('pickleparser');
  const resolve = (module, name) => globals[`${module}.${name}`] ?? name;
  return new Parser({ unpicklingTypeOfDictionary: 'Map', nameResolver: { resolve }, ...options });
}

export function torchByPickleparser() {
  require('pickleparser');
  const globals = {
    'torch._utils._rebuild_tensor_v2': rebuildTensor,
    'torch._utils._rebuild_tensor_v3': rebuildTyped,
    'collections.OrderedDict': () => new Map(),
  };
  return async (path) => {
    const { pickle, storages } = await torchEntries(path);
    const resolve = ([, dtype, key]) => ({ bytes: storages.get(key), dtype });
    return pickleParser(globals, { persistentResolver: { resolve } }).parse(pickle);
  };
}

/** The same by jpickle, which gives up at the first storage. */
export function torchByJpickle() {
  const { loads } = require('jpickle');
  return async (path) => {
    const { pickle } = await torchEntries(path);
    try {
      return loads(pickle.toString('latin1'));
    } catch (error) {
      throw error instanceof Error ? error : new Error(String(error));
    }
  };
}

/** A dictionary of numpy arrays. */
export function numpyByPickleparser() {
  require('pickleparser');
  const globals = {
    'numpy._core.multiarray._reconstruct': () => new NumpyArray(),
    'numpy.dtype': (name) => new NumpyDtype(name),
    'numpy.ndarray': NumpyArray,
  };
  return async (path) => pickleParser(globals).parse(await readFile(path));
}
