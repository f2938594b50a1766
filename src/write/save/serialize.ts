/** `serialize` and `serializeStream`: tensors and metadata as a whole file, in memory or as a stream. */

import { constants } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import {
  type OptionNames,
  requireBoolean,
  requireOptions,
  requireSignal,
} from '../../errors/arguments.js';
import { rejectTensor } from '../../errors/errors.js';
import type { Dtype } from '../../header/dtype.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import {
  HEADER_OPTIONS,
  type HeaderOptions,
  type Layout,
  layOut,
} from '../../header/header-writer.js';
import { type DigestsPlace, digestMismatch } from '../../header/tensor-digests.js';
import { readAcquired } from '../../platform/io/acquirable-file.js';
import { IS_DENO } from '../../platform/io/file-calls.js';
import { readFully } from '../../platform/io/opened-file.js';
import {
  type HashedRange,
  KEYED_BYTE_LENGTH,
  RangeHashes,
} from '../../platform/io/range-hashes.js';
import { mayStartThread } from '../../platform/io/threads.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import { totalByteLength } from '../../work/transfer.js';
import { runSync } from '../../work/work.js';
import { rejectBlocks } from '../input/block-tensors.js';
import {
  type FetchableTensors,
  requireInMemory,
  withFetchedNow,
} from '../input/fetched-tensors.js';
import { metadataFor } from '../input/given-checkpoint.js';
import { type SerializeStreamOptions, STREAM_OPTIONS } from '../input/serialize-in-memory.js';
import {
  type LeasedSources,
  SerializedStream,
  serializedPieces,
  serializeEntries,
} from '../input/serialized.js';
import {
  type FilePayload,
  type MemoryPayload,
  memoryEntries,
  type NamedTensors,
  type NamedTensorsInMemory,
  type Payload,
  readTensorsAndStreams,
  type WriteEntry,
} from '../input/tensor-input.js';
import { compareSync } from './declared-digests.js';
import { LeasedFiles } from './leased-files.js';
import { STREAMED_BYTE_LENGTH } from './long-files.js';
import type { SourceDigest } from './source-digests.js';
import { fillOf, plainFillOf } from './tensor-writes.js';
import { loadThreads } from './write-layout.js';

/**
 * Returns tensors and metadata as the bytes of a safetensors file, in one buffer, for `parse` to read. The bytes are
 * those of the reference, with metadata sorted by key, so equal input in any order gives equal bytes.
 *
 * Every tensor is copied once, changes in its memory included. A tensor of a file whose bytes were never read is read
 * straight into the result. An open `SafetensorsFile` can be passed as it is.
 *
 * @throws InvalidTensorError `SAFETENSORS_INVALID_TENSOR_VIEW`, `SAFETENSORS_HEADER_TOO_LARGE` for a tensor or
 *   metadata that cannot be written, naming the tensor or the key
 * @throws FileClosedError for a tensor of a file that was closed with `detach`
 * @throws FileChangedError when the file of a tensor changed since it was opened
 * @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY` when memory for the result runs out
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for arguments of the wrong kind
 * @throws RangeError `ERR_OUT_OF_RANGE` for an unusable option, and when the result does not fit into
 *   one buffer of the runtime
 *
 * @example
 * ```ts
 * const bytes = serialize({ steps: { dtype: 'I32', shape: [2], data: Int32Array.of(1, 2) } });
 * console.log(parse(bytes).getTensor('steps').data); // → Int32Array(2) [ 1, 2 ]
 * ```
 */
export function serialize<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(tensors: NamedTensorsInMemory<D, ByName>, options: HeaderOptions = {}): Uint8Array<ArrayBuffer> {
  requireLittleEndianHost();
  requireOptions(options, HEADER_OPTIONS);
  requireInMemory(tensors);
  rejectBlocks(tensors);
  const entries = memoryEntries(tensors as NamedTensorsInMemory);
  const header = { ...options, metadata: metadataFor(tensors, options.metadata) };
  return serializeEntries(entries, header, constants.MAX_LENGTH, (lending) => {
    const sources = new LeasedFiles(lending);
    const fill =
      (payload: FilePayload | MemoryPayload, byteLength: number) =>
      (target: Uint8Array): void => {
        compareSync([{ byteLength, payload }], sources);
        if (payload.kind === 'memory') {
          target.set(payload.window(0, byteLength));
          return;
        }
        const file = sources.fileOf(payload);
        runSync(readFully(readAcquired(file), target, payload.position, file.path));
      };
    return { fill, verify: () => sources.verify(), end: () => sources.end() };
  });
}

