/** Compares the files of a local copy with the lengths and hashes that the Hub lists. */

import { isOfFile, problemOf } from '../../file/shards/file-problems.js';
import type {
  ChangedFile,
  CheckpointProblem,
  HubComparison,
  MissingFile,
} from '../../file/shards/verification-report.js';
import { hashFile } from '../../file/verification/hash-file.js';
import type { HashingOptions } from '../../file/verification/hash-long-file.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { Transfer, type TransferOptions, totalByteLength } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import { hashGitBlob } from '../download/file-hash.js';
import { neededFiles } from '../download/needed-files.js';
import { hintFor, MAX_HINTED_BYTE_LENGTH, withExchanged } from './change-hints.js';
import type { AbsentFile, CopiedFile } from './copied-files.js';

/** A file on the Hub. */
export interface ListedFile {
  /** Its path below the compared folder. */
  readonly name: string;
  readonly byteLength: number;
  /** SHA-256 or git's SHA-1; empty if the Hub lists none. */
  readonly hash: string;
}

/** The differences of all files, and the problems that they are. */
export interface ComparedCopy
  extends Pick<HubComparison, 'checked' | 'changed' | 'missing' | 'renamed' | 'unhashed'> {
  readonly problems: readonly CheckpointProblem[];
}

/** A file that is there, and the one on the Hub. */
interface Pair {
  readonly listed: ListedFile;
  readonly copied: CopiedFile;
}

const SHA256_DIGITS = 64;

/** The part of a file that is hashed: all of it, once. */
const WHOLE = { dataStart: 0, legacyBegin: null, ranges: [] };
const WANTED: ReadonlySet<'sha256'> = new Set(['sha256']);

/**
 * Compares all listed files. `find` returns the local one. Reads files whose length is right, and small ones to find
 * the cause of a difference.
 *
 * @throws Error Node's own `EMFILE` and the like; `signal.reason`
 */
export async function compareFiles(
  files: readonly ListedFile[],
  find: (name: string) => Promise<CopiedFile | AbsentFile>,
  options: TransferOptions,
): Promise<ComparedCopy> {
  const { signal } = options;
  const pairs: Pair[] = [];
  const absent = new Map<string, AbsentFile>();
  const problems = new Map<string, CheckpointProblem>();
  /** Runs `work` on a file; an error about the file is its problem. */
  const unlessProblem = async (name: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      if (!isOfFile(error)) throw error;
      problems.set(name, problemOf(name, error));
    }
  };
  for (const listed of files) {
    await unlessProblem(listed.name, async () => {
      const copied = await find(listed.name);
      if ('path' in copied) pairs.push({ listed, copied });
      else absent.set(listed.name, copied);
    });
  }
  const hashed = hashedAmong(pairs, files);
  const toRead = totalByteLength(Array.from(hashed, ({ copied }) => copied));
  const transfer = new Transfer(toRead, options);
  const onBytes = (bytes: number): void => transfer.advance(bytes);
  const found = new Map<Pair, string>();
  const changed: ChangedFile[] = [];
  for (const pair of pairs) {
    await unlessProblem(pair.listed.name, async () => {
      if (hashed.has(pair)) found.set(pair, await hashOf(pair, { signal, onBytes }));
      const change = await changeOf(pair, found.get(pair) ?? null, signal);
      if (change !== null) changed.push(change);
    });
  }
  transfer.finish();
  const expected = new Map(files.map(({ name, hash }) => [name, hash]));
  const explained = withExchanged(changed, expected);
  for (const one of explained) problems.set(one.file, changeProblem(one));
  const isChanged = new Set(explained.map(({ file }) => file));
  const right = pairs.filter(({ listed }) => !isChanged.has(listed.name));
  const missing = await missingAmong(files, { pairs, right }, absent, signal);
  for (const one of missing) if (one.required) problems.set(one.file, missingProblem(one));
  return {
    checked: pairs.length,
    changed: explained,
    missing,
    renamed: pairs.flatMap(({ listed: { name }, copied }) =>
      copied.name === name ? [] : [{ file: name, found: copied.name }],
    ),
    unhashed: pairs.flatMap(({ listed: { name, hash } }) => (hash === '' ? [name] : [])),
    problems: files.flatMap(({ name }) => problems.get(name) ?? []),
  };
}

