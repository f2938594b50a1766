/** The tensors of a remote checkpoint, from as few headers as possible. */

import type { CheckpointIndex } from '../../file/shards/checkpoint-index.js';
import { CheckpointContents } from '../../file/shards/contents.js';
import { impliedIndex, type ShardNames } from '../../file/shards/implied-index.js';
import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import { takenEntries } from '../../file/shards/taken-entries.js';
import { type TensorInfo, tensorInfo } from '../../file/source/facts.js';
import type { Header } from '../../header/header.js';
import { claimedSum } from '../../header/tensor-sums.js';
import { packedWeightOf } from '../../quantized/plan/packed-weights.js';
import type { DeclaredDigest } from '../../tensor/storage/declared-digests.js';
import type { AsyncFill } from '../../tensor/storage/made.js';
import { filterYielding, forEachYielding, mapYielding } from '../../work/items.js';
import { ofEach } from '../../work/scope.js';
import { runAsync, type Work } from '../../work/work.js';
import type { CheckpointSource, SourceTensor } from '../../write/checkpoint/source.js';
import type { MadePayload } from '../../write/input/tensor-input.js';
import { summedFill } from '../../write/save/summed-fill.js';
import type { SelectionOptions } from '../../write/selection/options.js';
import { Selection, type SelectionSource, selectionSource } from '../../write/selection/select.js';
import { TOTAL_PARAMETERS } from '../../write/selection/total-parameters.js';
import { readRemoteHeader } from '../read-header.js';
import { type RemoteSiblings, requireRemoteModel } from '../require-model.js';
import type { ModelFiles } from './model-files.js';
import type { OrderedBytes } from './ordered-bytes.js';
import { QUESTIONS_AT_ONCE, type SourceFile, type SourceFiles, splitPath } from './source-files.js';
import type { RemoteRange } from './wanted-file.js';

/** A file of the source and its header. */
interface ChosenShard {
  readonly file: SourceFile;
  readonly header: Header;
}

/** A tensor of a shard. */
export class RemoteTensor implements SourceTensor<TensorInfo> {
  readonly shard: ChosenShard;
  readonly name: string;
  readonly info: TensorInfo;
  /** The reader of the tensor's bytes, while its file is received. */
  bytes: OrderedBytes | undefined;
  readonly #entry: number;

  constructor(shard: ChosenShard, entry: number) {
    this.shard = shard;
    this.#entry = entry;
    this.name = shard.header.name(entry);
    this.info = tensorInfo(shard.header, entry);
  }

  /** The range of its bytes. */
  get range(): RemoteRange {
    const { file, header } = this.shard;
    const [begin, end] = this.info.dataOffsets;
    return { file: file.file, begin: header.dataStart + begin, end: header.dataStart + end };
  }

  /** Tensors never share bytes in the format. */
  get memory(): TensorMemory {
    const { name, info } = this;
    const { dtype, shape, dataOffsets } = info;
    const storageByteLength = dataOffsets[1] - dataOffsets[0];
    return { name, dtype, shape, storage: this, storageByteLength, byteOffset: 0 };
  }

