/** Lists a GGUF file (llama.cpp) by its header, as data. Its tensors are quantized in ways of their own. */

import { Buffer } from 'node:buffer';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { basename } from 'node:path';
import { ForeignFormatError } from '../../index.js';
import { countByDtype, elementsOf, type ListedTensor, type Listing } from './listing.js';

/** Above what the vocabularies of models need: a damaged length must not take all memory. */
const MAX_HEADER_BYTE_LENGTH = 256 * 2 ** 20;
const MAX_STRING_BYTE_LENGTH = 16 * 2 ** 20;
/** Of tensors, and of values: far above what models have. Each takes memory, and few bytes of the file. */
const MAX_COUNT = 2 ** 20;
/** As in llama.cpp's own reader. */
const MAX_DIMENSIONS = 8;
const MAX_ARRAY_DEPTH = 4;
const DEFAULT_ALIGNMENT = 32;
const READ_BYTE_LENGTH = 2 ** 20;

/** Versions with lengths of 64 bits. */
const VERSIONS: readonly number[] = [2, 3];

/**
 * Names of types by number; elements and bytes of a block. As in `GGMLQuantizationType` and `GGML_QUANT_SIZES` of
 * llama.cpp's Python package, gguf 0.19.0, but Q8_1 as `block_q8_1` of its `ggml-common.h`: the package still has
 * the 40 bytes of an earlier one. The numbers between them are of types that were given up.
 */
const TENSOR_TYPES: Readonly<Record<number, readonly [string, elements: number, bytes: number]>> = {
  0: ['F32', 1, 4],
  1: ['F16', 1, 2],
  2: ['Q4_0', 32, 18],
  3: ['Q4_1', 32, 20],
  6: ['Q5_0', 32, 22],
  7: ['Q5_1', 32, 24],
  8: ['Q8_0', 32, 34],
  9: ['Q8_1', 32, 36],
  10: ['Q2_K', 256, 84],
  11: ['Q3_K', 256, 110],
  12: ['Q4_K', 256, 144],
  13: ['Q5_K', 256, 176],
  14: ['Q6_K', 256, 210],
  15: ['Q8_K', 256, 292],
  16: ['IQ2_XXS', 256, 66],
  17: ['IQ2_XS', 256, 74],
  18: ['IQ3_XXS', 256, 98],
  19: ['IQ1_S', 256, 50],
  20: ['IQ4_NL', 32, 18],
  21: ['IQ3_S', 256, 110],
  22: ['IQ2_S', 256, 82],
  23: ['IQ4_XS', 256, 136],
  24: ['I8', 1, 1],
  25: ['I16', 1, 2],
  26: ['I32', 1, 4],
  27: ['I64', 1, 8],
  28: ['F64', 1, 8],
  29: ['IQ1_M', 256, 56],
  30: ['BF16', 1, 2],
  34: ['TQ1_0', 256, 54],
  35: ['TQ2_0', 256, 66],
  39: ['MXFP4', 32, 17],
  40: ['NVFP4', 64, 36],
  41: ['Q1_0', 128, 18],
};

const STRING = 8;
const ARRAY = 9;

/** Numbers of the metadata by type: their bytes, and how they are read. */
const NUMBERS: Readonly<
  Record<number, readonly [byteLength: number, read: (bytes: Buffer) => unknown]>
> = {
  0: [1, (bytes) => bytes.readUInt8()],
  1: [1, (bytes) => bytes.readInt8()],
  2: [2, (bytes) => bytes.readUInt16LE()],
  3: [2, (bytes) => bytes.readInt16LE()],
  4: [4, (bytes) => bytes.readUInt32LE()],
  5: [4, (bytes) => bytes.readInt32LE()],
  6: [4, (bytes) => bytes.readFloatLE()],
  7: [1, (bytes) => bytes.readUInt8() !== 0],
  10: [8, (bytes) => bytes.readBigUInt64LE()],
  11: [8, (bytes) => bytes.readBigInt64LE()],
  12: [8, (bytes) => bytes.readDoubleLE()],
};

/** Reads the header from the start of the file to its end, in pieces. */
class HeaderReader {
  readonly #fd: number;
  readonly #path: string;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  /** Bytes of the file before `#bytes`. */
  #before = 0;

  constructor(fd: number, path: string) {
    this.#fd = fd;
    this.#path = path;
  }

  fail(message: string): never {
    throw new ForeignFormatError('SAFETENSORS_FOREIGN_FORMAT', `GGUF: ${message}`, {
      path: this.#path,
    });
  }

  /** Bytes of the file that were taken. */
  get position(): number {
    return this.#before + this.#at;
  }

