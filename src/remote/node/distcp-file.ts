/** The pieces of a remote `.distcp` file: fetches their descriptions, from both ends of each piece. */

import { type ErrorContext, FormatError, type SafetensorsError } from '../../errors/errors.js';
import { allocate } from '../../errors/out-of-memory.js';
import {
  type ReadPiece,
  readPiece,
  requirePlaces,
  type StoredPiece,
} from '../../foreign/distributed/distcp-pieces.js';
import { DEFAULT_PICKLE_LIMITS } from '../../foreign/pickle/limits.js';
import { MemoryBudget } from '../../foreign/pickle/memory-budget.js';
import { PlacedContents, type PlacedTensor } from '../../foreign/tensors/placed-contents.js';
import { spendTensors } from '../../foreign/torch/tensors.js';
import type { ByteReader } from '../../foreign/zip/archive.js';
import { MemoryStorage } from '../../tensor/storage/memory.js';
import { withScope } from '../../work/scope.js';
import { DEFAULT_MAX_GAP_BYTE_LENGTH } from '../fetch-plan.js';
import { type FetchQueue, LazyMemory } from '../fetch-queue.js';
import { FIRST_BYTE_LENGTH } from '../read-header.js';
import type { RemoteFile } from '../remote-file.js';
import type { PiecesFile } from '../remote-shards.js';

/** Both ends of a piece: torch writes its pickle first, and the directory last. A short piece is fetched whole. */
const END_BYTE_LENGTH = 4096;

/** Pieces whose ends are in memory at once, of each file. */
const PIECES_AT_ONCE = 512;

/** Most further requests for the description of one piece. */
const MAX_MORE_REQUESTS = 8;

const READING = { pickle: DEFAULT_PICKLE_LIMITS, archive: {}, unknownGlobals: 'refuse' } as const;

/** A file, its pieces, and the errors of tensors by name. */
export interface DescribedFile extends PiecesFile {
  readonly problems: ReadonlyMap<string, SafetensorsError>;
}

/**
 * Fetches the description of the pieces of a `.distcp` file, and none of their data.
 *
 * @throws As `openDistributed`; the errors of the requests
 */
export async function describeFile(
  name: string,
  file: RemoteFile,
  pieces: readonly StoredPiece[],
  queue: FetchQueue,
  signal: AbortSignal,
): Promise<DescribedFile> {
  const context = { path: file.path };
  const start = await file.readStart(FIRST_BYTE_LENGTH, signal);
  const { fileByteLength } = start;
  requirePlaces(pieces, fileByteLength, context);
  const memory = new MemoryBudget(READING.pickle, context);
  spendTensors(pieces.length, memory);
  const placed: PlacedTensor[] = [];
  const problems = new Map<string, SafetensorsError>();
  const options = { reading: READING, layout: {} };
  const sorted = pieces.toSorted((a, b) => a.begin - b.begin);
  for (let first = 0; first < sorted.length; first += PIECES_AT_ONCE) {
    const some = sorted.slice(first, first + PIECES_AT_ONCE);
    const ends = some.map((piece) => endsOf(piece, file, start.bytes.length));
    const requested = ends.flat();
    if (requested.length > 0) {
      const fetching = { onProgress: undefined, maxGapByteLength: DEFAULT_MAX_GAP_BYTE_LENGTH };
      await withScope([signal], (scope) => queue.fetch(requested, fetching, scope));
    }
    for (const [i, piece] of some.entries()) {
      const chunks = (ends[i] as PieceEnd[]).map(({ begin, memory: { bytes } }) => ({
        begin,
        bytes,
      }));
      const known = new KnownBytes(fileByteLength, [{ begin: 0, bytes: start.bytes }, ...chunks]);
      const read = await describe(piece, known, file, signal, (reader) =>
        readPiece(piece, reader, options, memory, context),
      );
      const problem = read.problem ?? place(read, placed, piece, context);
      if (problem !== undefined) problems.set(piece.tensor, problem);
    }
  }
  placed.sort((a, b) => a.begin - b.begin);
  return { name, file, problems, contents: new PlacedContents(placed, fileByteLength, null) };
}