/** Options of {@link serializeStream} in Node. */
export interface SummedStreamOptions extends SerializeStreamOptions {
  /**
   * True writes the SHA-256 of every tensor's bytes into the metadata, as `saveFile` does. The header comes first, so
   * all data is read and hashed before the first piece, and once more for the pieces: files, memory, and functions,
   * which are called twice and must give the same bytes. Long files with digests are read and hashed once. Streams that
   * can be read once are rejected. False by default.
   */
  readonly digests?: boolean | undefined;
}

const SUMMED_STREAM_OPTIONS: OptionNames<SummedStreamOptions> = {
  ...STREAM_OPTIONS,
  digests: true,
};

/**
 * As `serialize`, one piece after the other: for an answer by HTTP, an upload, an archive, or the standard output.
 * Memory holds some pieces of 1 MiB, whatever the length; that is known before the first piece. Tensors may be of
 * files, in memory, or streams, as for `saveFile`; of a remote checkpoint once its headers are fetched. What is wrong
 * with them is thrown at once.
 *
 * Tensors of files are read while the stream is; their files must not change meanwhile, or the stream ends with an
 * error.
 *
 * @throws As `serialize`; in the stream also as streams of tensors do, `signal.reason`, and with `digests`
 *   `SAFETENSORS_CHECKSUM_MISMATCH` for data that is not the same when it is read again
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * const stream = serializeStream(file, { metadata: { format: 'pt' } });
 * const chunks: Uint8Array[] = [];
 * for await (const piece of stream) chunks.push(piece);
 * console.log(Buffer.concat(chunks).length === stream.byteLength); // → true
 * ```
 */
export function serializeStream<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(
  tensors: NamedTensors<D, ByName> | FetchableTensors,
  options: SummedStreamOptions = {},
): SerializedStream {
  requireLittleEndianHost();
  requireOptions(options, SUMMED_STREAM_OPTIONS);
  const { signal, digests = false, ...rest } = options;
  requireSignal(signal);
  requireBoolean('digests', digests);
  rejectBlocks(tensors);
  const header = { ...rest, metadata: metadataFor(tensors, options.metadata) };
  const given = withFetchedNow(tensors as NamedTensors | FetchableTensors, signal);
  const entries = readTensorsAndStreams(given);
  if (digests) for (const entry of entries) requireRepeatable(entry);
  const layout = layOut(entries, header, digests);
  const lease = (): LeasedSources<AsyncFill> => leaseSources(entries);
  return SerializedStream.of(layout.byteLength, () =>
    layout.digests === undefined
      ? serializedPieces(layout, lease, signal)
      : digestedPieces(layout, layout.digests, lease, signal),
  );
}

/** Throws for a stream that can be read once, since its digest stands before its bytes. */
function requireRepeatable({ name, payload }: WriteEntry<Payload>): void {
  if (payload.kind !== 'stream' || payload.isRepeatable) return;
  const found = 'found a stream: pass a function that returns a new one each time';
  rejectTensor(`expected data that can be read twice for \`digests\`, ${found}`, name);
}

/**
 * Reads the data twice: for the digests, which go into the header, then to yield its pieces, one late, so that a file
 * that does not match its digests never ends. Digests that files declare are not computed before.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` when a tensor gives other bytes the second time, or others than
 *   its file declares
 */
