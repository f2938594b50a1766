/** Reads the header of a GGUF file: metadata, and the types, shapes and places of its tensors. */

import { type ErrorContext, FormatError, quoteName } from '../../../errors/errors.js';
import type { Work } from '../../../work/work.js';
import { HeaderBytes, type HeaderFile } from './header-bytes.js';
import { type TensorType, tensorTypeOf } from './tensor-types.js';
import { GgufValues, skipValue } from './values.js';

/** A tensor of a GGUF file. */
export interface GgufTensor {
  readonly name: string;
  readonly type: TensorType;
  /** Dimensions as the bytes are listed, outermost first: the last one of blocks counts bytes. */
  readonly shape: readonly number[];
  /** Position of its first byte in the file. */
  readonly begin: number;
  readonly byteLength: number;
}

/** A header. */
export interface GgufHeader {
  readonly version: number;
  readonly isBigEndian: boolean;
  readonly values: GgufValues;
  /** In the order of their bytes. */
  readonly tensors: readonly GgufTensor[];
}

/** Options of {@link readGgufHeader}. */
export interface GgufHeaderOptions {
  /** Largest header; 100,000,000 bytes by default. */
  readonly maxHeaderByteLength?: number | undefined;
}

const DEFAULT_MAX_HEADER_BYTE_LENGTH = 100_000_000;

const MAGIC = 'GGUF';
const LAST_VERSION = 3;

/** Real files have some dozens of keys, and up to some thousands of tensors. */
const MAX_KEYS = 2 ** 16;
const MAX_TENSORS = 2 ** 18;

const ALIGNMENT_KEY = 'general.alignment';
const DEFAULT_ALIGNMENT = 32;
/** As in ggml. */
const MAX_ALIGNMENT = 2 ** 20;
const MAX_RANK = 4;
/** ggml reads names of 63 bytes; tools for image models write up to 127. */
const MAX_TENSOR_NAME_LENGTH = 127;

/**
 * Reads and checks a header. As ggml does, it requires the tensors to be in order, aligned and without gaps. A count is
 * compared with the remaining bytes of the file before anything is allocated for it.
 *
 * @throws FormatError `SAFETENSORS_INVALID_GGUF`, `SAFETENSORS_INCOMPLETE_FILE`, `SAFETENSORS_HEADER_TOO_LARGE`,
 *   `SAFETENSORS_FOREIGN_LIMIT`, `SAFETENSORS_UNSUPPORTED_TENSOR`; errors of `file.read`
 */
export function* readGgufHeader(
  file: HeaderFile,
  { maxHeaderByteLength = DEFAULT_MAX_HEADER_BYTE_LENGTH }: GgufHeaderOptions,
  context: ErrorContext,
): Work<GgufHeader> {
  const header = new HeaderBytes(file, maxHeaderByteLength, context);
  const version = yield* readVersion(header);
  yield* header.fetch(2 * header.lengthWidth);
  const tensorCount = header.takeLength();
  const keyCount = header.takeLength();
  const { lengthWidth } = header;
  header.requireRest(keyCount * (lengthWidth + 5), `the list of ${keyCount} metadata keys`);
  requireCount(keyCount, MAX_KEYS, 'metadata keys', context);
  const places = new Map<string, { type: number; at: number }>();
  for (let i = 0; i < keyCount; i++) {
    const key = yield* header.takeName('a metadata key');
    if (places.has(key)) throw header.invalid(`duplicate metadata key ${quoteName(key)}`);
    places.set(key, yield* skipValue(header, key));
  }
  // A name, the number of dimensions, the type, the offset.
  header.requireRest(tensorCount * (lengthWidth + 16), `the list of ${tensorCount} tensors`);
  requireCount(tensorCount, MAX_TENSORS, 'tensors', context);
  const infos: TensorPlace[] = [];
  const names = new Set<string>();
  for (let i = 0; i < tensorCount; i++) {
    const info = yield* readTensor(header);
    if (names.has(info.name)) throw header.invalid('duplicate tensor name', info.name);
    names.add(info.name);
    infos.push(info);
  }
  const values = new GgufValues(header, places);
  const tensors = placedTensors(header, infos, alignmentOf(header, values));
  return { version, isBigEndian: header.isBigEndian, values, tensors };
}

