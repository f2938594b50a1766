/** The report of a verification: its checks and problems, and which tensors were compared with digests. */

import type { Advice } from '../../errors/advice.js';

/**
 * A check: `headers`; `index` where there is one; `digests` that files declare; `checksums` in PyTorch, NumPy and DDUF
 * archives; `hub`, the only one with `against`, of all files with the hashes that the Hub lists; `values`, with the
 * option of that name. `index` of a safetensors checkpoint compares both ways, and `total_size`. Of a torch checkpoint
 * it means that each shard has the tensors that the index names: its writers count `total_size` in different ways, and
 * shards may have more.
 */
export type CheckpointCheck = 'headers' | 'index' | 'digests' | 'checksums' | 'hub' | 'values';

/** Something that is wrong with a checkpoint. */
export interface CheckpointProblem {
  /**
   * The file, as the index names it; the index or the only file by its own name. If the source cannot be opened or
   * read, the path or address that its error names; empty without one.
   */
  readonly file: string;
  /** The tensor; null where the file as a whole is wrong. */
  readonly tensor: string | null;
  /** As errors of this package have it, or the system's, such as `ENOENT`. */
  readonly code: string;
  /** The expected and the found, without the code and the path. Texts of the system name the path. */
  readonly message: string;
  /** Words of the message that name an option or a function. */
  readonly advice?: readonly Advice[];
}

/** A check that reads tensor bytes. */
type ByteCheck = Extract<CheckpointCheck, 'digests' | 'checksums'>;

/**
 * Why the bytes of tensors were not compared:
 *
 * - `no-digests`: the file declares no digest
 * - `no-checksums`: the file, of torch or NumPy, has no checksums
 * - `invalid-digests`: the declared digests are malformed, which is also a problem
 * - `partial-digests`: the declared digests cover a part of the file
 * - `not-read`: the file is remote; `verify` reads only its header
 * - `skipped`: an option disabled the comparison
 * - `unreadable`: the file is missing, invalid or cannot be read, which is also a problem
 */
export type UnverifiedReason =
  | 'no-digests'
  | 'no-checksums'
  | 'invalid-digests'
  | 'partial-digests'
  | 'not-read'
  | 'skipped'
  | 'unreadable';

/** A file of a verified checkpoint, and how many of its tensors were compared with digests or checksums. */
export interface VerifiedFile {
  /** The name of the file, as in {@link CheckpointProblem}. */
  readonly file: string;
  /** Number of tensors; 0 if the header cannot be read. */
  readonly tensors: number;
  /** Number of tensors whose bytes were all compared, whether they matched or not. */
  readonly comparedTensors: number;
  /** The comparisons; empty if no byte was compared. */
  readonly checks: readonly ByteCheck[];
  /** Why tensors were not compared; null if all were. */
  readonly reason: UnverifiedReason | null;
  /** Names of tensors that were not compared, if others of the file were. */
  readonly notCompared: readonly string[];
}

/** A file whose bytes differ from those on the Hub. */
export interface ChangedFile {
  /** Its path below the source, with `/`. */
  readonly file: string;
  /** The hash by which the Hub identifies it: SHA-256 of large files, git's SHA-1 of others. */
  readonly algorithm: 'sha256' | 'git-sha1';
  /** The hash on the Hub, in hexadecimal digits. */
  readonly expected: string;
  /** The hash of the local bytes; null where the length alone shows the difference. */
  readonly found: string | null;
  /** Its length on the Hub, in bytes. */
  readonly expectedByteLength: number;
  /** Its local length, in bytes. */
  readonly byteLength: number;
  /** The likely cause, such as converted line ends or exchanged files; null if unknown. */
  readonly hint: string | null;
}

/** A file on the Hub that the local copy lacks. */
export interface MissingFile {
  /** Its path below the source, with `/`. */
  readonly file: string;
  /** Whether the copy needs it, which makes it a problem: weights, their index, and configurations. */
  readonly required: boolean;
  /** What is there instead, such as a folder or a dangling link; null for nothing. */
  readonly hint: string | null;
}