  /** The digest that the file declares for it. Throws as `claimedSum`. */
  get digest(): DeclaredDigest | undefined {
    const { file, header } = this.shard;
    const context = { path: file.file.path, tensor: this.name };
    const sum = claimedSum(header, this.#entry, context);
    return sum === undefined ? undefined : { sum, context };
  }

  /** Takes bytes in the order of the file, as the writer asks for them, and compares them with their digest. */
  get payload(): MadePayload {
    const { digest } = this;
    const fill: AsyncFill = (target) => (this.bytes as OrderedBytes).take(target);
    const [begin, end] = this.info.dataOffsets;
    return {
      kind: 'made',
      fill: digest === undefined ? fill : summedFill(fill, { ...digest, byteLength: end - begin }),
      // The file compares the version of every answer.
      verify: () => {},
      storage: undefined,
    };
  }
}

/** A remote checkpoint for selecting tensors. */
export interface RemoteTensors extends CheckpointSource<TensorInfo> {
  /** Whether these are all tensors of the checkpoint. */
  isAll(tensors: readonly SourceTensor<TensorInfo>[]): boolean;
}

/**
 * Requests the headers of the shards with the selected tensors; a function selects among the tensors of all shards.
 *
 * @throws As `SourceFiles.find`; FormatError
 */
export async function readRemoteTensors(
  source: SourceFiles,
  { file, index, shards: places }: ModelFiles,
  options: SelectionOptions<TensorInfo>,
  signal: AbortSignal,
): Promise<RemoteTensors> {
  const { path } = file.file;
  const listed: CheckpointIndex | null = index?.parsed ?? null;
  const inOrder = listed?.shards ?? [...places.keys()];
  const files = inOrder.map((name) => places.get(name) ?? name);
  let shards = new ShardHeaders(source, files, listed !== null);
  if (listed === null) await shards.read(shards.numbers, signal);
  let parsed = listed;
  if (listed === null && files.length > 1) {
    parsed = await runAsync(impliedIndex(shards.named(), path), signal);
    shards = shards.only(parsed.shards);
  }
  const contents = new CheckpointContents(parsed, path, () => shards.at(0).header);
  const names: SelectionSource = {
    path,
    names: () => contents.keys(),
    tensorOf: (name) => contents.find(name)?.name,
    notFound: (name) => contents.notFound(name),
  };
  const selection = new Selection(options, names);
  const model = { shards, index: parsed, path, contents };
  const { tensors, duplicates } = await chosenTensorsIn(model, selection, signal);
  return {
    path,
    files: [],
    duplicates,
    table: null,
    *list() {
      const found = new Set(contents.keys());
      yield* forEachYielding(tensors, ({ name }) => void found.add(name));
      return { ...selectionSource(found, contents.metadata, path), tensors, unselectable: [] };
    },
    metadataOf: (some = tensors) => {
      const used = new Set((some as readonly RemoteTensor[]).map(({ shard }) => shard.header));
      return { files: Array.from(used, ({ metadata }) => metadata), index: listed };
    },
    isAll: (some) => selection.names === null && some.length === tensors.length,
    close: () => {},
  };
}

/** The headers of the shards, each requested on first use. */
class ShardHeaders {
  readonly #source: SourceFiles;
  readonly #names: readonly string[];
  readonly #isIndexed: boolean;
  readonly #shards = new Map<number, ChosenShard>();

  constructor(source: SourceFiles, names: readonly string[], isIndexed: boolean) {
    this.#source = source;
    this.#names = names;
    this.#isIndexed = isIndexed;
  }

