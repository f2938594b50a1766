/** The same tensors as the files of every format. */
import { type Entry, fileBytes } from '../../support/make-file.js';
import { writeArchive } from '../../write/convert/archives.js';

/** Files by their names in a folder. */
export type Files = ReadonlyMap<string, Uint8Array>;

/** A tensor with its bytes. */
export type Stored = Entry & { readonly bytes: Uint8Array };

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** The length of `codes` is odd: tensors after it begin at addresses that their dtype is not aligned to. */
export const TENSORS: readonly Stored[] = [
  {
    name: 'embed.weight',
    dtype: 'F32',
    shape: [4, 6],
    bytes: bytesOf(Float32Array.from({ length: 24 }, (_, i) => i / 2)),
  },
  { name: 'codes', dtype: 'F8_E4M3', shape: [3], bytes: Uint8Array.of(0x38, 0xb8, 0x7e) },
  {
    name: 'norm.bias',
    dtype: 'BF16',
    shape: [4],
    bytes: bytesOf(Uint16Array.of(0x3f80, 0xbf80, 0x4049, 0x7f80)),
  },
  { name: 'ids', dtype: 'I64', shape: [2, 2], bytes: bytesOf(BigInt64Array.of(-1n, 2n, 3n, 4n)) },
  { name: 'mask', dtype: 'BOOL', shape: [2], bytes: Uint8Array.of(1, 0) },
  { name: 'scale', dtype: 'F32', shape: [], bytes: bytesOf(Float32Array.of(0.25)) },
  { name: 'none', dtype: 'F32', shape: [0, 2], bytes: new Uint8Array() },
];

/** An alias of `embed.weight`, and text of the model's own. */
export const METADATA: Readonly<Record<string, string>> = {
  'head.weight': 'embed.weight',
  author: 'nobody',
};

export const FILE = 'model.safetensors';
export const INDEX = 'model.safetensors.index.json';
export const SHARDS = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];

/** A small file next to the weights. */
const CONFIG = ['config.json', Buffer.from('{"model_type":"example"}')] as const;

/** The tensors of both shards. */
const halves = (tensors: readonly Stored[]): readonly (readonly Stored[])[] => [
  tensors.slice(0, 3),
  tensors.slice(3),
];

const indexOf = (shards: readonly string[], metadata: object | undefined): Uint8Array => {
  const pairs = halves(TENSORS).flatMap((half, i) => half.map(({ name }) => [name, shards[i]]));
  return Buffer.from(JSON.stringify({ metadata, weight_map: Object.fromEntries(pairs) }));
};

/** A single safetensors file; without metadata as other formats have none. */
export function singleFile(tensors = TENSORS, hasMetadata = true): Files {
  return new Map([[FILE, fileBytes(tensors, hasMetadata ? { metadata: METADATA } : {})], CONFIG]);
}

/** Shards 1 to 2 of 2, without metadata. */
export function shardFiles(): Files {
  const shards = halves(TENSORS).map((half, i) => [SHARDS[i] as string, fileBytes(half)] as const);
  return new Map([...shards, CONFIG]);
}

/** The same shards with their index. */
export function indexFiles(hasMetadata = true): Files {
  const index = indexOf(SHARDS, hasMetadata ? METADATA : undefined);
  return new Map([...shardFiles(), [INDEX, index]]);
}

/** Names of tensors that both ranks have a piece of. */
export const CUT_NAMES: readonly string[] = (halves(TENSORS)[0] ?? []).map(({ name }) => name);

/** The files of two ranks: tensors of the first half are cut after their first row, the others are those of rank 1. */
export function rankFiles(): Files {
  const [cut = [], whole = []] = halves(TENSORS);
  const rowsOf = (tensor: Stored, begin: number, end: number): Stored => {
    const [rows = 1, ...rest] = tensor.shape;
    const rowBytes = tensor.bytes.length / rows;
    const bytes = tensor.bytes.subarray(begin * rowBytes, end * rowBytes);
    return { ...tensor, shape: [end - begin, ...rest], bytes };
  };
  const fileOf = (rank: number, tensors: readonly Stored[]): readonly [string, Uint8Array] => {
    const info = tensors.map(({ name, shape }) => {
      const begins = shape.map((_, axis) => (axis === 0 && CUT_NAMES.includes(name) ? rank : 0));
      return [name, { saved_offsets: begins }];
    });
    const metadata = { DCP_SHARDING_INFO: JSON.stringify(Object.fromEntries(info)) };
    const name = `shard-0000${rank + 1}-model-00001-of-00001.safetensors`;
    return [name, fileBytes(tensors, { metadata })];
  };
  const firstRows = cut.map((tensor) => rowsOf(tensor, 0, 1));
  const otherRows = cut.map((tensor) => rowsOf(tensor, 1, tensor.shape[0] as number));
  return new Map([fileOf(0, firstRows), fileOf(1, [...otherRows, ...whole]), CONFIG]);
}

