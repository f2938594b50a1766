/** Reads the headers of a file's arrays: the only array of an `.npy`, the members of an `.npz`. */

import { OPEN_READS } from '../../errors/advice.js';
import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import type { StorageBytes } from '../../tensor/storage/computed.js';
import type { Storage } from '../../tensor/storage/storage.js';
import { InflatedEntries } from '../inflated-data.js';
import type { ForeignLimits } from '../limits.js';
import { inflateStart } from '../read-entry.js';
import { tensorData } from '../tensor-data.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { Change } from '../tensors/strided-fill.js';
import { checkLayout, type TensorLayout } from '../tensors/tensor-layout.js';
import { readEach } from '../tensors/tensor-problems.js';
import { changeOf } from '../value-changes.js';
import type { ArchiveEntry, ByteReader } from '../zip/archive.js';
import { MAX_DEFLATE_RATIO } from '../zip/limits.js';
import { readArchive } from '../zip/read-archive.js';
import { type Read, windowReader } from '../zip/window-reader.js';
import type { VoidDtype } from './item-types.js';
import {
  MAX_NPY_START_BYTE_LENGTH,
  type NpyHeader,
  npyHeaderEnd,
  parseNpyHeader,
} from './npy-header.js';

/** How arrays are read. */
interface ArrayOptions extends ForeignLimits {
  readonly voidDtype?: VoidDtype | undefined;
}

/**
 * Most entries of an `.npz` by default. Each has a header to parse, which takes several times as long as an entry of
 * a checkpoint: 40 000 take about half a second and 100 MB.
 */
const MAX_ENTRIES = 40_000;

/** An array with a checked header. */
interface CheckedArray {
  readonly name: string;
  readonly header: NpyHeader;
  readonly layout: TensorLayout;
  readonly change: Change | undefined;
}

/** The arrays of a file, when there is a storage of it. */
interface DescribedArrays {
  /** Those of an archive. */
  readonly entries: readonly ArchiveEntry[];
  /** Errors of unreadable members. */
  readonly problems: readonly FormatError[];
  /** The arrays as tensors of the file whose storage this is. */
  tensorsIn(file: Storage): ForeignTensor[];
}

/** Describes the array of an `.npy` file; its name is empty. */
export function describeNpy(
  start: Uint8Array,
  file: ByteReader,
  options: ArrayOptions,
  context: ErrorContext,
): DescribedArrays {
  const end = Math.min(npyHeaderEnd(start) ?? 0, MAX_NPY_START_BYTE_LENGTH, file.byteLength);
  const whole = end > start.length ? file.read(0, end) : start;
  const array = checkArray('', whole, file.byteLength, options, { ...context, tensor: '' });
  if (array instanceof FormatError) throw array;
  return {
    entries: [],
    problems: [],
    tensorsIn: (storage) => [
      tensorOf(array, { storage, begin: 0, byteLength: storage.byteLength }),
    ],
  };
}

/** The pickle in an archive that torch writes. */
const TORCH_PICKLE = /^[^/]+\/data\.pkl$/;

/**
 * Describes the members of an `.npz` archive; reads or inflates only their headers. Names are those of the entries
 * without `.npy`.
 */
export function describeNpz(
  file: ByteReader,
  options: ArrayOptions,
  context: ErrorContext,
): DescribedArrays {
  const { maxEntries = MAX_ENTRIES } = options;
  const { entries } = readArchive(file, context, { ...options, maxEntries });
  const starts = new ArrayStarts(windowReader(file), maxEntries);
  const arrays: { readonly array: CheckedArray; readonly entry: ArchiveEntry }[] = [];
  const readArray = (entry: ArchiveEntry): FormatError | undefined => {
    const name = entry.name.replace(/\.npy$/, '');
    // NumPy looks for an entry of the name first, then for one with .npy.
    if (name !== entry.name && entries.has(name)) {
      const message = `expected one array of the name ${quoteName(name)}, found two: with and without .npy`;
      throw new FormatError('SAFETENSORS_INVALID_ARCHIVE', message, context);
    }
    const arrayContext = { ...context, tensor: name };
    const start = starts.of(entry, arrayContext);
    const array = checkArray(name, start, entry.byteLength, options, arrayContext);
    if (array instanceof FormatError) return array;
    arrays.push({ array, entry });
    return undefined;
  };
  let problems: FormatError[];
  try {
    problems = readEach(entries.values(), entries.size, readArray);
  } catch (error) {
    const isOfTorch = [...entries.keys()].some((name) => TORCH_PICKLE.test(name));
    if (!isOfTorch || !(error instanceof FormatError)) throw error;
    const message = `expected NumPy arrays, found a PyTorch file, which ${OPEN_READS.text} by its path`;
    const advice = [OPEN_READS];
    throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { ...context, advice });
  }
  return {
    entries: [...entries.values()],
    problems,
    tensorsIn: (storage) => {
      const inflated = new InflatedEntries(storage, options);
      return arrays.map(({ array, entry }) => tensorOf(array, inflated.dataOf(entry)));
    },
  };
}

/** Headers of 118 bytes are usual, which may take more deflated ones; longer ones are read once more. */
const TYPICAL_NPY_START_BYTE_LENGTH = 192;

