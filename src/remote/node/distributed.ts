/** Remote distributed checkpoints of PyTorch: whole tensors over pieces in several files. */

import { argumentRangeError } from '../../errors/arguments.js';
import { FormatError, type SafetensorsError } from '../../errors/errors.js';
import { allocate } from '../../errors/out-of-memory.js';
import { METADATA_FILE } from '../../file/shards/incomplete-models.js';
import { placedPieces, type StoredPiece } from '../../foreign/distributed/distcp-pieces.js';
import { filesOf, readMetadata } from '../../foreign/distributed/metadata-file.js';
import { countRanks } from '../../foreign/distributed/pieces/description.js';
import { invalid } from '../../foreign/distributed/pieces/distributed-error.js';
import { rankFileNames, requireAllRanks } from '../../foreign/distributed/pieces/rank-files.js';
import { namePieces, piecesOf } from '../../foreign/distributed/pieces/rank-pieces.js';
import { DEFAULT_PICKLE_LIMITS } from '../../foreign/pickle/limits.js';
import { PlacedContents } from '../../foreign/tensors/placed-contents.js';
import { ofEach } from '../../work/scope.js';
import type { RemoteCheckpoint } from '../checkpoint.js';
import { FetchQueue } from '../fetch-queue.js';
import type { FetchLimits } from '../fetch-tensors.js';
import type { OpenRemoteDistributed } from '../open.js';
import { FIRST_BYTE_LENGTH, readRemoteHeader } from '../read-header.js';
import type { RemoteFile, RemoteFolder } from '../remote-file.js';
import { assembleRemote, type DistributedSource, FILES_AT_ONCE } from './assemble-remote.js';
import { type DescribedFile, describeFile } from './distcp-file.js';

/**
 * Opens a distributed checkpoint: fetches the description of every piece, and checks that the pieces of each tensor are
 * complete. Takes ownership of the source unless it throws.
 *
 * @throws As `openDistributed` of a folder, and as `open` of an address
 */
export const openDistributedRemote: OpenRemoteDistributed = async (
  { folder, ...source },
  { limits, maxHeaderByteLength },
  signal,
) => {
  const { file } = source;
  try {
    const distributed = { ...source, folder: folder as RemoteFolder };
    const isListed = file.path.endsWith(METADATA_FILE);
    if (isListed && maxHeaderByteLength !== undefined) {
      const expected = 'left out for .distcp files, which have no headers';
      throw argumentRangeError('maxHeaderByteLength', expected, maxHeaderByteLength);
    }
    return await (isListed
      ? openListed(distributed, limits, signal)
      : openRanks(distributed, limits, maxHeaderByteLength, signal));
  } catch (error) {
    throw source.withoutSecrets(error);
  }
};

/** Opens the checkpoint that `.metadata` lists. */
async function openListed(
  source: DistributedSource,
  limits: FetchLimits,
  signal: AbortSignal,
): Promise<RemoteCheckpoint> {
  const { folder, file: list } = source;
  const { path } = list;
  const metadata = readMetadata(await fetchList(list, signal), DEFAULT_PICKLE_LIMITS, { path });
  const { byFile, tensors } = placedPieces(metadata);
  const queue = new FetchQueue(limits.concurrency);
  const fetch = (
    [name, pieces]: readonly [string, readonly StoredPiece[]],
    ends: AbortSignal,
  ): Promise<DescribedFile> => describeFile(name, folder.file(name), pieces, queue, ends);
  const described = await ofEach(byFile, FILES_AT_ONCE, fetch, signal);
  if (described.length === 0) throw invalid('the checkpoint has no tensors', { path });
  const problems = new Map<string, SafetensorsError>();
  for (const one of described) for (const [name, error] of one.problems) problems.set(name, error);
  const parts = {
    files: described,
    tensors: tensors.filter(({ name }) => !problems.has(name)),
    problems: [...problems.values()],
    info: {
      ranks: countRanks(filesOf(metadata)),
      isComplete: true,
      objects: metadata.objects,
    } as const,
  };
  return await assembleRemote(source, parts, limits, signal);
}

/** Fetches `.metadata`. */
async function fetchList(list: RemoteFile, signal: AbortSignal): Promise<Uint8Array> {
  const { path } = list;
  const { bytes: start, fileByteLength } = await list.readStart(FIRST_BYTE_LENGTH, signal);
  const { maxPickleByteLength } = DEFAULT_PICKLE_LIMITS;
  if (fileByteLength > maxPickleByteLength) {
    const message =
      `expected a list of at most ${maxPickleByteLength} bytes, found ${fileByteLength}; ` +
      'download the folder, and open it with limits.maxPickleByteLength';
    throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, { path });
  }
  if (start.length === fileByteLength) return start;
  const bytes = allocate(Uint8Array, fileByteLength, { path });
  bytes.set(start);
  await list.readInto(bytes.subarray(start.length), start.length, { signal });
  return bytes;
}

/** Opens the safetensors files of all ranks. */
async function openRanks(
  source: DistributedSource,
  limits: FetchLimits,
  maxHeaderByteLength: number | undefined,
  signal: AbortSignal,
): Promise<RemoteCheckpoint> {
  const { folder, file } = source;
  const names = rankFileNames((await folder.names?.(signal)) ?? []);
  const ranks = requireAllRanks(names, file.path);
  const fetch = async (name: string, ends: AbortSignal) => {
    const ofRank = folder.file(name);
    const header = await readRemoteHeader(ofRank, maxHeaderByteLength, ends);
    return { name, file: ofRank, header, pieces: piecesOf(header, name, { path: ofRank.path }) };
  };
  const headers = await ofEach(names, FILES_AT_ONCE, fetch, signal);
  const named = namePieces(headers);
  const files = named.files.map(({ file: { name, file: at, header }, pieces, metadata }) => {
    const byteLength = header.dataStart + header.dataByteLength;
    return { name, file: at, contents: new PlacedContents(pieces, byteLength, metadata) };
  });
  const info = { ranks, isComplete: null, objects: [] };
  const parts = { files, tensors: named.tensors, problems: [], info };
  return await assembleRemote(source, parts, limits, signal);
}
