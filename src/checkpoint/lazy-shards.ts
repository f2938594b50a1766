/** The shards of a checkpoint, each opened once, when it is first needed. */

import { statSync } from 'node:fs';
import { FileClosedError } from '../errors/errors.js';
import type { CloseOptions, SafetensorsFile } from '../file/file.js';
import { forEach, runSync, type Steps } from '../io/steps.js';
import type { StorageKind } from '../storage/storage.js';
import type { CheckpointFiles, ShardFile } from './find-files.js';
import type { Shard } from './shard.js';

/** Shards by their position in `CheckpointFiles.shards`. */
export class LazyShards<Opened extends Shard = SafetensorsFile> {
  /** The files that were found. */
  readonly files: CheckpointFiles;
  readonly #openFile: (path: string) => Steps<Opened>;
  readonly #open: Map<number, Opened>;
  #isRead = false;
  #closed = false;
  #users = 0;

  /** `opened` are those that are open already; the shards close them. */
  constructor(
    files: CheckpointFiles,
    openFile: (path: string) => Steps<Opened>,
    opened: readonly Opened[] = [],
  ) {
    this.files = files;
    this.#openFile = openFile;
    this.#open = new Map(opened.entries());
    this.#isRead = opened.some(hasReadStorage);
  }

  /** Shards that are all open, in the order of the files. */
  static ofOpen<Opened extends Shard>(
    files: CheckpointFiles,
    opened: readonly Opened[],
  ): LazyShards<Opened> {
    const none = (path: string): never => {
      throw new FileClosedError({ path });
    };
    return new LazyShards(files, none, opened);
  }

  /** Where bytes come from, as far as shards were opened: `'read'` when that is so of one of them. */
  get storage(): StorageKind {
    return this.#isRead ? 'read' : 'mmap';
  }

  /** Those that are open, by their positions. */
  get opened(): ReadonlyMap<number, Opened> {
    return this.#open;
  }

  /** False when an open shard has changed, and after `close`. */
  get ok(): boolean {
    return !this.#closed && [...this.#open.values()].every((file) => file.ok);
  }

  /** Throws FileClosedError after `close`. */
  requireOpen(): void {
    if (this.#closed) throw new FileClosedError({ path: this.files.path });
  }

  /** The open shard; opened now when it was not. */
  open(shard: number): Opened {
    this.requireOpen();
    return this.#open.get(shard) ?? runSync(this.#openNew(shard));
  }

  /** Opens all shards that are not open, some at once where that does not block this thread. */
  *openAll(): Steps<void> {
    const { shards } = this.files;
    const missing = [...shards.keys()].filter((shard) => !this.#open.has(shard));
    yield* forEach(missing, (shard) => this.#openNew(shard));
  }

  *#openNew(shard: number): Steps<Opened> {
    const { path } = this.files.shards[shard] as ShardFile;
    const file = yield* this.#openFile(path);
    // Others had their turn meanwhile.
    const other = this.#open.get(shard);
    if (other !== undefined || this.#closed) file.close();
    this.requireOpen();
    if (other !== undefined) return other;
    this.#open.set(shard, file);
    this.#isRead ||= hasReadStorage(file);
    return file;
  }

  /** All shards; each is opened when its turn comes. */
  *[Symbol.iterator](): Generator<Opened, void, void> {
    for (let shard = 0; shard < this.files.shards.length; shard++) yield this.open(shard);
  }

  /** Length of a shard in bytes, without opening it. */
  byteLength(shard: number): number {
    const { path } = this.files.shards[shard] as ShardFile;
    return this.#open.get(shard)?.byteLength ?? statSync(path).size;
  }

  /** While `work` goes on, `close` leaves the shards open, unless it detaches. */
  async use<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#users++;
    try {
      return await work();
    } finally {
      this.#users--;
      if (this.#closed && this.#users === 0) this.#closeFiles({});
    }
  }

  /** Closes all open shards, as `SafetensorsFile.close`. */
  close(options: CloseOptions): void {
    this.#closed = true;
    if (this.#users === 0 || options.detach === true) this.#closeFiles(options);
  }

  #closeFiles(options: CloseOptions): void {
    const files = [...this.#open.values()];
    this.#open.clear();
    const errors: unknown[] = [];
    for (const file of files) {
      try {
        file.close(options);
      } catch (error) {
        // The others are closed all the same.
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}

function hasReadStorage({ storage }: Shard): boolean {
  return storage === 'read';
}