/** Where zeros follow, each byte more becomes a thousand, and the header takes less. */
const SHORT_START_BYTE_LENGTH = 112;
const MUCH_BYTE_LENGTH = 16 * 1024;

/** Most inflated bytes from a number of deflated ones. A stream that gave more would be padding to cost time. */
const MAX_INFLATED_START_BYTE_LENGTH = MAX_DEFLATE_RATIO * TYPICAL_NPY_START_BYTE_LENGTH;

/** Average budget per array for headers, and for inflating to find them; few arrays may take more. */
const AVERAGE_HEADER_BYTE_LENGTH = 256;
const AVERAGE_INFLATED_BYTE_LENGTH = 16 * 1024;
const FEW_ENTRIES = 4000;

/** The starts of an archive's arrays, up to the end of their headers. */
class ArrayStarts {
  readonly #read: Read;
  #headersLeft: number;
  #inflatedLeft: number;
  /** Arrays of an archive are often alike. */
  #canonicalByteLength = TYPICAL_NPY_START_BYTE_LENGTH;

  /** For so many arrays at most. */
  constructor(read: Read, maxEntries: number) {
    this.#read = read;
    const count = Math.max(maxEntries, FEW_ENTRIES);
    this.#headersLeft = count * AVERAGE_HEADER_BYTE_LENGTH;
    this.#inflatedLeft = count * AVERAGE_INFLATED_BYTE_LENGTH;
  }

  /** Returns the first bytes of an entry, with the whole header if the entry has it. */
  of(entry: ArchiveEntry, context: ErrorContext): Uint8Array {
    // Deflated bytes are hardly more than the inflated ones, unless padded on purpose.
    const length = Math.min(entry.end - entry.begin, MAX_NPY_START_BYTE_LENGTH + 1024);
    let taken = Math.min(this.#canonicalByteLength, length);
    for (;;) {
      const start = this.#first(taken, entry, context);
      const end = Math.min(
        npyHeaderEnd(start) ?? MAX_NPY_START_BYTE_LENGTH,
        MAX_NPY_START_BYTE_LENGTH,
      );
      const isWhole = start.length >= end;
      const isShort = taken === SHORT_START_BYTE_LENGTH ? isWhole : start.length > MUCH_BYTE_LENGTH;
      this.#canonicalByteLength = isShort ? SHORT_START_BYTE_LENGTH : TYPICAL_NPY_START_BYTE_LENGTH;
      if (isWhole || taken === length) {
        this.#headersLeft -= end;
        if (this.#headersLeft >= 0) return start;
        throw tooMuch('headers', AVERAGE_HEADER_BYTE_LENGTH, context);
      }
      const isNext = taken < TYPICAL_NPY_START_BYTE_LENGTH;
      taken = Math.min(isNext ? TYPICAL_NPY_START_BYTE_LENGTH : taken * 4, length);
    }
  }

  /** Names the bytes of the archive, for the error. */
  #first(length: number, entry: ArchiveEntry, context: ErrorContext): Uint8Array {
    // The archive has it within the file.
    const bytes = this.#read(entry.begin, entry.begin + length) as Uint8Array;
    if (entry.method === 'stored') return bytes;
    const inflated = inflateStart(bytes, MAX_INFLATED_START_BYTE_LENGTH, entry, context);
    this.#inflatedLeft -= inflated.length;
    if (this.#inflatedLeft >= 0) return inflated;
    throw tooMuch('deflated starts of arrays', AVERAGE_INFLATED_BYTE_LENGTH, context);
  }
}

/** The error concerns the whole archive, not one array. */
function tooMuch(what: string, average: number, { path }: ErrorContext): FormatError {
  const message = `expected ${what} of at most ${average} bytes on average for each of limits.maxEntries, found more`;
  return new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, { path });
}

/** Returns a FormatError for an array that safetensors cannot hold; throws others. */
function checkArray(
  name: string,
  start: Uint8Array,
  byteLength: number,
  options: ArrayOptions,
  context: ErrorContext,
): CheckedArray | FormatError {
  const header = parseNpyHeader(start, options.voidDtype, context);
  if (header instanceof FormatError) return header;
  const held = byteLength - header.dataBegin;
  const given = { ...header, offset: 0 };
  const layout = checkLayout(given, held, options, 'SAFETENSORS_INVALID_NUMPY', context);
  if (layout.byteLength !== held) {
    const message = `expected ${layout.byteLength} bytes after the header, found ${held}`;
    throw new FormatError('SAFETENSORS_INVALID_NUMPY', message, context);
  }
  const change = changeOf(header.dtype, header, context);
  return change instanceof FormatError ? change : { name, header, layout, change };
}

/** The array in the bytes of its file or entry, header included. */
function tensorOf(
  { name, header, layout, change }: CheckedArray,
  whole: StorageBytes,
): ForeignTensor {
  const begin = whole.begin + header.dataBegin;
  const held = { storage: whole.storage, begin, byteLength: layout.byteLength };
  return {
    name,
    dtype: header.dtype,
    shape: layout.shape,
    strides: layout.strides,
    // Arrays never share memory.
    storage: held,
    storageByteLength: layout.byteLength,
    byteOffset: 0,
    data: tensorData(held, layout, change),
  };
}
