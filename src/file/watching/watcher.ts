/** Watches the checkpoint at a path, and hands over each new version that opens and verifies. */

import { basename, extname } from 'node:path';
import { type ErrorCode, SafetensorsError } from '../../errors/errors.js';
import { runAsync, type Work } from '../../work/work.js';
import type { Checkpoint } from '../checkpoint/checkpoint.js';
import { isOfProcess } from '../shards/file-problems.js';
import { FolderEvents } from './folder-events.js';
import { downloadsIn, isUnchanged, type Version } from './version.js';

/** Receives new versions and errors. The watcher waits for a promise that it returns. */
export type OnChange = (
  ...change: [error: null, next: Checkpoint] | [error: Error, next: null]
) => unknown;

/** The result of `watch`. */
export interface Watcher {
  /** Ends the watch: no further call follows, and nothing keeps the process alive. */
  close(): void;
  /** As `close()`, for `using`. */
  [Symbol.dispose](): void;
  /** Lets the process end while this watch is active. Returns the watcher. */
  unref(): this;
}

/** What a watcher does, and when. Times are in milliseconds. */
export interface WatcherParts {
  /** Finds the version at the path. */
  readonly find: () => Work<Version>;
  readonly open: (signal: AbortSignal) => Promise<Checkpoint>;
  readonly onChange: OnChange;
  /** The time between two looks without events. */
  readonly interval: number;
  /** The time for which a version must stay the same. */
  readonly settle: number;
  /** Ends the watch. */
  readonly signal: AbortSignal | undefined;
}

/**
 * How many times `settle` must pass without a change before an error is reported, and before a version is accepted that
 * looks like a copy under way: some shards are new, others those of the last version, or an index lacks shards.
 */
const PATIENCE = { error: 10, partial: 100 };

/** Without events, only one of so many looks is more than a comparison of stamps. */
const COMPARISONS = 10;

/** The state of all files and folders of a version: a file next to those of the model may be what is wrong. */
function aroundOf({ stamps }: Version): string {
  return Array.from(stamps, (entry) => entry.join(' ')).join('\n');
}

/** Looks, waits until nothing changes, opens, verifies, looks again, and calls back: one step at a time. */
export class CheckpointWatcher implements Watcher {
  readonly #parts: WatcherParts;
  readonly #events = new FolderEvents((event, name) => this.#notice(event, name));
  readonly #ending = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #isRef = true;
  /** When the next step is due; undefined during a step. */
  #dueAt: number | undefined;
  /** Whether an event came since the last step began. */
  #isWoken = true;
  #comparisons = 0;
  /** The version that the caller has. */
  #known: Version;
  /** The version whose error was reported last, with its folders and its message. */
  #rejected: { readonly id: string; readonly around: string; readonly message: string } | undefined;
  /** The last look, and since when it has been the same; of the time also without downloads. */
  #seen: Version;
  #seenSince = 0;
  #downloads = '';
  #idleSince = 0;

