/** Opens the shards of a checkpoint, each once, on first use. */

import { statSync } from 'node:fs';
import { FileClosedError } from '../../errors/errors.js';
import {
  addHolder,
  type DescriptorHolder,
  maxRetainedDescriptors,
} from '../../platform/io/reclaimable-descriptors.js';
import type { StorageKind } from '../../tensor/storage/storage.js';
import { forEach } from '../../work/items.js';
import { untilAborted } from '../../work/until-aborted.js';
import { call, immediate, runAsync, runSync, type Work } from '../../work/work.js';
import type { CloseOptions, SafetensorsFile } from '../file.js';
import type { CheckpointIndex } from '../shards/checkpoint-index.js';
import type { CountedFiles } from '../source/catalog.js';
import type { ListedContents } from '../source/tensor-info.js';
import { type CheckpointFiles, labelOf, type ShardFile } from './find-files.js';
import { contentsOf, type Shard } from './shard.js';
import { readJsonSibling } from './sibling-files.js';

/** A shard in use by calls under way. */
interface ShardInUse<Opened> {
  calls: number;
  /** A file that the last of these calls closes, because shards may outnumber descriptors. */
  file?: Opened | undefined;
  /** The opening by one of these calls. The others wait for it, so that they need no descriptors. */
  opening?: Promise<unknown> | undefined;
}

/**
 * Open files by shard, with the number of their users. Shards may outnumber descriptors: of open files these are
 * reclaimed when the process runs out of them.
 */
class SharedFiles<Opened extends Shard> implements DescriptorHolder {
  /** Files that stay open. */
  readonly open: Map<number, Opened>;
  readonly inUse: Map<number, ShardInUse<Opened>> = new Map();
  /** The storage of the files so far, also after they are closed: `'read'` when one of them is read. */
  storage: StorageKind = 'mmap';
  isDetached = false;
  users = 0;
  /** Open files whose descriptors were not reclaimed. */
  readonly #retained: Set<Opened>;
  #removeHolder: (() => void) | undefined;

  constructor(opened: Iterable<readonly [shard: number, file: Opened]> = []) {
    this.open = new Map(opened);
    for (const file of this.open.values()) this.#note(file);
    this.#retained = new Set(this.open.values());
    this.#hold();
  }

  find(shard: number): Opened | undefined {
    return this.open.get(shard) ?? this.inUse.get(shard)?.file;
  }

  /** Leaves the file of a shard open. */
  keep(shard: number, file: Opened): Opened {
    const use = this.inUse.get(shard);
    if (use?.file === file) use.file = undefined;
    this.open.set(shard, file);
    this.#note(file);
    this.#retained.add(file);
    this.#hold();
    return file;
  }

  #note({ storage }: Opened): void {
    if (storage !== 'mmap') this.storage = storage;
  }

  /** The only file is never reclaimed. */
  #hold(): void {
    if (this.#retained.size > 1) this.#removeHolder ??= addHolder(this);
    if (this.#retained.size > maxRetainedDescriptors()) this.reclaimDescriptors();
  }

  reclaimDescriptors(): number {
    let count = 0;
    for (const file of this.#retained) {
      if (!file.reclaimDescriptor()) continue;
      this.#retained.delete(file);
      count++;
    }
    return count;
  }

  close(options: CloseOptions): void {
    this.#removeHolder?.();
    this.#retained.clear();
    closeFiles(this.open, options);
  }
}

/** Shards by their position in `CheckpointFiles.shards`. */
export class LazyShards<Opened extends Shard = SafetensorsFile> implements CountedFiles {
  /** The files that were found. */
  readonly files: CheckpointFiles;
  readonly #openFile: (path: string) => Work<Opened>;
  readonly #shared: SharedFiles<Opened>;
  #names: readonly string[] | undefined;
  #closed = false;

  /** `shared` are open files; the last user closes them. */
  constructor(
    files: CheckpointFiles,
    openFile: (path: string) => Work<Opened>,
    shared: SharedFiles<Opened> = new SharedFiles(),
  ) {
    this.files = files;
    this.#openFile = openFile;
    this.#shared = shared;
    shared.users++;
  }

  /** Makes shards of these open files, by position; others cannot be opened. */
  static ofOpen<Opened extends Shard>(
    files: CheckpointFiles,
    opened: Iterable<readonly [shard: number, file: Opened]>,
  ): LazyShards<Opened> {
    const none = (path: string): never => {
      throw new FileClosedError({ path });
    };
    return new LazyShards(files, none, new SharedFiles(opened));
  }

  get path(): string | undefined {
    return labelOf(this.files);
  }

  get index(): CheckpointIndex | null {
    return this.files.index;
  }

  get names(): readonly string[] {
    this.#names ??= this.files.shards.map(({ name }) => name);
    return this.#names;
  }

  /** The storage of the opened shards: `'read'` when one of them is read. */
  get storage(): StorageKind {
    return this.#shared.storage;
  }

  /** The open files, by position. */
  get opened(): ReadonlyMap<number, Opened> {
    return this.#shared.open;
  }

  /** False when an open shard has changed, and after `close`. */
  get ok(): boolean {
    return this.#isOpen && [...this.opened.values()].every((file) => file.ok);
  }

