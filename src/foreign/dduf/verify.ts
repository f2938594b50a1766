/** Compares the bytes of a DDUF archive with its checksums, and with the hashes that files in it declare. */

import { basename } from 'node:path';
import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { declaringFiles } from '../../file/checkpoint/verify.js';
import { isOfFile, problemOf } from '../../file/shards/file-problems.js';
import {
  type CheckpointProblem,
  unverifiedFile,
  type VerifiedFile,
  verifiedFile,
} from '../../file/shards/verification-report.js';
import type { PipelineBytes } from '../../file/source/pipeline.js';
import type {
  ComparedFiles,
  DeclaringFile,
} from '../../file/verification/verify-declared-hashes.js';
import { type TransferOptions, totalByteLength } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import { verifyEntries } from '../checksums.js';
import { type ArchivedModels, openWhole } from './models.js';

/** The bytes of models in an archive; `models` are their open files. */
export function archiveBytes(
  archive: ArchivedModels,
  models: readonly LazyShards[],
): PipelineBytes {
  const hasChecksums = [...archive.entries.values()].some(({ crc32 }) => crc32 !== null);
  return {
    checks: hasChecksums ? ['checksums'] : [],
    verify: (options) => verifyArchive(archive, models, options),
  };
}

/** An error that ends the reading, such as a change of the archive, is the last problem. */
async function verifyArchive(
  archive: ArchivedModels,
  models: readonly LazyShards[],
  options: TransferOptions,
): Promise<ComparedFiles> {
  const found: Found = { problems: [], files: new Map() };
  const declaring = models.flatMap((shards) => filesOf(archive, shards));
  for (const { name, header } of declaring) {
    found.files.set(name, unverifiedFile(name, header.size, 'unreadable'));
  }
  try {
    await collect(archive, declaring, options, found);
  } catch (error) {
    if (!isOfFile(error)) throw error;
    found.problems.push(problemOf(basename(archive.path), error));
  }
  return { problems: found.problems, files: [...found.files.values()] };
}

/** The findings so far. */
interface Found {
  readonly problems: CheckpointProblem[];
  readonly files: Map<string, VerifiedFile>;
}

/** Adds findings one by one, so that those before an error are there. */
async function collect(
  archive: ArchivedModels,
  declaring: readonly DeclaringFile[],
  { signal, onProgress }: TransferOptions,
  { problems, files }: Found,
): Promise<void> {
  const entries = [...archive.entries.values()];
  const totalBytes = totalByteLength(entries) + totalByteLength(declaring);
  let before = 0;
  const part: TransferOptions = {
    signal,
    onProgress: ({ bytes }) => onProgress?.({ bytes: before + bytes, totalBytes }),
  };
  const storage = await runAsync(openWhole(archive), signal);
  try {
    // All at once: every call has buffers of a few MiB, which small entries don't fill.
    await verifyEntries(storage, { entries, limits: {} }, part, (problem, { name }) =>
      problems.push(problemOf(name, problem)),
    );
    before = totalByteLength(entries);
    for (const { name, crc32 } of entries) {
      const file = files.get(name);
      if (file !== undefined && crc32 !== null) {
        files.set(name, verifiedFile(name, file.tensors, 'checksums'));
      }
    }
  } finally {
    storage.close(false);
  }
  // Loaded when it is wanted: with it the entry would load everything that writes.
  const { verifyDeclaredHashes } = await import(
    '../../file/verification/verify-declared-hashes.js'
  );
  const compared = await verifyDeclaredHashes(declaring, part);
  problems.push(...compared.problems);
  for (const file of compared.files) {
    const known = files.get(file.file);
    const isCompared = known?.reason === null;
    files.set(file.file, isCompared ? { ...known, checks: [...file.checks, 'checksums'] } : file);
  }
  onProgress?.({ bytes: totalBytes, totalBytes });
}

/** The safetensors files of a model, with their names in the archive. */
function filesOf({ path }: ArchivedModels, shards: LazyShards): DeclaringFile[] {
  return declaringFiles(shards).map((file) => {
    return { ...file, path, name: file.path.slice(path.length + 1) };
  });
}
