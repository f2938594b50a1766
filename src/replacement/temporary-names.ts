/** Names for the files of a checkpoint until they get their own, by which those left over are known. */

import { createHash, randomBytes } from 'node:crypto';
import { SHARD_EXTENSION } from '../shards/shard-paths.js';

/** Of a file that is being written. */
const TEMPORARY_EXTENSION = '.tmp';

const RANDOM = /^[0-9a-f]{16}$/;

/** `TemporaryName.interim` of any pattern. */
const INTERIM = /^\.safetensors-mmap-[0-9a-f]{8}-[0-9a-f]{16}\.safetensors$/;

/** Names, without extension, of what this thread is writing; another save must not clear them away. */
const stemsInUse = new Set<string>();

/** Names of one file, of which it has one at a time. */
export interface TemporaryName {
  /** While it is written. */
  readonly written: string;
  /** In an index, until it gets its own: as all shards it ends in `.safetensors`. */
  readonly interim: string;
}

/** Whether a file is one of a checkpoint whose index names it so, and means nothing without. */
export function isInterimName(name: string): boolean {
  return INTERIM.test(name);
}

/**
 * Names `.safetensors-mmap-<8 hex digits>-<16 hex digits>` with `.tmp` or `.safetensors`, of which the
 * first digits stand for the pattern of the names that the files will get.
 */
export class TemporaryNames {
  readonly #prefix: string;
  readonly #stems: string[] = [];

  /** `pattern` is the pattern's text. */
  constructor(pattern: string) {
    const hash = createHash('sha256').update(pattern).digest('hex').slice(0, 8);
    this.#prefix = `.safetensors-mmap-${hash}-`;
  }

  /** A name that nobody has, in use until `release`. */
  next(): TemporaryName {
    const stem = this.#prefix + randomBytes(8).toString('hex');
    this.#stems.push(stem);
    stemsInUse.add(stem);
    return { written: stem + TEMPORARY_EXTENSION, interim: stem + SHARD_EXTENSION };
  }

  /** Gives up the names: files that still have one are left over. */
  release(): void {
    for (const stem of this.#stems) stemsInUse.delete(stem);
  }

  /** Whether a file of the pattern was left by a process that was killed while it was written. */
  isUnfinished(name: string): boolean {
    return name.endsWith(TEMPORARY_EXTENSION) && this.isLeftOver(name);
  }

  /** Whether a file of the pattern was left by a process that was killed; an index may name it. */
  isLeftOver(name: string): boolean {
    const extension = [TEMPORARY_EXTENSION, SHARD_EXTENSION].find((end) => name.endsWith(end));
    if (extension === undefined || !name.startsWith(this.#prefix)) return false;
    const stem = name.slice(0, -extension.length);
    return RANDOM.test(stem.slice(this.#prefix.length)) && !stemsInUse.has(stem);
  }
}
