/** Yields tensors one after the other, while the next ones are fetched. */

import {
  type OptionNames,
  requireBoolean,
  requireInteger,
  requireNames,
  requireOptions,
} from '../../errors/arguments.js';
import type { Tensor } from '../../tensor/tensor.js';
import { type FileRange, type MergeLimits, merge } from '../../work/byte-ranges.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  Transfer,
  type TransferOptions,
  type TransferProgress,
  totalByteLength,
} from '../../work/transfer.js';
import { untilAborted } from '../../work/until-aborted.js';

/** Options of `stream`, of a `Checkpoint` and a `RemoteCheckpoint`. */
export interface StreamOptions {
  /** Which tensors, in this order; all of them in file order by default. */
  readonly names?: Iterable<string> | undefined;
  /**
   * Maximum bytes fetched, or being fetched, after the last tensor that the loop received; the next tensor is always
   * fetched, however long. Locally 128 MiB by default, 64 MiB with `reuse`; remotely 8 MiB for each of the
   * `concurrency` requests.
   */
  readonly prefetchByteLength?: number | undefined;
  /**
   * Fetches what is not in memory past the page cache, on Linux, into memory that is used again: the fastest way to
   * see every byte of a cold checkpoint once. A tensor is valid until the loop's next step; copy what you keep, and
   * don't write to it. Takes memory for the two longest tensors, and for those that are fetched ahead; tensors of more
   * than 256 MiB stay mapped. No effect on remote checkpoints, whose tensors are always in new memory. False by
   * default.
   */
  readonly reuse?: boolean | undefined;
  /** Ends the loop: its next turn throws `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called at most ten times a second while bytes arrive, and once when all have. An error that it throws ends the loop
   * with that error. The total needs the headers of all shards, which are read before the first tensor.
   */
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
}

/** Names of the options. */
const STREAM_OPTIONS: OptionNames<StreamOptions> = {
  names: true,
  prefetchByteLength: true,
  reuse: true,
  ...TRANSFER_OPTIONS,
};

/** A tensor of a stream. */
export interface StreamedTensor extends FileRange {
  readonly name: string;
  /** Tensors of different files are not fetched together. */
  readonly file?: unknown;
}

/** Tensors that are fetched together. */
export interface StreamGroup {
  readonly tensors: readonly StreamedTensor[];
  /** Of all tensors. */
  readonly byteLength: number;
  /** From the first to the last byte of the tensors. */
  readonly range: FileRange;
}

/** Tensors that have arrived. */
export interface Arrival {
  tensorOf(name: string): Tensor;
  /** Call it when the tensors are no longer used. */
  release(): void;
}

/** How a group is fetched. */
export interface GroupFetchOptions extends TransferOptions {
  readonly signal: AbortSignal;
}

/** The source of a stream, local or remote. */
export interface StreamSource {
  /** Tensors up to this length together are fetched together. */
  readonly groupByteLength: number;
  /** Default of the option. */
  readonly prefetchByteLength: number;
  /** Locates the tensors in the order of the stream, on demand. */
  tensors(): Iterable<StreamedTensor>;
  /** Length of all tensors. */
  totalByteLength(): Promise<number>;
  fetch(group: StreamGroup, options: GroupFetchOptions): Promise<Arrival>;
  /** Throws once the source is closed. */
  requireOpen(): void;
  /** Called when no fetch is under way any more. */
  end(): void;
}

/** A group whose bytes are on their way. */
interface FetchedGroup extends StreamGroup {
  /** Resolves when the bytes have arrived. */
  readonly arrival: Promise<Arrival>;
}

/** Throws a TypeError for unusable options. */
export function requireStreamOptions(options: StreamOptions): void {
  requireOptions(options, STREAM_OPTIONS);
  const { names, prefetchByteLength, reuse = false } = options;
  if (names !== undefined) requireNames(names);
  if (prefetchByteLength !== undefined) {
    requireInteger('prefetchByteLength', prefetchByteLength, 0, Number.MAX_SAFE_INTEGER);
  }
  requireBoolean('reuse', reuse);
  requireTransferOptions(options);
}