  /** Throws FileClosedError after `close`. */
  requireOpen(): void {
    if (!this.#isOpen) throw new FileClosedError({ path: this.path });
  }

  get #isOpen(): boolean {
    return !this.#closed && !this.#shared.isDetached;
  }

  /** Returns the shard, and opens it if needed. */
  open(shard: number): Opened {
    this.requireOpen();
    const open = this.opened.get(shard);
    if (open !== undefined) return open;
    const file = this.#shared.find(shard) ?? runSync(this.#openFile(this.#pathOf(shard)));
    return this.#shared.keep(shard, file);
  }

  /** Opens those of the shards that are not open, some at once where that does not block this thread. */
  *openAll(shards: Iterable<number> = this.files.shards.keys()): Work<void> {
    this.requireOpen();
    const missing = [...shards].filter((shard) => !this.opened.has(shard));
    const keep = (file: Opened, shard: number) => immediate(() => this.#shared.keep(shard, file));
    yield* forEach(missing, (shard) => this.#use(shard, keep));
  }

  onlyContents(): ListedContents {
    return contentsOf(this.open(0));
  }

  *contentsOf(shards: readonly number[]): Work<ListedContents[]> {
    yield* this.openAll(shards);
    return shards.map((shard) => contentsOf(this.open(shard)));
  }

  *allContents(): Work<ListedContents[]> {
    const contents: ListedContents[] = [];
    // biome-ignore lint/correctness/useYield: the header is in memory
    yield* this.useEach(function* (file, shard) {
      contents[shard] = contentsOf(file);
    });
    return contents;
  }

  *contentsAndConfig(): Work<{ contents: readonly ListedContents[]; config: unknown }> {
    const contents = yield* this.allContents();
    return { contents, config: yield* readJsonSibling(this.files, 'config.json') };
  }

  /**
   * Runs work on every shard, on some at once where that does not block this thread. Closes the shards that it
   * opened, unless another call uses them.
   */
  *useEach(work: (file: Opened, shard: number) => Work<unknown>): Work<void> {
    yield* forEach([...this.files.shards.keys()], (shard) => this.#use(shard, work));
  }

  *#use(shard: number, work: (file: Opened, shard: number) => Work<unknown>): Work<void> {
    this.requireOpen();
    const { inUse } = this.#shared;
    const use = inUse.get(shard) ?? { calls: 0 };
    inUse.set(shard, use);
    use.calls++;
    try {
      const file = this.#shared.find(shard) ?? (yield* this.#openFor(use, shard));
      this.requireOpen();
      yield* work(file, shard);
    } finally {
      use.calls--;
      if (use.calls === 0) {
        inUse.delete(shard);
        use.file?.close();
      }
    }
  }

  /** Opens a shard when no other call does; at once where waiting would block this thread. */
  #openFor(use: ShardInUse<Opened>, shard: number): Work<Opened> {
    return call({
      sync: () => runSync(this.#openNew(use, shard)),
      async: async (signal) => {
        while (use.opening !== undefined) {
          await untilAborted(use.opening, signal);
          const file = this.#shared.find(shard);
          if (file !== undefined) return file;
        }
        const opening = runAsync(this.#openNew(use, shard), signal);
        const end = (): void => {
          use.opening = undefined;
        };
        use.opening = opening.then(end, end);
        return await opening;
      },
    });
  }

  *#openNew(use: ShardInUse<Opened>, shard: number): Work<Opened> {
    this.requireOpen();
    const file = yield* this.#openFile(this.#pathOf(shard));
    // A call that does not wait may have opened it meanwhile.
    const other = this.#shared.find(shard);
    if (other === undefined) use.file = file;
    else file.close();
    return other ?? file;
  }

  #pathOf(shard: number): string {
    return (this.files.shards[shard] as ShardFile).path;
  }

  /** All shards; each is opened when its turn comes. */
  *[Symbol.iterator](): Generator<Opened, void, void> {
    for (let shard = 0; shard < this.files.shards.length; shard++) yield this.open(shard);
  }

  /** Length of a shard in bytes, without opening it. */
  byteLength(shard: number): number {
    return this.opened.get(shard)?.byteLength ?? statSync(this.#pathOf(shard)).size;
  }

  /** Work with separate shards: `close` of these leaves them open until it is done, unless it detaches. */
  async use<Result>(work: (shards: LazyShards<Opened>) => Promise<Result>): Promise<Result> {
    this.requireOpen();
    const shards = new LazyShards(this.files, this.#openFile, this.#shared);
    try {
      return await work(shards);
    } finally {
      shards.close({});
    }
  }

  /** Closes all open shards, as `SafetensorsFile.close`. */
  close(options: CloseOptions): void {
    const shared = this.#shared;
    if (!this.#closed) shared.users--;
    this.#closed = true;
    shared.isDetached ||= options.detach === true;
    if (shared.users === 0 || shared.isDetached) shared.close(options);
  }
}

/** Closes all files, even if closing one fails. */
function closeFiles(open: Map<number, Shard>, options: CloseOptions): void {
  const files = [...open.values()];
  open.clear();
  const errors: unknown[] = [];
  for (const file of files) {
    try {
      file.close(options);
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}