/** The files of a local copy, compared with those of a Hub repository. */
export interface HubComparison {
  /** Address of the repository, or of the folder or file in it, at the compared commit. */
  readonly source: string;
  /** The compared commit. */
  readonly commit: string;
  /** The commit of `main`, if a recorded commit was compared and `main` is another one; else null. */
  readonly newerCommit: string | null;
  /** Number of files that were compared, changed ones included. */
  readonly checked: number;
  /** Files with other bytes; each is also a problem. */
  readonly changed: readonly ChangedFile[];
  /** Files that are not there; required ones are also problems. */
  readonly missing: readonly MissingFile[];
  /** Paths of local files that the repository lacks, without those of git, `hf` and `download` themselves. */
  readonly extra: readonly string[];
  /** Files whose local name is the same text in another Unicode normalization. */
  readonly renamed: readonly {
    /** Path in the repository. */
    readonly file: string;
    /** Path of the local file. */
    readonly found: string;
  }[];
  /** Paths of files for which the Hub lists no hash: at most their length was compared. */
  readonly unhashed: readonly string[];
}

/** Suspicious values, by the names of tensors; of a pipeline with the folder before the name. */
export interface ValueFindings {
  /** Number of tensors whose values were read. */
  readonly tensors: number;
  /** Tensors with a NaN; each is also a problem. */
  readonly nan: readonly string[];
  /** Tensors with an infinity; each is also a problem. */
  readonly infinite: readonly string[];
  /** Tensors of several values, all of them the same number other than 0. */
  readonly constant: readonly string[];
  /** Tensors with only zeros. */
  readonly zero: readonly string[];
}

/** Part of a report. */
export interface RanksFound {
  /**
   * Of a distributed checkpoint in safetensors files: the number of ranks found. The files do not record how many there
   * were, so the last ranks may be missing. Absent for other sources.
   */
  readonly ranksFound?: number;
}

/** The result of the function `verify`, and of the method `verify()` of checkpoints and pipelines. */
export interface VerificationReport extends RanksFound {
  /** Whether there are no problems. */
  readonly ok: boolean;
  /**
   * The checks that were made. `digests` and `checksums` are listed only if bytes were compared; `files` has the files
   * and tensors.
   */
  readonly checks: readonly CheckpointCheck[];
  /** All problems, file by file; in a pipeline of several models file names include the folder. */
  readonly problems: readonly CheckpointProblem[];
  /** Every file with weights, in the order of the index; none with `against`. */
  readonly files: readonly VerifiedFile[];
  /** The comparison with the Hub; absent without `against`. */
  readonly hub?: HubComparison;
  /**
   * The findings with `values`; absent without it, and for a source that cannot be opened. If a file cannot be read,
   * those of the tensors before it: `checks` then lacks `values`.
   */
  readonly values?: ValueFindings;
}

/** Checks in the order of a report. */
const CHECKS: readonly CheckpointCheck[] = ['headers', 'index', 'digests', 'checksums', 'hub'];

/** Creates a report. `structure` are the checks that read no tensors; the others follow from the files. */
export function reportOf(
  structure: readonly CheckpointCheck[],
  problems: readonly CheckpointProblem[],
  files: readonly VerifiedFile[],
): VerificationReport {
  const made = new Set<CheckpointCheck>(structure);
  for (const { checks } of files) for (const check of checks) made.add(check);
  const checks = CHECKS.filter((check) => made.has(check));
  return { ok: problems.length === 0, checks, problems, files };
}

/** A file none of whose tensors were compared. */
export function unverifiedFile(
  file: string,
  tensors: number,
  reason: UnverifiedReason,
): VerifiedFile {
  return { file, tensors, comparedTensors: 0, checks: [], reason, notCompared: [] };
}

/** A file all of whose tensors were compared. */
export function verifiedFile(file: string, tensors: number, check: ByteCheck): VerifiedFile {
  return {
    file,
    tensors,
    comparedTensors: tensors,
    checks: [check],
    reason: null,
    notCompared: [],
  };
}
