/** Yields tensors one after the other, while the next ones are fetched. */

import {
  type OptionNames,
  requireInteger,
  requireNames,
  requireOptions,
  requireSignal,
} from '../errors/arguments.js';
import type { TransferOptions } from '../platform/transfer/transfer.js';
import { untilAborted } from '../platform/transfer/until-aborted.js';
import { merge } from '../tensor/pieces.js';
import type { Tensor } from '../tensor/tensor.js';

/** Options of `SafetensorsFile.stream` and `Checkpoint.stream`. */
export interface StreamOptions {
  /** Which tensors, in this order; all of them in file order by default. */
  readonly names?: Iterable<string> | undefined;
  /**
   * Most bytes fetched, or being fetched, beyond the last tensor handed out; the next tensor is always fetched,
   * however long. 128 MiB by default.
   */
  readonly aheadByteLength?: number | undefined;
  /** Ends the loop: its next turn throws `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
const STREAM_OPTIONS: OptionNames<StreamOptions> = {
  names: true,
  aheadByteLength: true,
  signal: true,
};

const DEFAULT_AHEAD_BYTE_LENGTH = 128 * 2 ** 20;

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
  readonly byteLength: number;
}

/** A group on its way. */
interface FetchedGroup extends Group {
  /** Resolves with the tensors by name when their bytes have arrived. */
  readonly tensors: Promise<(name: string) => Tensor>;
}

/** Throws a TypeError for unusable options. */
export function requireStreamOptions(options: StreamOptions): void {
  requireOptions(options, STREAM_OPTIONS);
  const { names, aheadByteLength, signal } = options;
  if (names !== undefined) requireNames(names);
  if (aheadByteLength !== undefined) {
    requireInteger('aheadByteLength', aheadByteLength, 0, Number.MAX_SAFE_INTEGER);
  }
  requireSignal(signal);
}

/**
 * Yields `[name, tensor]` in the order of the names, which are read on demand. Leaving the loop ends the fetches
 * under way, and waits for them.
 */
export async function* streamTensors(
  source: StreamSource,
  names: Iterable<string>,
  { aheadByteLength = DEFAULT_AHEAD_BYTE_LENGTH, signal }: StreamOptions,
): AsyncGenerator<[string, Tensor], void, void> {
  const end = new AbortController();
  const fetched: FetchedGroup[] = [];
  let ahead = 0;
  const groups = groupsOf(source, names);
  let next = groups.next();
  const fetchAhead = (): void => {
    while (next.done !== true) {
      if (ahead > 0 && ahead + next.value.byteLength > aheadByteLength) return;
      ahead += next.value.byteLength;
      fetched.push({ ...next.value, tensors: fetchGroup(source, next.value, end.signal) });
      next = groups.next();
    }
  };
  try {
    fetchAhead();
    for (let group = fetched[0]; group !== undefined; group = fetched[0]) {
      signal?.throwIfAborted();
      const tensorOf = await untilAborted(group.tensors, signal);
      fetched.shift();
      for (const name of group.names) {
        signal?.throwIfAborted();
        ahead -= source.byteLength(name);
        fetchAhead();
        yield [name, tensorOf(name)];
      }
    }
  } finally {
    end.abort();
    await Promise.allSettled(fetched.map(({ tensors }) => tensors));
  }
}

function* groupsOf(source: StreamSource, names: Iterable<string>): Generator<Group, void, void> {
  const lengths = function* () {
    let position = 0;
    for (const name of names) {
      const byteLength = source.byteLength(name);
      yield { name, position, byteLength };
      position += byteLength;
    }
  };
  const limits = { maxByteLength: GROUP_BYTE_LENGTH, unitOf: () => Number.POSITIVE_INFINITY };
  for (const { parts, byteLength } of merge(lengths(), limits)) {
    yield { names: parts.map(({ range }) => range.name), byteLength };
  }
}

function fetchGroup(
  source: StreamSource,
  { names }: Group,
  signal: AbortSignal,
): Promise<(name: string) => Tensor> {
  const fetch = async (): Promise<(name: string) => Tensor> => {
    if (source.isCopied(names[0] as string)) {
      const read = await source.readTensors(names, { signal });
      return (name) => read.get(name) as Tensor;
    }
    await source.prefetch(names, { signal });
    return (name) => source.getTensor(name);
  };
  const tensors = fetch();
  // Awaited in its turn; until then Node must not report a rejection as unhandled.
  tensors.catch(() => {});
  return tensors;
}
