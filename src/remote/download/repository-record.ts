/**
 * Records in a folder which repository each of its weight files came from, and which folder of it, so that a later
 * download of that folder may replace them. A file that was changed since is not such a file any more.
 */

import { statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isCommit, isRepositoryFolder } from '../../file/hub/ids.js';
import { hasWeightsName, pathError } from '../../file/shards/shard-paths.js';
import { readSmallFile, writeNewFile } from '../../platform/io/small-files.js';
import { makeTemporaryName, REPOSITORY_RECORD } from '../../platform/io/temporary-names.js';
import { runAsync } from '../../work/work.js';
import type { ReplacedFile } from '../../write/replacement/replaced-files.js';
import type { Repository, TargetOptions } from './target-options.js';

/** Longest record to read: of some 100,000 files. */
const MAX_RECORD_BYTE_LENGTH = 2 ** 24;

/** Where `hf download --local-dir` has its records. */
export const LOCAL_DIR_RECORDS = '.cache/huggingface/download';
/** The end of the name of such a record, after that of the file. */
export const LOCAL_DIR_EXTENSION = '.metadata';

/** Longest record of `hf download`: commit, ETag and time. */
const MAX_LOCAL_DIR_RECORD_BYTE_LENGTH = 4096;

/** A file as it was right after its download. */
interface RecordedFile {
  /** The repository's name in a cache, and below it the folder of the download. */
  readonly repository: string;
  readonly byteLength: number;
  readonly mtimeMs: number;
}

/** The contents of a record. */
interface FolderRecord {
  /** The last downloaded commit of each repository, or folder of one, by the name that its files have here. */
  readonly commits: ReadonlyMap<string, string>;
  readonly files: ReadonlyMap<string, RecordedFile>;
}

/** A repository, or a folder in one, from which files of a folder came. */
export interface RecordedOrigin {
  /** The repository's name in a cache. */
  readonly cacheName: string;
  /** The folder in the repository, without a slash at its end; empty for its root. */
  readonly path: string;
  /** The commit of the last download. */
  readonly commit: string;
}

/**
 * The origins that `download` recorded in a folder: all of them, or only that of one file. Records of earlier versions,
 * without commits, have none.
 */
export async function recordedOrigins(folder: string, name?: string): Promise<RecordedOrigin[]> {
  const { commits, files } = await readRecord(folder);
  const origin = name === undefined ? undefined : files.get(name)?.repository;
  const found = [...commits].filter(([recorded]) => origin === undefined || recorded === origin);
  return found.flatMap(([recorded, commit]) => {
    const [cacheName = '', ...path] = recorded.split('/');
    const isValid = isRepositoryFolder(cacheName) && isCommit(commit);
    // Anyone may have written the record.
    const isInside = path.length === 0 || pathError(path.join('/')) === null;
    return isValid && isInside ? [{ cacheName, path: path.join('/'), commit }] : [];
  });
}

/** The commit that `hf download --local-dir` recorded for a file; undefined without a valid record. */
export async function localDirRecord(
  folder: string,
  name: string,
): Promise<{ readonly commit: string; readonly seconds: number } | undefined> {
  const path = join(folder, LOCAL_DIR_RECORDS, `${name}${LOCAL_DIR_EXTENSION}`);
  const text = await readText(path, MAX_LOCAL_DIR_RECORD_BYTE_LENGTH).catch(() => '');
  const [commit = '', , time = ''] = text.split('\n');
  return isCommit(commit) ? { commit, seconds: Number.parseFloat(time) } : undefined;
}

/**
 * The replaced files that did not come from this repository, or were changed since; in the repair of a copy only those
 * that are recorded for another repository.
 */
export async function unrecordedAmong(
  replaced: readonly ReplacedFile[],
  folder: string,
  { repository, repair = false }: Pick<TargetOptions, 'repository' | 'repair'>,
  signal: AbortSignal,
): Promise<ReplacedFile[]> {
  if (repository === undefined) return [...replaced];
  const { files: recorded } = await readRecord(folder);
  const expected = recordedName(repository);
  const found: ReplacedFile[] = [];
  for (const file of replaced) {
    const { name } = file;
    if (!hasWeightsName(name)) continue;
    const old = recorded.get(name);
    const isOurs =
      old === undefined
        ? repair || (await isOfLocalDir(folder, name, repository, signal))
        : old.repository === expected && (repair || isUnchanged(old, join(folder, name)));
    if (!isOurs) found.push(file);
  }
  return found;
}

/** Whether the folder records the repository of this file. */
export async function isRecorded(folder: string, name: string): Promise<boolean> {
  return (await readRecord(folder)).files.has(name);
}

/**
 * Records the commit, and the weights among downloaded files. Ignores failures: the next download then asks for
 * `overwrite`.
 */
export async function recordRepository(
  folder: string,
  repository: Repository,
  names: Iterable<string>,
): Promise<void> {
  const temporary = join(folder, makeTemporaryName());
  try {
    const before = await readRecord(folder);
    const recorded = new Map(before.files);
    const name = recordedName(repository);
    for (const file of names) {
      const now = hasWeightsName(file) ? stateAt(join(folder, file)) : undefined;
      if (now !== undefined) recorded.set(file, { repository: name, ...now });
    }
    const present = [...recorded].filter(([file]) => stateAt(join(folder, file)) !== undefined);
    const files = Object.fromEntries(present.sort(([a], [b]) => (a < b ? -1 : 1)));
    const repositories = new Set(present.map(([, file]) => file.repository));
    const kept = [...before.commits].filter(([one]) => repositories.has(one));
    const commits = Object.fromEntries([...kept, [name, repository.commit]]);
    const text = `${JSON.stringify({ commits, files })}\n`;
    await writeNewFile(temporary, text, { durable: false });
    await rename(temporary, join(folder, REPOSITORY_RECORD));
  } catch {
    await rm(temporary, { force: true }).catch(() => {});
  }
}

/** Two folders of a repository are two models: one does not replace the other. */
function recordedName({ name, prefix }: Repository): string {
  return prefix === '' ? name : `${name}/${prefix.slice(0, -1)}`;
}

/** The record of a folder; an empty one without a record that can be read. */
async function readRecord(folder: string): Promise<FolderRecord> {
  try {
    const text = await readText(join(folder, REPOSITORY_RECORD), MAX_RECORD_BYTE_LENGTH);
    const { commits = {}, files } = JSON.parse(text);
    return {
      commits: new Map(Object.entries(commits as Record<string, string>)),
      files: new Map(Object.entries(files as Record<string, RecordedFile>)),
    };
  } catch {
    return { commits: new Map(), files: new Map() };
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
  const path = join(folder, LOCAL_DIR_RECORDS, `${name}${LOCAL_DIR_EXTENSION}`);
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
