/** Fetches from several shards one after the other, with one progress and one abort. */

import { tensorByteLength } from '../../header/tensor-spec.js';
import type { Tensor } from '../../tensor/tensor.js';
import { forEachYielding, mapYielding } from '../../work/items.js';
import { Transfer, type TransferOptions } from '../../work/transfer.js';
import { runAsync, type Work } from '../../work/work.js';
import type { Catalog } from '../source/catalog.js';
import type { LazyShards } from './lazy-shards.js';
import { isOther, type Shard, verifiedContents } from './shard.js';

/** A tensor in its open shard. */
interface TensorInFile {
  readonly file: Shard;
  /** Name in the shard: for an alias that of the kept tensor. */
  readonly name: string;
  /** Length in bytes. */
  readonly byteLength: number;
}

/** The tensors to fetch from one shard. */
export interface ShardWork {
  readonly file: Shard;
  /** Undefined for all tensors. */
  readonly names: readonly string[] | undefined;
  /** Length of the tensors in bytes: the shard's share of the progress. */
  readonly byteLength: number;
}

/**
 * Returns the places of the named tensors, in the order given, or of all in the order of `tensors`. Opens their shards,
 * unless a name is unknown.
 */
export function* placesIn(
  shards: LazyShards<Shard>,
  catalog: Catalog,
  names: readonly string[] | undefined,
): Work<Map<string, TensorInFile>> {
  const located = yield* catalog.locateAll(names);
  const places = yield* mapYielding(located, ([wanted, { shard, name, contents, entry }]) => {
    const [dtype, shape] = [contents.dtype(entry), contents.shape(entry)];
    const byteLength = tensorByteLength({ dtype, shape });
    return [wanted, { file: shards.open(shard), name, byteLength }] as const;
  });
  return new Map(places);
}

/** Plans what to fetch for these tensors, all by default; opens their shards. */
export function* worksIn(
  shards: LazyShards<Shard>,
  catalog: Catalog,
  names: readonly string[] | undefined,
): Work<ShardWork[]> {
  if (names !== undefined) return yield* worksOf(yield* placesIn(shards, catalog, names));
  yield* shards.openAll();
  return Array.from(shards, (file) => {
    verifiedContents(file);
    const dataStart = isOther(file) ? 0 : file.dataStart;
    return { file, names: undefined, byteLength: file.byteLength - dataStart };
  });
}

/** Plans what to fetch for some tensors, by shard; each tensor once, even under several names. */
function* worksOf(places: ReadonlyMap<string, TensorInFile>): Work<ShardWork[]> {
  const lengthsByFile = new Map<Shard, Map<string, number>>();
  yield* forEachYielding(places.values(), ({ file, name, byteLength }) => {
    const lengths = lengthsByFile.get(file) ?? new Map<string, number>();
    lengthsByFile.set(file, lengths.set(name, byteLength));
  });
  return Array.from(lengthsByFile, ([file, lengths]) => {
    const byteLength = [...lengths.values()].reduce((sum, length) => sum + length, 0);
    return { file, names: [...lengths.keys()], byteLength };
  });
}

/**
 * Moves every shard's tensors by `move`, in this order. A shard uses all the threads that transfers
 * may use: several shards at once would not be faster.
 */
export async function transferShards<Task extends Pick<ShardWork, 'byteLength'>>(
  works: readonly Task[],
  options: TransferOptions,
  requireOpen: () => void,
  move: (work: Task, options: TransferOptions) => Promise<void>,
): Promise<void> {
  const totalBytes = works.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const transfer = new Transfer(totalBytes, options, requireOpen);
  for (const work of works) {
    let arrived = 0;
    await move(work, {
      signal: options.signal,
      // A shard's own total includes gaps that it fetches, and lacks bytes that it has already.
      onProgress: (shard) => {
        const share = shard.totalBytes === 0 ? 1 : shard.bytes / shard.totalBytes;
        const bytes = Math.floor(work.byteLength * share);
        transfer.advance(bytes - arrived);
        arrived = bytes;
      },
    });
  }
  transfer.finish();
}

/** Reads tensors, each into separate memory; by the names of the places, in their order. */
export async function readPlaces(
  places: ReadonlyMap<string, TensorInFile>,
  options: TransferOptions,
): Promise<Map<string, Tensor>> {
  const works = await runAsync(worksOf(places), options.signal);
  const read = new Map<Shard, Map<string, Tensor>>();
  await transferShards(
    works,
    options,
    () => {},
    async ({ file, names }, shardOptions) => {
      read.set(file, await file.readTensors(names, shardOptions));
    },
  );
  // All bytes have arrived, so an abort ends nothing.
  return await runAsync(tensorsAt(places, read), undefined);
}

function* tensorsAt(
  places: ReadonlyMap<string, TensorInFile>,
  read: ReadonlyMap<Shard, ReadonlyMap<string, Tensor>>,
): Work<Map<string, Tensor>> {
  const tensors = new Map<string, Tensor>();
  yield* forEachYielding(places, ([wanted, { file, name }]) => {
    tensors.set(wanted, read.get(file)?.get(name) as Tensor);
  });
  return tensors;
}
