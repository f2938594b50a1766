/** The same weights in other formats, by the reader of each that npm has. */
import { open, readFile } from 'node:fs/promises';
import { safeOpen } from 'safetensors-mmap';
import { known, type NamedTensor, type OpenTensors, readTensors } from './named-tensors.js';
import { numpyPickle, torchZip, torchZipByJpickle } from './pickle-readers.js';
import { importRival, requireRival } from './rivals.js';

function safetensors(): OpenTensors {
  return (path) => {
    const file = safeOpen(path);
    return { names: file.offsetKeys(), get: (name) => file.getTensor(name) };
  };
}

async function torch(): Promise<OpenTensors> {
  // Loaded here, so that other readers do not load it.
  const { openTorchCheckpoint } = await import('safetensors-mmap/convert');
  return (path) => {
    const file = openTorchCheckpoint(path);
    return { names: file.offsetKeys(), get: (name) => file.getTensor(name) };
  };
}

/** NumPy saves BF16 as two bytes without a name: the program has to know what they are. */
async function npz(): Promise<OpenTensors> {
  const { openNumpy } = await import('safetensors-mmap/convert');
  return (path) => {
    const file = openNumpy(path, { voidDtype: 'BF16' });
    return {
      names: file.offsetKeys(),
      get: (name) => {
        const { bytes, dtype } = file.getTensor(name);
        return { bytes, dtype: dtype === 'BF16' ? 'V2 (told BF16)' : dtype };
      },
    };
  };
}

/** The part of h5wasm that is used here. */
interface H5Wasm {
  readonly ready: Promise<unknown>;
  readonly File: new (path: string, mode: 'r') => H5File;
}
interface H5File {
  keys(): string[];
  get(name: string): H5Dataset | null;
}
interface H5Dataset {
  readonly dtype: string;
  readonly metadata: { readonly type: number };
  readonly value: ArrayBufferView;
}

/** HDF5's class of types that are bytes without a meaning. */
const OPAQUE = 5;

async function hdf5(): Promise<OpenTensors> {
  const { ready, File } = await importRival<H5Wasm>('h5wasm/dist/node/hdf5_hl.js');
  await ready;
  return (path) => {
    const file = new File(path, 'r');
    return {
      names: file.keys(),
      get: (name) => {
        const { dtype, metadata, value } = known(file.get(name) ?? undefined, name);
        return {
          bytes: new Uint8Array(value.buffer, value.byteOffset, value.byteLength),
          dtype: metadata.type === OPAQUE ? 'opaque' : dtype,
        };
      },
    };
  };
}

/** The part of @msgpack/msgpack that is used here. */
interface MessagePack {
  readonly ExtensionCodec: new () => {
    register(extension: { type: number; decode(data: Uint8Array): unknown }): void;
  };
  decode(data: Uint8Array, options?: object): unknown;
}

/** As Flax writes it: extension 1 holds shape, dtype and bytes. */
function messagePack(): OpenTensors {
  const { decode, ExtensionCodec } = requireRival<MessagePack>('@msgpack/msgpack');
  const extensionCodec = new ExtensionCodec();
  extensionCodec.register({
    type: 1,
    decode: (data): NamedTensor => {
      const [, dtype, bytes] = decode(data) as [number[], string, Uint8Array];
      return { bytes, dtype };
    },
  });
  return async (path) => {
    const tensors = decode(await readFile(path), { extensionCodec }) as Record<string, NamedTensor>;
    return readTensors(new Map(Object.entries(tensors)));
  };
}

/** The part of apache-arrow that is used here. */
interface Arrow {
  readonly RecordBatchReader: { from(file: object): Promise<ArrowReader> };
}
interface ArrowReader {
  readonly schema: { readonly metadata: ReadonlyMap<string, string> };
  open(): Promise<this>;
  readRecordBatch(index: number): Promise<ArrowBatch | null>;
}
interface ArrowBatch {
  get(row: number): { readonly dtype: string; readonly data: Uint8Array } | null;
}

/** A record batch for each tensor; the schema lists the names. */
function arrow(): OpenTensors {
  const { RecordBatchReader } = requireRival<Arrow>('apache-arrow');
  return async (path) => {
    const reader = await (await RecordBatchReader.from(await open(path))).open();
    const names: string[] = JSON.parse(known(reader.schema.metadata.get('names'), 'list of names'));
    const places = new Map(names.map((name, index) => [name, index]));
    return {
      names,
      get: async (name) => {
        const batch = await reader.readRecordBatch(known(places.get(name), name));
        const { data, dtype } = known(batch?.get(0) ?? undefined, name);
        return { bytes: data, dtype: `bytes (${dtype})` };
      },
    };
  };
}

/** The part of onnx-proto that is used here. */
interface OnnxProto {
  readonly onnx: {
    readonly ModelProto: { decode(data: Uint8Array): { readonly graph: OnnxGraph } };
    readonly TensorProto: { readonly DataType: Readonly<Record<number, string>> };
  };
}
interface OnnxGraph {
  readonly initializer: readonly { name: string; dataType: number; rawData: Uint8Array }[];
}

function onnx(): OpenTensors {
  const { ModelProto, TensorProto } = requireRival<OnnxProto>('onnx-proto').onnx;
  return async (path) => {
    const { graph } = ModelProto.decode(await readFile(path));
    return readTensors(
      new Map(
        graph.initializer.map(({ name, dataType, rawData }) => [
          name,
          { bytes: rawData, dtype: TensorProto.DataType[dataType] ?? `type ${dataType}` },
        ]),
      ),
    );
  };
}

/** By the methods of the drivers: each loads its package. */
export const FORMAT_READERS: Readonly<Record<string, () => OpenTensors | Promise<OpenTensors>>> = {
  safetensors,
  hdf5,
  messagePack,
  arrow,
  onnx,
  torch,
  npz,
  'torch-pickleparser': torchZip,
  'torch-jpickle': torchZipByJpickle,
  'numpy-pickleparser': numpyPickle,
};