const TORCH_DTYPES: Readonly<Record<string, string>> = {
  F32: 'float32',
  F8_E4M3: 'float8_e4m3fn',
  BF16: 'bfloat16',
  I64: 'int64',
  BOOL: 'bool',
};

const text = (value: string): string => `X${String.fromCharCode(value.length)}\0\0\0${value}`;
const numbers = (values: readonly number[]): string =>
  `(${values.map((value) => `K${String.fromCharCode(value)}`).join('')}t`;

/** A PyTorch checkpoint: each tensor has a separate storage. */
export function torchBytes(tensors: readonly Stored[]): Uint8Array {
  const entries = tensors.map(({ name, dtype, shape, bytes }, i) => {
    const strides = shape.map((_, d) => shape.slice(d + 1).reduce((a, b) => a * b, 1));
    const storage = `(${text('storage')}ctorch.storage\nUntypedStorage\n${text(`${i}`)}${text('cpu')}K${String.fromCharCode(bytes.length)}tQ`;
    const hooks = 'ccollections\nOrderedDict\n)R';
    const place = `${storage}K\0${numbers(shape)}${numbers(strides)}`;
    return `${text(name)}ctorch._utils\n_rebuild_tensor_v3\n(${place}\x89${hooks}ctorch\n${TORCH_DTYPES[dtype]}\ntR`;
  });
  const pickle = Buffer.from(`\x80\x02}(${entries.join('')}u.`, 'latin1');
  return writeArchive([
    { name: 'archive/data.pkl', data: pickle },
    { name: 'archive/version', data: Buffer.from('3\n') },
    ...tensors.map(({ bytes }, i) => ({ name: `archive/data/${i}`, data: Buffer.from(bytes) })),
  ]);
}

export const TORCH_FILE = 'model.pt';
export const TORCH_INDEX = 'pytorch_model.bin.index.json';
export const TORCH_SHARDS = [
  'pytorch_model-00001-of-00002.bin',
  'pytorch_model-00002-of-00002.bin',
];

export function torchFile(): Files {
  return new Map([[TORCH_FILE, torchBytes(TENSORS)], CONFIG]);
}

export function torchIndex(): Files {
  const shards = halves(TENSORS).map(
    (half, i) => [TORCH_SHARDS[i] as string, torchBytes(half)] as const,
  );
  return new Map([...shards, [TORCH_INDEX, indexOf(TORCH_SHARDS, undefined)], CONFIG]);
}

/** `V2` is BF16; NumPy has no type for float8. */
const NUMPY_TYPES: Readonly<Record<string, string>> = {
  F32: '<f4',
  BF16: '|V2',
  I64: '<i8',
  BOOL: '|b1',
};

/** The tensors that an archive of arrays can hold. */
export const ARRAYS: readonly Stored[] = TENSORS.filter(({ dtype }) => dtype in NUMPY_TYPES);

export const NUMPY_FILE = 'arrays.npz';

export function numpyArchive(isDeflated: boolean): Files {
  const arrays = ARRAYS.map(({ name, dtype, shape, bytes }) => {
    const sizes = shape.map((size) => `${size},`).join(' ');
    const literal = `{'descr': '${NUMPY_TYPES[dtype]}', 'fortran_order': False, 'shape': (${sizes}), }`;
    const head = Buffer.from(`\x93NUMPY\x01\0\x76\0${literal.padEnd(117)}\n`, 'latin1');
    return { name: `${name}.npy`, data: Buffer.concat([head, bytes]), isDeflated };
  });
  return new Map([[NUMPY_FILE, writeArchive(arrays)], CONFIG]);
}
