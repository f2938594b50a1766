/** The files of a source for hashing: read when local, fetched from start to end in little memory when remote. */

import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  type FileHashes,
  type HashedLayout,
  type HashOptions,
  hashFile,
  hashPart,
  hashPieces,
} from '../../file/verification/hash-file.js';
import { hashedLayout } from '../../file/verification/legacy-place.js';
import { DIGESTS_KEY } from '../../header/tensor-digests.js';
import {
  type AnyCheckpoint,
  type Checkpoint,
  type CheckpointProblem,
  DTYPES,
  FormatError,
  type RemoteCheckpoint,
  type ShardHeader,
  type TensorEntry,
} from '../../index.js';
import { boxesOf } from '../../inspect/values/boxes.js';
import { merge, type Part } from '../../work/byte-ranges.js';

/** Bytes of one fetch, by several requests; the next fetch runs while these bytes are used. */
const FETCH_BYTE_LENGTH = 16 * 2 ** 20;

/** An error message lists this many problems. */
const SHOWN_PROBLEMS = 20;

/** A file to hash. */
export interface HashableFile extends Pick<ShardHeader, 'file' | 'metadata'> {
  /** Whether it is a safetensors file, with the header of which some hashes leave out. */
  readonly hasHeader: boolean;
  /** Null for a remote file, and for one within an archive. */
  readonly path: string | null;
  /** Length of the whole file. */
  readonly byteLength: number;
  /** Hashes the file, and with `isEach` every tensor. */
  hash(isEach: boolean, options: HashOptions): Promise<FileHashes>;
}

function hashable(
  header: ShardHeader,
  path: string | null,
  hash: (layout: HashedLayout, options: HashOptions) => Promise<FileHashes>,
): HashableFile {
  const { file, metadata, dataStart, tensors } = header;
  // The format allows no gaps.
  const byteLength = tensors.reduce((sum, one) => sum + one.byteLength, dataStart);
  return {
    ...{ file, metadata, path, byteLength, hasHeader: true },
    hash: (isEach, options) => {
      const isOfTensors = isEach || metadata?.has(DIGESTS_KEY) === true;
      return hash(hashedLayout(header, isOfTensors ? tensors : []), options);
    },
  };
}

/**
 * The files of a model. It must stay open while they are hashed.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for tensors that a remote index does not name
 */
export async function filesOf(
  checkpoint: AnyCheckpoint,
  signal: AbortSignal,
): Promise<HashableFile[]> {
  if (!checkpoint.local) return await remoteFiles(checkpoint, signal);
  const isSafetensors = checkpoint.format === 'safetensors';
  return isSafetensors
    ? await localFiles(checkpoint, signal)
    : await otherFiles(checkpoint, signal);
}

/** The files of another format. Their tensors are hashed as safetensors would hold them. */
async function otherFiles(checkpoint: Checkpoint, signal: AbortSignal): Promise<HashableFile[]> {
  const folder = dirname(checkpoint.path as string);
  const entries = await checkpoint.tensors({ signal });
  return checkpoint.shards.map((file): HashableFile => {
    const path = join(folder, file);
    const own = entries.filter((entry) => entry.file === file);
    return {
      ...{ file, metadata: null, path, hasHeader: false, byteLength: statSync(path).size },
      hash: async (isEach, options) => {
        const hashes = await hashFile(path, WHOLE_FILE, options);
        const ranges = new Map(isEach ? own.map(({ name }) => digestOf(checkpoint, name)) : []);
        return { ...hashes, ranges };
      },
    };
  });
}

/** The pieces by which tensors of other formats are hashed. */
const PIECES = { maxByteLength: FETCH_BYTE_LENGTH };

/** The layout of a file without a header. */
const WHOLE_FILE: HashedLayout = { dataStart: 0, legacyBegin: null, ranges: [] };

/** The name of a tensor, and the SHA-256 of its bytes. */
function digestOf(checkpoint: Checkpoint, name: string): readonly [string, string] {
  const hash = createHash('sha256');
  for (const chunk of checkpoint.getTensor(name).chunks(PIECES)) hash.update(chunk);
  return [name, hash.digest('hex')];
}

