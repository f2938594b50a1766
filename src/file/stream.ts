/** Yields tensors one after the other, while the next ones are fetched. */

import {
  type OptionNames,
  requireBoolean,
  requireInteger,
  requireNames,
  requireOptions,
  requireSignal,
} from '../errors/arguments.js';
import type { Storage } from '../tensor/storage/storage.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { type FileRange, type MergeLimits, merge } from '../work/byte-ranges.js';
import { type TransferOptions, totalByteLength } from '../work/transfer.js';
import { untilAborted } from '../work/until-aborted.js';
import { type Arrival, ReusedMemory } from './reused-memory.js';

/** Options of `Checkpoint.stream`. */
export interface StreamOptions {
  /** Which tensors, in this order; all of them in file order by default. */
  readonly names?: Iterable<string> | undefined;
  /**
   * Most bytes fetched, or being fetched, beyond the last tensor handed out; the next tensor is always fetched,
   * however long. 128 MiB by default, 64 MiB with `reuse`.
   */
  readonly prefetchByteLength?: number | undefined;
  /**
   * Fetches what is not in memory past the page cache, on Linux, into memory that is used again: the fastest way to
   * see every byte of a cold checkpoint once. A tensor is valid until the loop's next step; copy what you keep, and
   * don't write to it. Takes memory for the two longest tensors, and for those that are fetched ahead; tensors of more
   * than 256 MiB stay mapped. False by default.
   */
  readonly reuse?: boolean | undefined;
  /** Ends the loop: its next turn throws `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
const STREAM_OPTIONS: OptionNames<StreamOptions> = {
  names: true,
  prefetchByteLength: true,
  reuse: true,
  signal: true,
};

const DEFAULT_PREFETCH_BYTE_LENGTH = 128 * 2 ** 20;
const DEFAULT_REUSED_BYTE_LENGTH = 64 * 2 ** 20;

/** Tensors up to this length together are fetched together: each fetch costs some 50 µs. */
const GROUP_BYTE_LENGTH = 4 * 2 ** 20;

/** The source of a stream: a file or a checkpoint. */
export interface StreamSource {
  /** Length of a tensor in bytes. */
  byteLength(name: string): number;
  /** Whether handing out copies the bytes and keeps them until the source is closed. */
  isCopied(name: string): boolean;
  getTensor(name: string): Tensor;
  prefetch(names: readonly string[], options: TransferOptions): Promise<void>;
  readTensors(names: readonly string[], options: TransferOptions): Promise<Map<string, Tensor>>;
}

/** Tensors that are fetched together. */
interface Group {
  readonly names: readonly string[];
  /** Of all tensors. */
  readonly byteLength: number;
  /** Where they lie, with `reuse` in one file. */
  readonly range: FileRange;
}

/** A group on its way. */
interface FetchedGroup extends Group {
  /** Resolves when the bytes have arrived. */
  readonly arrival: Promise<Arrival>;
}

/** Throws a TypeError for unusable options. */
export function requireStreamOptions(options: StreamOptions): void {
  requireOptions(options, STREAM_OPTIONS);
  const { names, prefetchByteLength, reuse = false, signal } = options;
  if (names !== undefined) requireNames(names);
  if (prefetchByteLength !== undefined) {
    requireInteger('prefetchByteLength', prefetchByteLength, 0, Number.MAX_SAFE_INTEGER);
  }
  requireBoolean('reuse', reuse);
  requireSignal(signal);
}

/**
 * Yields `[name, tensor]` in the order of the names, which are read on demand. Leaving the loop ends the fetches
 * under way, and waits for them.
 */
export async function* streamTensors(
  source: StreamSource,
  names: Iterable<string>,
  { reuse, prefetchByteLength, signal }: StreamOptions,
): AsyncGenerator<[string, Tensor], void, void> {
  const memory = reuse ? new ReusedMemory() : undefined;
  const limit =
    prefetchByteLength ?? (reuse ? DEFAULT_REUSED_BYTE_LENGTH : DEFAULT_PREFETCH_BYTE_LENGTH);
  const end = new AbortController();
  const fetched: FetchedGroup[] = [];
  let ahead = 0;
  const groups = groupsOf(
    memory === undefined ? lengthsOf(source, names) : placesOf(source, names),
  );
  let next = groups.next();
  const fetchAhead = (): void => {
    while (next.done !== true) {
      if (ahead > 0 && ahead + next.value.byteLength > limit) return;
      ahead += next.value.byteLength;
      fetched.push({ ...next.value, arrival: fetchGroup(source, next.value, memory, end.signal) });
      next = groups.next();
    }
  };
  try {
    fetchAhead();
    for (let group = fetched[0]; group !== undefined; group = fetched[0]) {
      signal?.throwIfAborted();
      const { tensorOf, release } = await untilAborted(group.arrival, signal);
      fetched.shift();
      for (const name of group.names) {
        signal?.throwIfAborted();
        ahead -= source.byteLength(name);
        fetchAhead();
        yield [name, tensorOf(name)];
      }
      release();
    }
  } finally {
    end.abort();
    await Promise.allSettled(fetched.map(({ arrival }) => arrival));
    memory?.end();
  }
}

/** A tensor of the stream. */
interface Streamed extends FileRange {
  readonly name: string;
  /** The storage of the tensors that it may be fetched with. */
  readonly storage?: Storage | undefined;
}

/** Bytes are counted from the first tensor: whatever follows in the stream is near. */
function* lengthsOf(
  source: StreamSource,
  names: Iterable<string>,
): Generator<Streamed, void, void> {
  let position = 0;
  for (const name of names) {
    const byteLength = source.byteLength(name);
    yield { name, position, byteLength };
    position += byteLength;
  }
}

/** The tensors where they are. */
function* placesOf(source: StreamSource, names: Iterable<string>): Generator<Streamed, void, void> {
  for (const name of names) {
    const { position, byteLength, untouchedFile } = TensorOf.sourceOf(source.getTensor(name));
    yield { name, position, byteLength, storage: untouchedFile };
  }
}

function* groupsOf(tensors: Iterable<Streamed>): Generator<Group, void, void> {
  const limits: MergeLimits<Streamed> = {
    maxByteLength: GROUP_BYTE_LENGTH,
    unitOf: () => Number.POSITIVE_INFINITY,
    joins: ({ parts: [first] }, { storage }) => first?.range.storage === storage,
  };
  for (const piece of merge(tensors, limits)) {
    const parts = piece.parts.map(({ range }) => range);
    yield {
      names: parts.map(({ name }) => name),
      byteLength: totalByteLength(parts),
      range: piece,
    };
  }
}

function fetchGroup(
  source: StreamSource,
  { names, range }: Group,
  memory: ReusedMemory | undefined,
  signal: AbortSignal,
): Promise<Arrival> {
  const fetch = async (): Promise<Arrival> => {
    if (memory !== undefined) {
      const tensors = new Map(names.map((name) => [name, source.getTensor(name)]));
      const arrival = await memory.fetch(tensors, range, signal);
      if (arrival !== undefined) return arrival;
    }
    if (source.isCopied(names[0] as string)) {
      const read = await source.readTensors(names, { signal });
      return { tensorOf: (name) => read.get(name) as Tensor, release() {} };
    }
    await source.prefetch(names, { signal });
    return { tensorOf: (name) => source.getTensor(name), release() {} };
  };
  const arrival = fetch();
  // Awaited in its turn; until then Node must not report a rejection as unhandled.
  arrival.catch(() => {});
  return arrival;
}