  take(byteLength: number): Buffer {
    while (this.#bytes.length - this.#at < byteLength) this.#readMore(byteLength);
    this.#at += byteLength;
    return this.#bytes.subarray(this.#at - byteLength, this.#at);
  }

  #readMore(wanted: number): void {
    const rest = this.#bytes.subarray(this.#at);
    this.#before += this.#at;
    this.#at = 0;
    if (this.#before + wanted > MAX_HEADER_BYTE_LENGTH) {
      this.fail(`expected a header of at most ${MAX_HEADER_BYTE_LENGTH} bytes, found a longer one`);
    }
    const more = Buffer.alloc(Math.max(READ_BYTE_LENGTH, wanted - rest.length));
    const read = readSync(this.#fd, more, 0, more.length, this.#before + rest.length);
    if (read === 0) this.fail('expected the rest of the header, found the end of the file');
    this.#bytes = Buffer.concat([rest, more.subarray(0, read)]);
  }

  uint32(): number {
    return this.take(4).readUInt32LE();
  }

  /** A number of 64 bits that is one in JavaScript, too. */
  uint64(): number {
    const value = this.take(8).readBigUInt64LE();
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) {
      this.fail(`expected a length or a place, found ${value}`);
    }
    return Number(value);
  }

  /** How many of something follow. */
  count(): number {
    const count = this.uint64();
    if (count > MAX_COUNT) this.fail(`expected a count of at most ${MAX_COUNT}, found ${count}`);
    return count;
  }

  string(): string {
    const byteLength = this.uint64();
    if (byteLength > MAX_STRING_BYTE_LENGTH) {
      this.fail(`expected a text of at most ${MAX_STRING_BYTE_LENGTH} bytes, found ${byteLength}`);
    }
    return this.take(byteLength).toString('utf8');
  }

  /** A value of the metadata as text; of an array how many items it has. */
  value(type: number, depth = 0): string {
    if (type === STRING) return this.string();
    if (type !== ARRAY) return String(this.#number(type));
    if (depth === MAX_ARRAY_DEPTH) this.fail(`expected arrays less than ${depth} deep`);
    const itemType = this.uint32();
    const length = this.uint64();
    const [itemByteLength] = NUMBERS[itemType] ?? [];
    if (itemByteLength !== undefined) this.#skip(length * itemByteLength);
    else for (let i = 0; i < length; i++) this.value(itemType, depth + 1);
    return `[${length} items]`;
  }

  #skip(byteLength: number): void {
    for (let left = byteLength; left > 0; left -= READ_BYTE_LENGTH) {
      this.take(Math.min(left, READ_BYTE_LENGTH));
    }
  }

  #number(type: number): unknown {
    const [byteLength, read] =
      NUMBERS[type] ?? this.fail(`expected a type of values, found ${type}`);
    return read(this.take(byteLength));
  }
}

/** Lists the file by its header. */
export function listGguf(path: string): Listing {
  const fd = openSync(path, 'r');
  try {
    return listHeader(new HeaderReader(fd, path), path, fstatSync(fd).size);
  } finally {
    closeSync(fd);
  }
}

function listHeader(reader: HeaderReader, path: string, fileByteLength: number): Listing {
  const name = basename(path);
  reader.take('GGUF'.length);
  const version = reader.uint32();
  if (!VERSIONS.includes(version)) reader.fail(`expected version 2 or 3, found ${version}`);
  const tensorCount = reader.count();
  const valueCount = reader.count();
  const metadata = new Map<string, string>();
  for (let i = 0; i < valueCount; i++) metadata.set(reader.string(), reader.value(reader.uint32()));
  const placed: ListedTensor[] = [];
  for (let i = 0; i < tensorCount; i++) placed.push(readTensor(reader, name));
  const alignment = Number(metadata.get('general.alignment') ?? DEFAULT_ALIGNMENT);
  if (!(alignment >= 1)) reader.fail(`expected an alignment in bytes, found ${alignment}`);
  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  const tensors = placed.map((tensor) => ({
    ...tensor,
    offset: dataStart + (tensor.offset as number),
  }));
  tensors.sort((a, b) => a.offset - b.offset);
  const dtypes = countByDtype(tensors);
  const parameters = [...dtypes.values()].reduce((sum, counts) => sum + counts.parameters, 0);
  return {
    ...{ format: 'gguf', path, tensors, dtypes, parameters, metadata },
    files: [{ name, byteLength: fileByteLength, tensors: tensors.length, parameters }],
    ...{ totalParameters: null, quantization: null, leftOut: [], passedOver: [] },
  };
}

/** A tensor, and its place from the end of the header. */
function readTensor(reader: HeaderReader, file: string): ListedTensor {
  const name = reader.string();
  const rank = reader.uint32();
  if (rank > MAX_DIMENSIONS)
    reader.fail(`expected at most ${MAX_DIMENSIONS} dimensions, found ${rank}`);
  // The innermost dimension comes first in the file.
  const shape = Array.from({ length: rank }, () => reader.uint64()).reverse();
  if (!Number.isSafeInteger(elementsOf(shape))) {
    reader.fail(`expected fewer elements, found the dimensions ${shape.join(', ')}`);
  }
  const number = reader.uint32();
  const type = TENSOR_TYPES[number];
  // Of a type that we do not know the bytes are not counted.
  const [dtype, elements, bytes] = type ?? [`type ${number}`, 1, 0];
  if ((shape.at(-1) ?? 1) % elements !== 0) {
    reader.fail(
      `expected rows of whole blocks of ${elements}, found the dimensions ${shape.join(', ')}`,
    );
  }
  const byteLength = (elementsOf(shape) / elements) * bytes;
  return { name, dtype, shape, byteLength, offset: reader.uint64(), file };
}