/**
 * The files to hash: those of the right length, and those of the length of another one, with which they may be
 * exchanged.
 */
function hashedAmong(pairs: readonly Pair[], files: readonly ListedFile[]): ReadonlySet<Pair> {
  const keyOf = (byteLength: number, { hash }: ListedFile): string =>
    `${byteLength} ${hash.length}`;
  const lengths = new Set(files.map((file) => keyOf(file.byteLength, file)));
  const hashed = pairs.filter(({ listed, copied }) => {
    const isCandidate = !hasLength(listed) || lengths.has(keyOf(copied.byteLength, listed));
    return listed.hash !== '' && isCandidate;
  });
  return new Set(hashed);
}

/** Whether the length of a file is known: a mirror may list none. */
function hasLength({ byteLength }: ListedFile): boolean {
  return byteLength > 0;
}

async function hashOf(
  { listed: { hash }, copied: { path, byteLength } }: Pair,
  hashing: HashingOptions,
): Promise<string> {
  if (hash.length === SHA256_DIGITS) {
    return (await hashFile(path, WHOLE, { ...hashing, wanted: WANTED })).sha256;
  }
  const found = await hashGitBlob(path, hash, byteLength, hashing.signal);
  hashing.onBytes(byteLength);
  return found;
}

/** The difference of a file; null for the same bytes, as far as the Hub lists their hash. */
async function changeOf(
  { listed, copied }: Pair,
  found: string | null,
  signal: AbortSignal | undefined,
): Promise<ChangedFile | null> {
  const { name, hash: expected, byteLength: expectedByteLength } = listed;
  const { path, byteLength } = copied;
  const isSame =
    expected === '' ? !hasLength(listed) || byteLength === expectedByteLength : found === expected;
  if (isSame) return null;
  const isShort = byteLength <= MAX_HINTED_BYTE_LENGTH;
  const hint = isShort ? hintFor(await runAsync(readSmallFile(path), signal), expected) : null;
  const algorithm = expected.length === SHA256_DIGITS ? 'sha256' : 'git-sha1';
  return { file: name, algorithm, expected, found, expectedByteLength, byteLength, hint };
}

/** The files that are not there, and whether the copy needs them. */
async function missingAmong(
  files: readonly ListedFile[],
  { pairs, right }: Readonly<Record<'pairs' | 'right', readonly Pair[]>>,
  absent: ReadonlyMap<string, AbsentFile>,
  signal: AbortSignal | undefined,
): Promise<MissingFile[]> {
  if (absent.size === 0) return [];
  // A damaged index lists other files than the Hub's.
  const byName = new Map(right.map(({ listed, copied }) => [listed.name, copied]));
  const read = async (name: string): Promise<Uint8Array | null> => {
    const { path } = byName.get(name) ?? {};
    return path === undefined
      ? null
      : await runAsync(readSmallFile(path), signal).catch(() => null);
  };
  const needed = await neededFiles(
    files.map(({ name }) => name),
    new Set(pairs.map(({ listed }) => listed.name)),
    read,
  );
  return Array.from(absent, ([file, { hint }]) => ({ file, required: needed.has(file), hint }));
}

function changeProblem(change: ChangedFile): CheckpointProblem {
  const { file, algorithm, expected, found, expectedByteLength, byteLength, hint } = change;
  const difference =
    found === null
      ? `expected ${expectedByteLength} bytes, found ${byteLength}`
      : `expected ${algorithm} ${expected}, found ${found}`;
  const message = difference + (hint === null ? '' : `; ${hint}`);
  return { file, tensor: null, code: 'SAFETENSORS_CHECKSUM_MISMATCH', message };
}

function missingProblem({ file, hint }: MissingFile): CheckpointProblem {
  const message = `the file is missing${hint === null ? '' : `; ${hint}`}`;
  return { file, tensor: null, code: 'ENOENT', message };
}
