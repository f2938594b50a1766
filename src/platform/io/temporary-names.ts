/**
 * Makes the names of all temporary files. The next save of a checkpoint recognizes files of a killed save by their
 * names and deletes them, but not the `.tmp` of a single file.
 */

import { createHash, randomBytes } from 'node:crypto';

const PREFIX = '.safetensors-mmap-';

/** Extension of a file that is being written. */
const WRITTEN_EXTENSION = '.tmp';

/** Extension of interim names, the same as of all shards. */
const INTERIM_EXTENSION = '.safetensors';

const BACKUP_EXTENSION = '.header-backup';

/** Extension of the record of a replacement that is under way. */
const REPLACING_EXTENSION = '.replacing';

/** Extensions of a download's files: the bytes received so far, and the record of finished files. */
const PARTIAL_EXTENSION = '.incomplete';
const RECORD_EXTENSION = '.downloaded';

/** Name of a folder's record of the repository that its weights come from. */
export const REPOSITORY_RECORD: string = `${PREFIX}repository.json`;

/** All names above, but for the backup of a header, which is named after its file. */
const OWN_FILE =
  /^\.safetensors-mmap-(?:repository\.json|[0-9a-f-]+\.(?:tmp|replacing|incomplete|downloaded|header-backup|safetensors))$/;

/** The longest name that Linux and macOS take. */
const MAX_FILE_NAME_BYTE_LENGTH = 255;

const RANDOM = /^[0-9a-f]{16}$/;
const INTERIM = /^\.safetensors-mmap-[0-9a-f]{8}-[0-9a-f]{16}\.safetensors$/;

/** Names, without extension, of files that this thread is writing: other saves must leave them untouched. */
const stemsInUse = new Set<string>();

function randomDigits(): string {
  return randomBytes(8).toString('hex');
}

/**
 * A new name for a file that is being written, `.safetensors-mmap-<16 hex digits>.tmp`: short, however
 * long the name of its target.
 */
export function makeTemporaryName(): string {
  return PREFIX + randomDigits() + WRITTEN_EXTENSION;
}

/**
 * Path of the file that holds the old header while it is overwritten: `<file>.header-backup`. Where
 * that name would be too long, it is `.safetensors-mmap-<32 hex digits>.header-backup`; the digits
 * begin the SHA-256 of the file's name. `folder` ends with the separator.
 */
export function headerBackupOf({ path, folder }: { path: Buffer; folder: Buffer }): Buffer {
  const name = path.subarray(folder.byteLength);
  if (name.byteLength + BACKUP_EXTENSION.length <= MAX_FILE_NAME_BYTE_LENGTH) {
    return Buffer.concat([path, Buffer.from(BACKUP_EXTENSION)]);
  }
  const digits = createHash('sha256').update(name).digest('hex').slice(0, 32);
  return Buffer.concat([folder, Buffer.from(PREFIX + digits + BACKUP_EXTENSION)]);
}

/** The first 16 hexadecimal digits of a text's SHA-256. */
function digitsOf(text: string | Buffer): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/**
 * Names of a download's files next to a target: `.safetensors-mmap-<16 hex digits>` for the file's own name,
 * then `-<16 hex digits>.incomplete` for the version that is being received, or `.downloaded`.
 */
export class DownloadNames {
  readonly #stem: string;

  /** `name` is that of the file, or its path below the folder in which the partial file is. */
  constructor(name: string | Buffer) {
    this.#stem = PREFIX + digitsOf(name);
  }

  /** Returns the file for the received bytes of a version. */
  partial(version: string): string {
    return `${this.#stem}-${digitsOf(version)}${PARTIAL_EXTENSION}`;
  }

  /** Whether a name is that of a partial file, of any version. */
  isPartial(name: string): boolean {
    return name.startsWith(`${this.#stem}-`) && name.endsWith(PARTIAL_EXTENSION);
  }

  /** Returns the record of the finished download. */
  get record(): string {
    return this.#stem + RECORD_EXTENSION;
  }
}

/** The successive names of one file of a checkpoint. */
export interface TemporaryName {
  /** During the writes. */
  readonly written: string;
  /** While an index names it and its final name is taken. */
  readonly interim: string;
}

/** Whether a name is interim: of a shard that only its index can identify. */
export function isInterimName(name: string): boolean {
  return INTERIM.test(name);
}

/** Whether a name is that of the record of a replacement, which is under way or was killed. */
export function isReplacementRecord(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith(REPLACING_EXTENSION);
}

/** Whether a name is that of a file that downloads and saves have for themselves. */
export function isBookkeeping(name: string): boolean {
  return OWN_FILE.test(name);
}

/**
 * Names for the files of a checkpoint, `.safetensors-mmap-<8 hex digits>-<16 hex digits>` with `.tmp`
 * or `.safetensors`. The first digits stand for the pattern of the final names.
 */
export class TemporaryNames {
  readonly #prefix: string;
  readonly #stems: string[] = [];

  /** `pattern` is the pattern's text. */
  constructor(pattern: string) {
    const hash = createHash('sha256').update(pattern).digest('hex').slice(0, 8);
    this.#prefix = `${PREFIX}${hash}-`;
  }

  /** Name of the record of a replacement under way. */
  get record(): string {
    return this.#prefix.slice(0, -1) + REPLACING_EXTENSION;
  }

  /** A new name, in use until `release`. */
  next(): TemporaryName {
    const stem = this.#prefix + randomDigits();
    this.#stems.push(stem);
    stemsInUse.add(stem);
    return { written: stem + WRITTEN_EXTENSION, interim: stem + INTERIM_EXTENSION };
  }

  /** Gives up all names. A file that still has one counts as abandoned. */
  release(): void {
    for (const stem of this.#stems) stemsInUse.delete(stem);
  }

  /** Whether a killed process left a file of the pattern while it wrote it. */
  isUnfinished(name: string): boolean {
    return name.endsWith(WRITTEN_EXTENSION) && this.isLeftOver(name);
  }

  /** Whether a killed process left a file of the pattern. An index may name it. */
  isLeftOver(name: string): boolean {
    const extension = [WRITTEN_EXTENSION, INTERIM_EXTENSION].find((end) => name.endsWith(end));
    if (extension === undefined || !name.startsWith(this.#prefix)) return false;
    const stem = name.slice(0, -extension.length);
    return RANDOM.test(stem.slice(this.#prefix.length)) && !stemsInUse.has(stem);
  }
}