/** Adds the place of a piece's bytes. Returns the error for a piece whose bytes are not a range of the file. */
function place(
  { tensorsIn }: ReadPiece,
  placed: PlacedTensor[],
  { tensor }: StoredPiece,
  context: ErrorContext,
): FormatError | undefined {
  const whole = new MemoryStorage(new Uint8Array(), Number.MAX_SAFE_INTEGER);
  for (const { name, dtype, shape, data } of tensorsIn(whole)) {
    if (data.storage !== whole) {
      const message =
        'strided, compressed and big-endian pieces are read from a path only: download the folder first';
      return new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, { ...context, tensor });
    }
    placed.push({ name, dtype, shape, begin: data.begin, byteLength: data.byteLength });
  }
  return undefined;
}

/** A range that is fetched into its own memory. */
interface PieceEnd {
  readonly begin: number;
  readonly file: RemoteFile;
  readonly copy: {
    readonly byteLength: number;
    readonly byteOffset: number;
    readonly runByteLength: number;
    readonly loops: readonly [];
  };
  readonly memory: LazyMemory;
}

/** The ends of a piece that are not among the first bytes of the file. */
function endsOf(
  { begin, byteLength, tensor }: StoredPiece,
  file: RemoteFile,
  present: number,
): PieceEnd[] {
  const end = begin + byteLength;
  const isShort = byteLength <= 2 * END_BYTE_LENGTH;
  const ranges = isShort
    ? [[begin, end] as const]
    : ([
        [begin, begin + END_BYTE_LENGTH],
        [end - END_BYTE_LENGTH, end],
      ] as const);
  return ranges
    .filter(([from, to]) => from < to && to > present)
    .map(([from, to]) => {
      const length = to - from;
      return {
        begin: from,
        file,
        copy: { byteLength: length, byteOffset: from, runByteLength: length, loops: [] },
        memory: new LazyMemory(tensor, length, file.path),
      };
    });
}

/** Reads the description of a piece, and fetches what that needs in addition to the ends of the piece. */
async function describe(
  { tensor }: StoredPiece,
  known: KnownBytes,
  file: RemoteFile,
  signal: AbortSignal,
  read: (reader: ByteReader) => ReadPiece,
): Promise<ReadPiece> {
  for (let more = 0; ; more++) {
    try {
      return read(known);
    } catch (error) {
      if (!(error instanceof MissingBytes)) throw error;
      const { begin, end } = error;
      const context = { path: file.path, tensor };
      if (more === MAX_MORE_REQUESTS || end - begin > READING.pickle.maxPickleByteLength) {
        const message =
          'the description of a piece takes too many requests: download the folder first';
        throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
      }
      const bytes = allocate(Uint8Array, end - begin, context);
      await file.readInto(bytes, begin, { signal });
      known.add(begin, bytes);
    }
  }
}

/** Bytes that a reader needs and that have not been fetched. */
class MissingBytes extends Error {
  readonly begin: number;
  readonly end: number;

  constructor(begin: number, end: number) {
    super(`bytes ${begin} to ${end} have not been fetched`);
    this.begin = begin;
    this.end = end;
  }
}

/** The fetched ranges of a file. Reading others throws {@link MissingBytes}. */
class KnownBytes implements ByteReader {
  readonly byteLength: number;
  readonly #chunks: { readonly begin: number; readonly bytes: Uint8Array }[];

  constructor(
    byteLength: number,
    chunks: readonly { readonly begin: number; readonly bytes: Uint8Array }[],
  ) {
    this.byteLength = byteLength;
    this.#chunks = [...chunks];
  }

  add(begin: number, bytes: Uint8Array): void {
    this.#chunks.push({ begin, bytes });
  }

  read(begin: number, end: number): Uint8Array<ArrayBuffer> {
    if (begin === end) return new Uint8Array();
    const known = this.#chunks.find((chunk) => {
      return chunk.begin <= begin && end <= chunk.begin + chunk.bytes.length;
    });
    if (known === undefined) throw new MissingBytes(begin, end);
    return known.bytes.slice(begin - known.begin, end - known.begin) as Uint8Array<ArrayBuffer>;
  }
}