  /** `known` is the version of the caller. */
  constructor(parts: WatcherParts, known: Version) {
    this.#parts = parts;
    this.#known = known;
    this.#seen = known;
    this.#events.follow(known.folders);
    parts.signal?.addEventListener('abort', this.#end);
    // The version may have changed before the first event could come.
    this.#schedule(parts.settle);
  }

  readonly #end = (): void => this.close();

  close(): void {
    this.#parts.signal?.removeEventListener('abort', this.#end);
    this.#ending.abort();
    this.#events.close();
    clearTimeout(this.#timer);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  unref(): this {
    this.#isRef = false;
    this.#timer?.unref();
    return this;
  }

  #schedule(delay: number): void {
    if (this.#ending.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#dueAt = performance.now() + delay;
    this.#timer = setTimeout(() => void this.#run(), delay);
    if (!this.#isRef) this.#timer.unref();
  }

  /** Passes over what is written to other files of a folder, such as a log. Each new file is a rename. */
  #notice(event: string, name: string | null): void {
    const isOther =
      event === 'change' &&
      name !== null &&
      extname(name) !== '' &&
      ![...this.#seen.stamps.keys()].some((path) => basename(path) === name);
    if (!isOther) this.#wake();
  }

  /** Brings the next step forward, without moving it back at the next event of a burst. */
  #wake(): void {
    const { settle } = this.#parts;
    this.#isWoken = true;
    const isLater = this.#dueAt !== undefined && this.#dueAt > performance.now() + settle;
    if (isLater) this.#schedule(settle);
  }

  async #run(): Promise<void> {
    this.#dueAt = undefined;
    let delay = this.#parts.interval;
    try {
      delay = await this.#step();
    } catch (error) {
      // Without descriptors or memory, a later step may succeed.
      if (!this.#ending.signal.aborted && !isOfProcess(error)) throw error;
    }
    this.#schedule(this.#isWoken ? Math.min(delay, this.#parts.settle) : delay);
  }

  /** Returns how long to wait for the next step. */
  async #step(): Promise<number> {
    const { interval, settle } = this.#parts;
    const now = await this.#look();
    if (now.id === this.#known.id) this.#rejected = undefined;
    if (!this.#isNew(now)) return interval;
    const wait = this.#waitFor(now);
    if (wait > 0) return wait;
    let next: Checkpoint;
    try {
      if (now.error !== undefined) throw now.error;
      next = await this.#openVerified();
    } catch (error) {
      if (this.#ending.signal.aborted || isOfProcess(error)) throw error;
      if ((await this.#look()).id !== now.id) return settle;
      const errorWait = this.#remaining(this.#idleSince, PATIENCE.error);
      if (errorWait > 0) return errorWait;
      const { message } = error as Error;
      const isReported = this.#rejected?.id === now.id && this.#rejected.message === message;
      this.#rejected = { id: now.id, around: aroundOf(now), message };
      if (!isReported) await this.#report(error as Error, null);
      return settle;
    }
    try {
      // Otherwise some of the opened files are no longer those of the path.
      if ((await this.#look()).id !== now.id) {
        next.close();
        return settle;
      }
    } catch (error) {
      next.close();
      throw error;
    }
    this.#known = now;
    this.#rejected = undefined;
    await this.#report(null, next);
    return settle;
  }

  /** Whether a version is neither the caller's nor one whose error was reported, in folders that have not changed. */
  #isNew(now: Version): boolean {
    const isRejected = now.id === this.#rejected?.id && aroundOf(now) === this.#rejected.around;
    return now.id !== this.#known.id && !isRejected;
  }

  async #look(): Promise<Version> {
    const { signal } = this.#ending;
    const now = (await this.#isStill()) ? this.#seen : await this.#find();
    this.#events.follow(now.folders);
    const downloads = this.#isNew(now)
      ? await runAsync(downloadsIn(now.folders.keys()), signal)
      : '';
    const time = performance.now();
    if (now.id !== this.#seen.id) this.#seenSince = time;
    if (now.id !== this.#seen.id || downloads !== this.#downloads) this.#idleSince = time;
    this.#seen = now;
    this.#downloads = downloads;
    return now;
  }

  /** Whether nothing happened since the last look: by the stamps only, if no event came. */
  async #isStill(): Promise<boolean> {
    if (this.#isWoken || this.#seen.id !== this.#known.id) return false;
    this.#comparisons = (this.#comparisons + 1) % COMPARISONS;
    return this.#comparisons > 0 && (await runAsync(isUnchanged(this.#seen), this.#ending.signal));
  }

  async #find(): Promise<Version> {
    this.#isWoken = false;
    return await runAsync(this.#parts.find(), this.#ending.signal);
  }

  /** How much longer a version must stay the same before it is opened. */
  #waitFor({ error, shards, isSubstitute }: Version): number {
    if (error !== undefined) return this.#remaining(this.#idleSince, PATIENCE.error);
    const { shards: known } = this.#known;
    const common = [...shards].filter(([path]) => known.has(path));
    const same = common.filter(([path, stamp]) => known.get(path) === stamp);
    const isPartial = isSubstitute || (same.length > 0 && same.length < common.length);
    return isPartial
      ? this.#remaining(this.#idleSince, PATIENCE.partial)
      : this.#remaining(this.#seenSince, 1);
  }

  #remaining(since: number, patience: number): number {
    return since + patience * this.#parts.settle - performance.now();
  }

  async #openVerified(): Promise<Checkpoint> {
    const { signal } = this.#ending;
    const next = await this.#parts.open(signal);
    try {
      const { problems } = await next.verify({ signal });
      const [first] = problems;
      if (first === undefined) return next;
      const { file, tensor, code, message } = first;
      const more = problems.length > 1 ? ` (1 of ${problems.length} problems)` : '';
      const context = { path: next.path, tensor: tensor ?? undefined };
      throw new SafetensorsError(code as ErrorCode, `${file}: ${message}${more}`, context);
    } catch (error) {
      next.close();
      throw error;
    }
  }

  /** Calls back, unless the watch has ended. An error of the callback is uncaught, as that of any listener. */
  async #report(...change: Parameters<OnChange>): Promise<void> {
    if (this.#ending.signal.aborted) {
      change[1]?.close();
      return;
    }
    try {
      await this.#parts.onChange(...change);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}