async function* digestedPieces(
  layout: Layout<WriteEntry<Payload>>,
  { ranges, position }: DigestsPlace,
  lease: () => LeasedSources<AsyncFill>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const entries: readonly WriteEntry<Payload>[] = layout.placed.map(({ spec }) => spec);
  const key = randomBytes(16);
  const known = areInLongFiles(entries) ? await leasedDigests(entries, key, signal) : undefined;
  const first = known ?? (await firstDigests(layout, ranges, key, lease, signal));
  // Declared digests are compared below.
  const leaseAgain = known === undefined ? lease : () => leaseSources(entries, plainFillOf);
  layout.header.set(new TextEncoder().encode(first.map(({ hex }) => hex).join('')), position);
  const second = new RangeHashes(
    ranges.map((range, i) => (first[i]?.keyed === undefined ? range : { ...range, key })),
  );
  let last: Uint8Array<ArrayBuffer> | undefined;
  for await (const piece of readAhead(serializedPieces(layout, leaseAgain, signal), signal)) {
    second.add(piece);
    if (last !== undefined) yield last;
    last = piece;
  }
  for (const [i, [tensor, found]] of [...second.digests()].entries()) {
    const { hex, keyed } = first[i] as SourceDigest;
    if (found === (keyed ?? hex)) continue;
    const payload = entries[i]?.payload;
    const declared = payload?.kind === 'file' ? payload.digest : undefined;
    if (declared !== undefined) throw digestMismatch(hex, found, declared.context);
    throw digestMismatch(hex, 'other bytes when the data was read again', { tensor });
  }
  if (last !== undefined) yield last;
}

/** Reads the data once, and hashes it on this thread. */
async function firstDigests(
  layout: Layout<WriteEntry<Payload>>,
  ranges: readonly HashedRange[],
  key: Uint8Array,
  lease: () => LeasedSources<AsyncFill>,
  signal: AbortSignal | undefined,
): Promise<readonly SourceDigest[]> {
  const hashes = new RangeHashes(ranges);
  // Deno's implementation of the cipher is untested: there the SHA-256 is computed twice.
  const isKeyed = ({ begin, end }: HashedRange): boolean =>
    !IS_DENO && end - begin >= KEYED_BYTE_LENGTH;
  const long = ranges.filter(isKeyed);
  const keyed = new RangeHashes(long.map((range) => ({ ...range, key })));
  for await (const piece of serializedPieces(layout, lease, signal)) {
    hashes.add(piece);
    keyed.add(piece);
  }
  const found = keyed.digests();
  return Array.from(hashes.digests(), ([name, hex]) => ({ hex, keyed: found.get(name) }));
}

/** Yields the pieces; the next one is read meanwhile. */
async function* readAhead<Piece>(
  pieces: AsyncGenerator<Piece, void, void>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Piece, void, void> {
  try {
    let next = pieces.next();
    for (;;) {
      const { value, done } = await next;
      // The reader may have aborted while the piece was read.
      signal?.throwIfAborted();
      if (done === true) return;
      next = pieces.next();
      // Awaited above; until then Node must not report a rejection as unhandled.
      next.catch(() => {});
      yield value;
    }
  } finally {
    await pieces.return();
  }
}

/** Whether these tensors are all in files, and so long that threads are worth it. */
function areInLongFiles(
  entries: readonly WriteEntry<Payload>[],
): entries is readonly WriteEntry<FilePayload>[] {
  const isInFiles = entries.every(({ payload }) => payload.kind === 'file');
  return isInFiles && totalByteLength(entries) >= STREAMED_BYTE_LENGTH && mayStartThread();
}

/** Undefined where the code of the threads cannot be loaded. */
async function leasedDigests(
  entries: readonly WriteEntry<FilePayload>[],
  key: Uint8Array,
  signal: AbortSignal | undefined,
): Promise<readonly SourceDigest[] | undefined> {
  const threads = await loadThreads();
  if (threads === undefined) return undefined;
  const sources = new LeasedFiles(entries);
  try {
    const digests = await threads.sourceDigests(entries, sources, key, signal);
    sources.verify();
    return digests;
  } finally {
    sources.end();
  }
}

/** The files of these tensors, for a stream. */
export function leaseSources(
  tensors: Iterable<{ readonly payload: Payload }>,
  fillFor: typeof leasedFill = leasedFill,
): LeasedSources<AsyncFill> {
  const sources = new LeasedFiles(tensors);
  return {
    fill: (payload, byteLength) => fillFor(payload, sources, byteLength),
    verify: () => sources.verify(),
    end: () => sources.end(),
  };
}

function leasedFill(
  payload: FilePayload | MemoryPayload,
  sources: LeasedFiles,
  byteLength: number,
): AsyncFill {
  return fillOf(payload, byteLength, sources);
}
