/** Compares an index with what its shards hold, both ways. */

import { setImmediate } from 'node:timers/promises';
import { FileClosedError, FormatError, quoteName, SafetensorsError } from '../errors/errors.js';
import { SafetensorsFile } from '../file/file.js';
import type { Header } from '../format/header.js';
import type { CheckpointIndex } from '../shards/index.js';
import type { LazyShards } from './lazy-shards.js';

/** How many problems the error lists; all are counted. */
const SHOWN_PROBLEMS = 20;

/** The event loop gets its turn after so much work. */
const LONGEST_TURN_MS = 10;

/**
 * Opens every shard, by which its header is checked, and compares names, shards and total size. The
 * event loop goes on between shards.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` with a list of what is wrong
 */
export async function verifyCheckpoint(shards: LazyShards): Promise<void> {
  const problems = new Problems();
  const { index, path } = shards.files;
  let totalBytes = 0;
  let yieldedAt = performance.now();
  for (let shard = 0; shard < shards.files.shards.length; shard++) {
    const header = openHeader(shards, shard, problems);
    if (header !== null) {
      totalBytes += header.dataByteLength;
      if (index !== null) compareNames(index, shard, header, problems);
    }
    if (performance.now() - yieldedAt >= LONGEST_TURN_MS) {
      await setImmediate();
      yieldedAt = performance.now();
    }
  }
  const expected = index?.metadata?.get('total_size');
  // Some writers spell the number as 5.0, or as a string; what is no number tells nothing.
  const size = expected === undefined || expected.trim() === '' ? Number.NaN : Number(expected);
  if (!problems.hasUnreadable && !Number.isNaN(size) && size !== totalBytes) {
    problems.add(() => `total_size is ${expected}, but the tensors have ${totalBytes} bytes`);
  }
  problems.throwAny(path);
}

function openHeader(shards: LazyShards, shard: number, problems: Problems): Header | null {
  try {
    return SafetensorsFile.contentOf(shards.open(shard)).header;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (error instanceof FileClosedError) throw error;
    if (!(error instanceof SafetensorsError) && !isMissing) throw error;
    problems.addUnreadable(error as Error);
    return null;
  }
}

function compareNames(
  index: CheckpointIndex,
  shard: number,
  header: Header,
  problems: Problems,
): void {
  const shardName = quoteName(index.shards[shard] as string);
  let found = 0;
  for (const [entry, place] of index.placesIn(shard, header)) {
    if (place !== -1) found++;
    else problems.add(() => `tensor ${quoteName(index.name(entry))} is not in ${shardName}`);
  }
  // Names are unique on both sides, so that equal numbers leave none over.
  if (found === header.size) return;
  for (let entry = 0; entry < header.size; entry++) {
    const name = header.name(entry);
    const indexed = index.find(name);
    if (indexed === -1) {
      problems.add(() => `tensor ${quoteName(name)} of ${shardName} is not in the index`);
    } else if (index.shardOf(indexed) !== shard) {
      const other = quoteName(index.shards[index.shardOf(indexed)] as string);
      problems.add(
        () => `tensor ${quoteName(name)} is in ${shardName}, but the index says ${other}`,
      );
    }
  }
}

/** Collects a bounded list. */
class Problems {
  readonly #shown: string[] = [];
  #count = 0;
  #cause: unknown;

  /** Whether a shard could not be read, so that sums over all of them mean nothing. */
  hasUnreadable = false;

  /** The text is made only when it will be shown. */
  add(describe: () => string): void {
    if (this.#count++ < SHOWN_PROBLEMS) this.#shown.push(describe());
  }

  addUnreadable(error: Error): void {
    this.hasUnreadable = true;
    this.#cause ??= error;
    this.add(() => error.message);
  }

  throwAny(path: string): void {
    if (this.#count === 0) return;
    const more = this.#count - this.#shown.length;
    const rest = more > 0 ? `; and ${more} more` : '';
    const noun = this.#count === 1 ? 'problem' : 'problems';
    throw new FormatError(
      'SAFETENSORS_INDEX_MISMATCH',
      `expected index and shards to agree, found ${this.#count} ${noun}: ${this.#shown.join('; ')}${rest}`,
      { path, cause: this.#cause },
    );
  }
}