function* readVersion(header: HeaderBytes): Work<number> {
  yield* header.fetch(8);
  const magic = String.fromCharCode(...header.bytes.subarray(0, 4));
  if (magic !== MAGIC) {
    const message = `expected a GGUF file, found ${JSON.stringify(magic)} as its first bytes`;
    throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, header.context);
  }
  header.at = 4;
  // Read in the wrong order, the low half of a small number is zero.
  header.isBigEndian = (header.view.getUint32(4, true) & 0xffff) === 0;
  const version = header.takeUint32();
  if (version < 1 || version > LAST_VERSION) {
    throw header.invalid(`unsupported GGUF version ${version}: versions 1 to 3 are read`);
  }
  header.lengthWidth = version === 1 ? 4 : 8;
  return version;
}

function requireCount(count: number, most: number, what: string, context: ErrorContext): void {
  if (count <= most) return;
  const message = `expected at most ${most} ${what}, found ${count}`;
  throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
}

/** A tensor before the place of the data is known. */
interface TensorPlace extends Omit<GgufTensor, 'begin'> {
  readonly offset: number;
}

function* readTensor(header: HeaderBytes): Work<TensorPlace> {
  const name = yield* header.takeName('a tensor name');
  const context = { ...header.context, tensor: name };
  if (new TextEncoder().encode(name).length > MAX_TENSOR_NAME_LENGTH) {
    throw header.invalid(`the tensor name is longer than ${MAX_TENSOR_NAME_LENGTH} bytes`, name);
  }
  yield* header.fetch(4);
  const rank = header.takeUint32();
  if (rank > MAX_RANK) {
    throw header.invalid(`expected at most ${MAX_RANK} dimensions, found ${rank}`, name);
  }
  yield* header.fetch(rank * header.lengthWidth + 12);
  // The file has the innermost dimension first.
  const shape = Array.from({ length: rank }, () => header.takeLength()).reverse();
  const type = tensorTypeOf(header.takeUint32(), context);
  const count = shape.reduce((product, size) => product * size, 1);
  const isSafe = shape.every(Number.isSafeInteger) && Number.isSafeInteger(count);
  const byteLength = (count / type.length) * type.byteLength;
  if (!isSafe || byteLength > Number.MAX_SAFE_INTEGER) {
    throw header.invalid(`the shape [${shape.join(', ')}] has too many values`, name);
  }
  const columns = shape.at(-1) ?? 1;
  if (columns % type.length !== 0) {
    const message = `expected rows of a multiple of ${type.length} values for ${type.name}, found ${columns}`;
    throw header.invalid(message, name);
  }
  const offset = header.takeUint64();
  const stored =
    type.block === null
      ? shape
      : [...shape.slice(0, -1), (columns / type.length) * type.byteLength];
  return { name, type, shape: stored, byteLength, offset };
}

function alignmentOf(header: HeaderBytes, values: GgufValues): number {
  if (!values.has(ALIGNMENT_KEY)) return DEFAULT_ALIGNMENT;
  const alignment = values.number(ALIGNMENT_KEY) ?? 0;
  const isPower = Number.isInteger(Math.log2(alignment));
  if (isPower && alignment >= 1 && alignment <= MAX_ALIGNMENT) return alignment;
  throw header.invalid(`${ALIGNMENT_KEY} must be a power of two up to ${MAX_ALIGNMENT}`);
}

function placedTensors(
  header: HeaderBytes,
  infos: readonly TensorPlace[],
  alignment: number,
): GgufTensor[] {
  const padded = (length: number): number => Math.ceil(length / alignment) * alignment;
  const dataStart = padded(header.at);
  const end = header.at + header.rest;
  let next = 0;
  return infos.map(({ offset, ...tensor }) => {
    const { name, byteLength } = tensor;
    if (offset !== next) throw header.invalid(offsetMessage(offset, next, alignment), name);
    const begin = dataStart + offset;
    if (begin + byteLength > end) {
      const message = `incomplete GGUF file: the tensor ends at byte ${begin + byteLength}, the file at byte ${end}`;
      throw new FormatError('SAFETENSORS_INCOMPLETE_FILE', message, {
        ...header.context,
        tensor: name,
      });
    }
    next += padded(byteLength);
    return { ...tensor, begin };
  });
}

function offsetMessage(offset: number, next: number, alignment: number): string {
  if (offset % alignment !== 0) return `the offset ${offset} is not a multiple of ${alignment}`;
  const fault = offset < next ? 'overlaps another tensor' : 'leaves a gap';
  return `the offset ${offset} ${fault}: expected ${next}`;
}