  /** Numbers of all shards. */
  get numbers(): number[] {
    return [...this.#names.keys()];
  }

  /** A shard whose header was read. */
  at(number: number): ChosenShard {
    return this.#shards.get(number) as ChosenShard;
  }

  /** Numbers of the shards whose headers were read, in order. */
  get readNumbers(): number[] {
    return this.numbers.filter((number) => this.#shards.has(number));
  }

  /** All shards with their headers, which were read. */
  named(): ShardNames[] {
    return this.#names.map((name, number) => ({ name, header: this.at(number).header }));
  }

  /** The shards of these names, which were read, numbered in this order. */
  only(names: readonly string[]): ShardHeaders {
    const shards = new ShardHeaders(this.#source, names, this.#isIndexed);
    for (const [number, name] of names.entries()) {
      shards.#shards.set(number, this.at(this.#names.indexOf(name)));
    }
    return shards;
  }

  /** Reads the headers of shards by their numbers. */
  async read(numbers: Iterable<number>, signal: AbortSignal): Promise<void> {
    const missing = [...new Set(numbers)].filter((number) => !this.#shards.has(number));
    const read = async (number: number, ends: AbortSignal): Promise<void> => {
      const name = this.#names[number] as string;
      const file = await this.#source.find(name, ends);
      const header = await readRemoteHeader(file.file, undefined, ends);
      const last = splitPath(name)[1];
      const found = { header, file: file.file, name: last, isIndexed: this.#isIndexed };
      await requireRemoteModel(found, siblingsOf(this.#source), ends);
      this.#shards.set(number, { file, header });
    };
    await ofEach(missing, QUESTIONS_AT_ONCE, read, signal);
  }
}

/** The files in the folder of a source; without names where they are not listed. */
function siblingsOf(source: SourceFiles): RemoteSiblings {
  const { entries } = source;
  const file: RemoteSiblings['file'] = async (name, signal) =>
    (await source.find(name, signal)).file;
  if (entries === null) return { file };
  return { file, names: async () => entries.map(({ path }) => splitPath(path)[1]) };
}

/** A model and its headers that were read so far. */
interface RemoteModel {
  readonly shards: ShardHeaders;
  readonly index: CheckpointIndex | null;
  readonly path: string;
  readonly contents: CheckpointContents;
}

/** Tensors to select from. */
interface FoundTensors {
  readonly tensors: RemoteTensor[];
  /** Names that several shards have. */
  readonly duplicates: readonly string[];
}

/**
 * The tensors of all shards, or at least the listed ones and those that tell whether they are quantized; shard by
 * shard, in the order of their bytes.
 */
async function chosenTensorsIn(
  { shards, index, path, contents }: RemoteModel,
  { names: listed, castsAll }: Pick<Selection<TensorInfo>, 'names' | 'castsAll'>,
  signal: AbortSignal,
): Promise<FoundTensors> {
  const numbers = listed === null ? shards.numbers : [...listed].map((n) => contents.shardOf(n));
  await shards.read(numbers, signal);
  if (listed === null) return await runAsync(allTensors(shards, index, path), signal);
  const tellsPacked = castsAll || contents.metadata?.has(TOTAL_PARAMETERS);
  if (tellsPacked) await readPackedWeights(shards, contents, listed, signal);
  const tensors = await runAsync(indexedTensors(shards, contents), signal);
  return { tensors, duplicates: [] };
}

/** The tensors of all shards, each name once; all headers were read. */
function* allTensors(
  shards: ShardHeaders,
  index: CheckpointIndex | null,
  path: string,
): Work<FoundTensors> {
  const headers = shards.numbers.map((number) => shards.at(number).header);
  const { taken, duplicates } = takenEntries(headers, index, path);
  const found: RemoteTensor[][] = [];
  for (const [number, own] of taken.entries()) {
    const shard = shards.at(number);
    const entries = yield* filterYielding([...own.keys()], (entry) => own[entry] === 1);
    found.push(yield* mapYielding(entries, (entry) => new RemoteTensor(shard, entry)));
  }
  return { tensors: found.flat(), duplicates };
}

/** The tensors that the index names in the shards whose headers were read. */
function* indexedTensors(shards: ShardHeaders, contents: CheckpointContents): Work<RemoteTensor[]> {
  const found: RemoteTensor[][] = [];
  for (const number of shards.readNumbers) {
    const shard = shards.at(number);
    const entries = [...contents.entriesIn(number, shard.header)];
    found.push(yield* mapYielding(entries, (entry) => new RemoteTensor(shard, entry)));
  }
  return found.flat();
}

/** Reads the headers of the shards that may hold the quantized weights of these tensors. */
async function readPackedWeights(
  shards: ShardHeaders,
  contents: CheckpointContents,
  names: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const unread = new Set<number>();
    const read = new Set(shards.readNumbers);
    const dtypeOf = (name: string): string | undefined => {
      const number = contents.shardOf(name);
      if (number === -1) return undefined;
      if (read.has(number)) {
        const { header } = shards.at(number);
        const entry = header.find(name);
        return entry === -1 ? undefined : header.dtype(entry);
      }
      unread.add(number);
      return undefined;
    };
    for (const name of names) packedWeightOf(name, dtypeOf);
    if (unread.size === 0) return;
    await shards.read(unread, signal);
  }
}