/**
 * Yields `[name, tensor]` in the order of the source. Leaving the loop ends pending fetches, and waits for them.
 *
 * @throws Errors of the source; the error of `onProgress`; `signal.reason`
 */
export async function* streamTensors(
  source: StreamSource,
  {
    prefetchByteLength = source.prefetchByteLength,
    signal,
    onProgress,
  }: Omit<StreamOptions, 'names'>,
): AsyncGenerator<[string, Tensor], void, void> {
  const end = new AbortController();
  const fetched: FetchedGroup[] = [];
  try {
    const transfer =
      onProgress && new Transfer(await source.totalByteLength(), { signal, onProgress });
    const groups = groupsOf(source);
    let next = groups.next();
    let ahead = 0;
    const fetchAhead = (): void => {
      while (next.done !== true) {
        const group = next.value;
        if (ahead > 0 && ahead + group.byteLength > prefetchByteLength) return;
        ahead += group.byteLength;
        fetched.push({ ...group, arrival: fetchGroup(source, group, transfer, end.signal) });
        next = groups.next();
      }
    };
    const finishOnceComplete = (): void => {
      if (fetched.length === 0 && next.done === true) transfer?.finish();
    };
    fetchAhead();
    finishOnceComplete();
    for (let group = fetched[0]; group !== undefined; group = fetched[0]) {
      signal?.throwIfAborted();
      const { tensorOf, release } = await untilAborted(group.arrival, signal);
      fetched.shift();
      finishOnceComplete();
      for (const { name, byteLength } of group.tensors) {
        signal?.throwIfAborted();
        source.requireOpen();
        ahead -= byteLength;
        fetchAhead();
        yield [name, tensorOf(name)];
      }
      release();
    }
  } finally {
    end.abort();
    await Promise.allSettled(fetched.map(({ arrival }) => arrival));
    source.end();
  }
}

function* groupsOf(source: StreamSource): Generator<StreamGroup, void, void> {
  const limits: MergeLimits<StreamedTensor> = {
    maxByteLength: source.groupByteLength,
    unitOf: () => Number.POSITIVE_INFINITY,
    joins: ({ parts: [first] }, { file }) => first?.range.file === file,
  };
  for (const piece of merge(source.tensors(), limits)) {
    const tensors = piece.parts.map(({ range }) => range);
    yield { tensors, byteLength: totalByteLength(tensors), range: piece };
  }
}

/** Tensors with positions in the stream, so that those which follow each other are fetched together. */
export function* inOrder(
  tensors: Iterable<Omit<StreamedTensor, 'position'>>,
): Generator<StreamedTensor, void, void> {
  let position = 0;
  for (const { name, byteLength } of tensors) {
    yield { name, position, byteLength };
    position += byteLength;
  }
}

/** Fetches a group, and counts its bytes for the progress of the stream. */
function fetchGroup(
  source: StreamSource,
  group: StreamGroup,
  transfer: Transfer | undefined,
  signal: AbortSignal,
): Promise<Arrival> {
  let counted = 0;
  const count = (bytes: number): void => {
    // A fetch may count bytes between the tensors, and counts a tensor that the group repeats once.
    const arrived = Math.min(bytes, group.byteLength);
    transfer?.advance(arrived - counted);
    counted = arrived;
  };
  const onProgress = transfer && (({ bytes }: TransferProgress): void => count(bytes));
  const fetch = async (): Promise<Arrival> => {
    const arrival = await source.fetch(group, { signal, onProgress });
    count(group.byteLength);
    return arrival;
  };
  const arrival = fetch();
  // Awaited in its turn; until then Node must not report a rejection as unhandled.
  arrival.catch(() => {});
  return arrival;
}
