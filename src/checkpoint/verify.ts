/** Compares the headers of all files of a checkpoint with its index. */

import { basename } from 'node:path';
import { FileClosedError, SafetensorsError } from '../errors/errors.js';
import type { Header } from '../format/header.js';
import type { Steps } from '../io/steps.js';
import { IndexCheck } from '../shards/checkpoint-index-check.js';
import type { CheckpointProblem } from '../shards/verification-error.js';
import type { CheckpointFiles } from './find-files.js';

/** Errors that are not the file's, but the process's or the machine's. */
const OF_THE_PROCESS: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM'];

/** Whether an error says what is wrong with a file, rather than with the process that reads it. */
export function isOfFile(error: unknown): error is Error {
  if (error instanceof FileClosedError) return false;
  if (error instanceof SafetensorsError) return true;
  const { syscall, code } = Object(error) as NodeJS.ErrnoException;
  return syscall !== undefined && !OF_THE_PROCESS.includes(code);
}

/**
 * Everything that is wrong with headers and index: names, shards and total size. `headerOf` gives the header of a
 * shard, by its position, or throws. The event loop may turn between shards.
 *
 * @throws Error what is not the fault of a file: FileClosedError, Node's own `EMFILE` and the like
 */
export function* verifyHeaders(
  { index, path, shards }: CheckpointFiles,
  headerOf: (shard: number) => Steps<Header>,
): Steps<CheckpointProblem[]> {
  const check = new IndexCheck(index, basename(path));
  for (let shard = 0; shard < shards.length; shard++) {
    try {
      check.add(shard, yield* headerOf(shard));
    } catch (error) {
      if (!isOfFile(error)) throw error;
      check.addUnreadable(shard, error);
    }
    yield;
  }
  return check.finish();
}
