/**
 * Locks against other saves: advisory locks of the system (flock) against other processes, released when the process
 * dies; a queue within this thread.
 *
 * Without the addon, or on a file system without locks, every lock is granted.
 */

import { setTimeout } from 'node:timers/promises';
import type { Advice } from '../../errors/advice.js';
import { argumentRangeError, argumentTypeError, type OptionNames } from '../../errors/arguments.js';
import { SafetensorsError } from '../../errors/errors.js';
import { addon } from '../../platform/addon/addon.js';
import { hasCode, namingFile } from '../../platform/io/system-errors.js';
import { untilAborted } from '../../work/until-aborted.js';

/** Options of calls that lock what they write: `editMetadata`, `saveCheckpoint` and `convert`. */
export interface LockOptions {
  /**
   * Milliseconds to wait for a lock of another process or thread; `Infinity` waits until it is free. 60 000 by
   * default.
   */
  readonly lockTimeout?: number | undefined;
}

/**
 * More than there are saves and edits that wait for one folder or file and fail. Then a folder is written without a
 * lock, and an edit fails, since it checks the file, too.
 */
export const MAX_LOCK_TRIES = 1000;

/** Names of the options. */
export const LOCK_OPTIONS: OptionNames<LockOptions> = { lockTimeout: true };

/** The limits of a wait for a lock. */
interface LockWait extends LockOptions {
  readonly signal?: AbortSignal | undefined;
}

/** Long enough for a save of some gigabytes. */
const DEFAULT_LOCK_TIMEOUT = 60_000;

/** Milliseconds between two tries for a lock, at first and at most. */
const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 100;

/** Errors of file systems without locks; `EBADF` is the error of NFS for a read-only descriptor. */
const CANNOT_LOCK: readonly string[] = [
  'ENOLCK',
  'EBADF',
  'EINVAL',
  'ENOSYS',
  'ENOTSUP',
  'EOPNOTSUPP',
];

/** Throws a TypeError or RangeError unless the option is usable. */
export function requireLockTimeout({ lockTimeout }: LockOptions): void {
  if (lockTimeout === undefined) return;
  if (typeof lockTimeout !== 'number') {
    throw argumentTypeError('lockTimeout', 'a number', lockTimeout);
  }
  if (lockTimeout >= 0) return;
  throw argumentRangeError('lockTimeout', 'a number of milliseconds from 0', lockTimeout);
}

/**
 * Locks the file or folder of a descriptor until the descriptor is closed. Returns false when another descriptor has
 * the lock. `label` names the file in messages.
 */
export function tryToLock(fd: number, label?: string): boolean {
  try {
    addon()?.lockFile(fd);
    return true;
  } catch (error) {
    if (hasCode(error, CANNOT_LOCK)) return true;
    if (hasCode(error, ['EAGAIN'])) return false;
    throw namingFile(error, label);
  }
}

/**
 * Locks as `tryToLock` does, once the lock is free. Polls, because a waiting system call would block a thread of the
 * pool.
 *
 * @throws SafetensorsError `SAFETENSORS_LOCKED` when time is up; `signal.reason`
 */
export async function waitForLock(
  fd: number,
  label: string,
  { lockTimeout = DEFAULT_LOCK_TIMEOUT, signal }: LockWait,
): Promise<void> {
  const end = performance.now() + lockTimeout;
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    signal?.throwIfAborted();
    if (tryToLock(fd, label)) return;
    const left = end - performance.now();
    if (left <= 0) throw locked(label, lockTimeout);
    // Jitter: waiters should not poll at the same moment.
    await sleep(Math.min(pause * (0.5 + Math.random()), left), signal);
  }
}

const WAIT: Advice = { option: 'lockTimeout', text: 'or wait longer with `lockTimeout`' };

function locked(label: string, lockTimeout: number): SafetensorsError {
  return new SafetensorsError(
    'SAFETENSORS_LOCKED',
    `expected to get the lock within ${lockTimeout} ms, found that another process or thread holds ` +
      `it, which saves a checkpoint here or edits the file; try again when it has ended, ${WAIT.text}`,
    { path: label, advice: [WAIT] },
  );
}

async function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await setTimeout(milliseconds, undefined, { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** The end of the last work in each queue, by key. */
const queues = new Map<string, Promise<void>>();

/**
 * Runs work after all earlier work of this thread with the same key; synchronously when the queue is empty. The key
 * is the real path of the file or folder.
 *
 * @throws `signal.reason` when that ends the wait; errors of the work
 */
export async function inTurn<Result>(
  key: string,
  signal: AbortSignal | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  const earlier = queues.get(key);
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  // Giving up must not let a later waiter start early.
  const queue = earlier === undefined ? ended : Promise.all([earlier, ended]).then(() => {});
  queues.set(key, queue);
  void queue.then(() => {
    if (queues.get(key) === queue) queues.delete(key);
  });
  try {
    if (earlier !== undefined) await untilAborted(earlier, signal);
    return await work();
  } finally {
    end();
  }
}
