/**
 * Records in a folder which repository each of its weight files came from, and which folder of it, so that a later
 * download of that folder may replace them. A file that was changed since is not such a file any more.
 */

import { statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isCommit } from '../../file/hub/ids.js';
import { hasWeightsName } from '../../file/shards/shard-paths.js';
import { readSmallFile, writeNewFile } from '../../platform/io/small-files.js';
import { makeTemporaryName, REPOSITORY_RECORD } from '../../platform/io/temporary-names.js';
import { runAsync } from '../../work/work.js';
import type { ReplacedFile } from '../../write/replacement/replaced-files.js';
import type { Repository } from './target-options.js';

/** Longest record to read: of some 100,000 files. */
const MAX_RECORD_BYTE_LENGTH = 2 ** 24;

/** Where `hf download --local-dir` has its records. */
const LOCAL_DIR_RECORDS = '.cache/huggingface/download';

/** Longest record of `hf download`: commit, ETag and time. */
const MAX_LOCAL_DIR_RECORD_BYTE_LENGTH = 4096;

/** A file as it was right after its download. */
interface RecordedFile {
  /** The repository's name in a cache, and below it the folder of the download. */
  readonly repository: string;
  readonly byteLength: number;
  readonly mtimeMs: number;
}

/** The replaced files that did not come from this repository, or were changed since. */
export async function unrecordedAmong(
  replaced: readonly ReplacedFile[],
  folder: string,
  repository: Repository | undefined,
  signal: AbortSignal,
): Promise<ReplacedFile[]> {
  if (repository === undefined) return [...replaced];
  const recorded = await readRecord(folder);
  const expected = recordedName(repository);
  const found: ReplacedFile[] = [];
  for (const file of replaced) {
    const { name } = file;
    if (!hasWeightsName(name)) continue;
    const old = recorded.get(name);
    const isOurs =
      old === undefined
        ? await isOfLocalDir(folder, name, repository, signal)
        : old.repository === expected && isUnchanged(old, join(folder, name));
    if (!isOurs) found.push(file);
  }
  return found;
}

/** Whether the folder records the repository of this file. */
export async function isRecorded(folder: string, name: string): Promise<boolean> {
  return (await readRecord(folder)).has(name);
}

/** Records the weights among downloaded files. Ignores failures: the next download then asks for `overwrite`. */
export async function recordRepository(
  folder: string,
  repository: Repository,
  names: Iterable<string>,
): Promise<void> {
  const temporary = join(folder, makeTemporaryName());
  try {
    const recorded = await readRecord(folder);
    for (const name of names) {
      const now = hasWeightsName(name) ? stateAt(join(folder, name)) : undefined;
      if (now !== undefined) recorded.set(name, { repository: recordedName(repository), ...now });
    }
    const present = [...recorded].filter(([name]) => stateAt(join(folder, name)) !== undefined);
    if (present.length === 0) return;
    const files = Object.fromEntries(present.sort(([a], [b]) => (a < b ? -1 : 1)));
    await writeNewFile(temporary, `${JSON.stringify({ files })}\n`, { durable: false });
    await rename(temporary, join(folder, REPOSITORY_RECORD));
  } catch {
    await rm(temporary, { force: true }).catch(() => {});
  }
}

/** Two folders of a repository are two models: one does not replace the other. */
function recordedName({ name, prefix }: Repository): string {
  return prefix === '' ? name : `${name}/${prefix.slice(0, -1)}`;
}

/** The recorded files by name; none without a record that can be read. */
async function readRecord(folder: string): Promise<Map<string, RecordedFile>> {
  try {
    const text = await readText(join(folder, REPOSITORY_RECORD), MAX_RECORD_BYTE_LENGTH);
    return new Map(Object.entries(JSON.parse(text).files as Record<string, RecordedFile>));
  } catch {
    return new Map();
  }
}

/**
 * Whether `hf download --local-dir` brought a file that was not changed since, by its record of commit, ETag and time.
 * The commit shows the repository, and the folder of the record its root. A damaged record, which `hf download` removes
 * to fetch the file again, shows by its own time that the file came from the Hub.
 */
async function isOfLocalDir(
  folder: string,
  name: string,
  repository: Repository,
  signal: AbortSignal,
): Promise<boolean> {
  const path = join(folder, LOCAL_DIR_RECORDS, `${name}.metadata`);
  const record = stateAt(path);
  if (repository.prefix !== '' || record === undefined) return false;
  let text: string;
  try {
    text = await readText(path, MAX_LOCAL_DIR_RECORD_BYTE_LENGTH);
  } catch {
    return false;
  }
  const [commit = '', , time = ''] = text.split('\n');
  const { mtimeMs = 0 } = stateAt(join(folder, name)) ?? {};
  // As `hf download` compares them.
  const isOlderThan = (seconds: number): boolean => mtimeMs / 1000 - 1 <= seconds;
  const seconds = Number.parseFloat(time);
  if (!isCommit(commit) || Number.isNaN(seconds)) return isOlderThan(record.mtimeMs / 1000);
  return isOlderThan(seconds) && (await repository.hasCommit(commit, signal));
}

async function readText(path: string, maxByteLength: number): Promise<string> {
  const { byteLength = 0 } = stateAt(path) ?? {};
  if (byteLength > maxByteLength) return '';
  return (await runAsync(readSmallFile(path), undefined)).toString();
}

function stateAt(path: string): Omit<RecordedFile, 'repository'> | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) return undefined;
  return { byteLength: stats.size, mtimeMs: stats.mtimeMs };
}

function isUnchanged({ byteLength, mtimeMs }: RecordedFile, path: string): boolean {
  const now = stateAt(path);
  return now?.byteLength === byteLength && now.mtimeMs === mtimeMs;
}