/** The files of a local checkpoint. */
async function localFiles(checkpoint: Checkpoint, signal: AbortSignal): Promise<HashableFile[]> {
  const folder = dirname(checkpoint.path as string);
  return (await checkpoint.headers({ signal })).map((header) => {
    const place = checkpoint.placeOf(header.file);
    if (place !== undefined) {
      return hashable(header, null, (layout, options) => hashPart(place, layout, options));
    }
    const path = join(folder, header.file);
    return hashable(header, path, (layout, options) => hashFile(path, layout, options));
  });
}

/**
 * The files of a remote checkpoint. Hashing fetches their bytes by the names of their tensors.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for tensors that the index does not name
 */
async function remoteFiles(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<HashableFile[]> {
  const { problems } = await checkpoint.verify({ signal });
  // A wrong total_size changes no file.
  const ofTensors = problems.filter(({ tensor }) => tensor !== null);
  if (ofTensors.length > 0) throw indexMismatch(checkpoint.path, ofTensors);
  return (await checkpoint.headers({ signal })).map((header) =>
    hashable(header, null, (layout, options) =>
      hashPieces(remotePieces(checkpoint, header, options.signal), layout, options),
    ),
  );
}

function indexMismatch(path: string, problems: readonly CheckpointProblem[]): FormatError {
  const shown = problems.slice(0, SHOWN_PROBLEMS).map(({ file, message }) => `${file}: ${message}`);
  const more = problems.length - shown.length;
  const rest = more > 0 ? `; and ${more} more` : '';
  const message = `index and shards do not agree: ${shown.join('; ')}${rest}`;
  return new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path });
}

/** Fetches consecutive bytes, in order. */
type FetchParts = () => Promise<readonly Uint8Array[]>;

/** Fetches small neighbours together, and large tensors in boxes. */
function* fetchesOf(
  checkpoint: RemoteCheckpoint,
  tensors: readonly TensorEntry[],
  signal: AbortSignal | undefined,
): Generator<FetchParts> {
  const together = (some: readonly string[]): FetchParts => {
    return async () => {
      const found = await checkpoint.readTensors(some, { signal });
      return Array.from(found.values(), ({ bytes }) => bytes);
    };
  };
  const limits = { maxByteLength: FETCH_BYTE_LENGTH, unitOf: () => Number.POSITIVE_INFINITY };
  const ranges = tensors
    .filter(({ byteLength }) => byteLength > 0)
    .map((tensor) => ({ ...tensor, position: tensor.dataOffsets[0] }));
  for (const { parts, byteLength } of merge(ranges, limits)) {
    const { name, dtype, shape } = (parts[0] as Part<TensorEntry>).range;
    const { bits } = DTYPES[dtype];
    // A box of a packed tensor could begin inside a byte.
    if (byteLength <= FETCH_BYTE_LENGTH || bits % 8 !== 0) {
      yield together(parts.map(({ range }) => range.name));
      continue;
    }
    for (const box of boxesOf(shape, FETCH_BYTE_LENGTH / (bits / 8))) {
      yield async () => [(await checkpoint.getSlice(name, ...box, { signal })).bytes];
    }
  }
}

/**
 * The bytes of a shard: prefix, header, then the tensors; the format allows no gaps between them.
 */
async function* remotePieces(
  checkpoint: RemoteCheckpoint,
  { text, dataStart, tensors }: ShardHeader,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const header = Buffer.from(text);
  const prefix = Buffer.alloc(dataStart - header.length);
  prefix.writeBigUInt64LE(BigInt(header.length));
  yield prefix;
  yield header;
  const fetches = fetchesOf(checkpoint, tensors, signal);
  const start = (): Promise<readonly Uint8Array[]> | undefined => {
    const { value } = fetches.next() as { value: FetchParts | undefined };
    const fetched = value?.();
    // It may fail before its turn comes, when nothing awaits it yet.
    fetched?.catch(() => {});
    return fetched;
  };
  let next = start();
  while (next !== undefined) {
    const pieces = await next;
    next = start();
    yield* pieces;
  }
}
