/** Compares the bytes of a DDUF archive with its checksums, and with the hashes that files in it claim. */

import { basename } from 'node:path';
import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { SafetensorsFile } from '../../file/file.js';
import {
  type CheckpointProblem,
  isOfFile,
  problemOf,
} from '../../file/shards/verification-error.js';
import type { AroundModels } from '../../file/source/pipeline.js';
import type { ClaimingFile } from '../../file/verification/verify-claims.js';
import { runAsync } from '../../platform/io/steps.js';
import { type TransferOptions, totalByteLength } from '../../platform/transfer/transfer.js';
import { verifyEntries } from '../checksums.js';
import { type ArchivedModels, openWhole } from './models.js';

/** The archive around models; `models` are their open files. */
export function archiveAround(
  archive: ArchivedModels,
  models: readonly LazyShards[],
): AroundModels {
  const hasChecksums = [...archive.entries.values()].some(({ crc32 }) => crc32 !== null);
  return {
    checks: hasChecksums ? ['checksums', 'hashes'] : ['hashes'],
    verify: (options) => verifyArchive(archive, models, options),
  };
}

/** What ends the reading, as a change of the archive, is the last problem. */
async function verifyArchive(
  archive: ArchivedModels,
  models: readonly LazyShards[],
  options: TransferOptions,
): Promise<CheckpointProblem[]> {
  const problems: CheckpointProblem[] = [];
  try {
    await collectProblems(archive, models, options, problems);
  } catch (error) {
    if (!isOfFile(error)) throw error;
    problems.push(problemOf(basename(archive.path), error));
  }
  return problems;
}

/** Adds problems as they are found, so that those before an error are there. */
async function collectProblems(
  archive: ArchivedModels,
  models: readonly LazyShards[],
  { signal, onProgress }: TransferOptions,
  problems: CheckpointProblem[],
): Promise<void> {
  const entries = [...archive.entries.values()];
  const claiming = models.flatMap((shards) => filesOf(archive, shards));
  const totalBytes = totalByteLength(entries) + totalByteLength(claiming);
  let before = 0;
  const part: TransferOptions = {
    signal,
    onProgress: ({ bytes }) => onProgress?.({ bytes: before + bytes, totalBytes }),
  };
  const storage = await runAsync(openWhole(archive), signal);
  try {
    for (const entry of entries) {
      await verifyEntries(storage, { entries: [entry], limits: {} }, part, (problem) =>
        problems.push(problemOf(entry.name, problem)),
      );
      before += entry.byteLength;
    }
  } finally {
    storage.close(false);
  }
  // Loaded when it is wanted: with it the entry would load everything that writes.
  const { verifyClaims } = await import('../../file/verification/verify-claims.js');
  problems.push(...(await verifyClaims(claiming, part)));
  onProgress?.({ bytes: totalBytes, totalBytes });
}

/** The safetensors files of a model, with their places. */
function filesOf({ path }: ArchivedModels, shards: LazyShards): ClaimingFile[] {
  return Array.from(shards, (file, i) => {
    const { path: place } = shards.files.shards[i] as { path: string };
    const { byteLength } = file;
    const header = SafetensorsFile.headerOf(file);
    const name = place.slice(path.length + 1);
    return { name, path, place: SafetensorsFile.placeOf(file), header, byteLength };
  });
}
