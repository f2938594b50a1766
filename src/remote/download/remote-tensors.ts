/** The tensors of a remote checkpoint, from as few headers as possible. */

import type { CheckpointIndex } from '../../file/shards/checkpoint-index.js';
import { impliedIndex } from '../../file/shards/implied-index.js';
import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import { takenEntries } from '../../file/shards/taken-entries.js';
import { Catalog, type CatalogFiles } from '../../file/source/catalog.js';
import { type TensorInfo, tensorInfo } from '../../file/source/tensor-info.js';
import type { Header } from '../../header/header.js';
import { digestOf } from '../../header/tensor-digests.js';
import { packedWeightOf } from '../../quantized/plan/packed-weights.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import type { DeclaredDigest } from '../../tensor/storage/declared-digests.js';
import { filterYielding, forEachYielding, mapYielding } from '../../work/items.js';
import { ofEach } from '../../work/scope.js';
import { call, runAsync, type Work } from '../../work/work.js';
import type { CheckpointSource, SourceTensor } from '../../write/checkpoint/source.js';
import type { ComputedPayload } from '../../write/input/tensor-input.js';
import { verifyingFill } from '../../write/save/verifying-fill.js';
import type { SelectionOptions } from '../../write/selection/options.js';
import { Selection, type SelectionSource, selectionSource } from '../../write/selection/select.js';
import { TOTAL_PARAMETERS } from '../../write/selection/total-parameters.js';
import { readRemoteHeader } from '../read-header.js';
import { type RemoteSiblings, requireRemoteModel } from '../require-model.js';
import type { RemoteRange } from './download-item.js';
import type { ModelFiles } from './model-files.js';
import type { OrderedBytes } from './ordered-bytes.js';
import { QUESTIONS_AT_ONCE, type SourceFile, type SourceFiles, splitPath } from './source-files.js';

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

  /** The digest that the file declares for it. Throws as `digestOf`. */
  get digest(): DeclaredDigest | undefined {
    const { file, header } = this.shard;
    const context = { path: file.file.path, tensor: this.name };
    const hex = digestOf(header, this.#entry, context);
    return hex === undefined ? undefined : { hex, context };
  }

  /** Takes bytes in the order of the file, as the writer asks for them, and compares them with their digest. */
  get payload(): ComputedPayload {
    const { digest } = this;
    const fill: AsyncFill = (target) => (this.bytes as OrderedBytes).take(target);
    const [begin, end] = this.info.dataOffsets;
    return {
      kind: 'computed',
      fill:
        digest === undefined ? fill : verifyingFill(fill, { ...digest, byteLength: end - begin }),
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
  const names = listed?.shards ?? [...places.keys()];
  const files = names.map((name) => places.get(name) ?? name);
  const found = new SourceShards(source, { path, index: listed, names: files });
  const shards = listed === null ? await opened(found, signal) : found;
  const catalog = new Catalog(shards, []);
  const selectable: SelectionSource = {
    path,
    names: () => catalog.keys(),
    tensorOf: (name) => catalog.find(name)?.name,
    notFound: (name) => catalog.notFound(name),
  };
  const selection = new Selection(options, selectable);
  const { tensors, duplicates } = await chosenTensorsIn({ shards, catalog }, selection, signal);
  return {
    path,
    files: [],
    duplicates,
    table: null,
    *list() {
      const found = new Set(catalog.keys());
      yield* forEachYielding(tensors, ({ name }) => void found.add(name));
      return { ...selectionSource(found, catalog.metadata, path), tensors, unselectable: [] };
    },
    metadataOf: (some = tensors) => {
      const used = new Set((some as readonly RemoteTensor[]).map(({ shard }) => shard.header));
      return { files: Array.from(used, ({ metadata }) => metadata), index: listed };
    },
    isAll: (some) => selection.names === null && some.length === tensors.length,
    close: () => {},
  };
}

/** Requests the header of the only file, or those of shards without an index, whose index it makes. */
async function opened(shards: SourceShards, signal: AbortSignal): Promise<SourceShards> {
  const headers = await runAsync(shards.allContents(), signal);
  if (headers.length === 1) return shards;
  const named = headers.map((header, i) => ({ name: shards.names[i] as string, header }));
  return shards.withIndex(await runAsync(impliedIndex(named, shards.path), signal));
}

/** The shards of a source of downloads; requests each header on first use. */
class SourceShards implements CatalogFiles {
  readonly path: string;
  readonly index: CheckpointIndex | null;
  /** Paths of the shards below the folder of the source. */
  readonly names: readonly string[];
  readonly #source: SourceFiles;
  readonly #shards = new Map<number, ChosenShard>();

  constructor(
    source: SourceFiles,
    { path, index, names }: Pick<SourceShards, 'path' | 'index' | 'names'>,
  ) {
    this.#source = source;
    this.path = path;
    this.index = index;
    this.names = names;
  }

  /** The shards of an index that was made of their headers, in its order. */
  withIndex(index: CheckpointIndex): SourceShards {
    const shards = new SourceShards(this.#source, { path: this.path, index, names: index.shards });
    for (const [number, name] of index.shards.entries()) {
      shards.#shards.set(number, this.at(this.names.indexOf(name)));
    }
    return shards;
  }

  /** A download ends with its signal. */
  requireOpen(): void {}

  onlyContents(): Header {
    return this.at(0).header;
  }

  contentsOf(numbers: readonly number[]): Work<Header[]> {
    return call({
      async: async (signal) => {
        const missing = numbers.filter((number) => !this.#shards.has(number));
        await ofEach(
          missing,
          QUESTIONS_AT_ONCE,
          (number, ends) => this.#read(number, ends),
          signal,
        );
        return numbers.map((number) => this.at(number).header);
      },
    });
  }

  allContents(): Work<Header[]> {
    return this.contentsOf([...this.names.keys()]);
  }

  /** A shard whose header was read. */
  at(number: number): ChosenShard {
    return this.#shards.get(number) as ChosenShard;
  }

  /** Numbers of the shards whose headers were read, in order. */
  get readNumbers(): number[] {
    return [...this.names.keys()].filter((number) => this.#shards.has(number));
  }

  async #read(number: number, signal: AbortSignal): Promise<void> {
    const path = this.names[number] as string;
    const file = await this.#source.find(path, signal);
    const header = await readRemoteHeader(file.file, undefined, signal);
    const [, name] = splitPath(path);
    const found = { header, file: file.file, name, isIndexed: this.index !== null };
    await requireRemoteModel(found, siblingsOf(this.#source), signal);
    this.#shards.set(number, { file, header });
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

/** A model, and its headers that were read so far. */
interface RemoteModel {
  readonly shards: SourceShards;
  readonly catalog: Catalog;
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
  { shards, catalog }: RemoteModel,
  { names: listed, castsAll }: Pick<Selection<TensorInfo>, 'names' | 'castsAll'>,
  signal: AbortSignal,
): Promise<FoundTensors> {
  if (listed === null) {
    await runAsync(shards.allContents(), signal);
    return await runAsync(allTensors(shards), signal);
  }
  const numbers = new Set(Array.from(listed, (name) => catalog.place(name).shard));
  await runAsync(shards.contentsOf([...numbers]), signal);
  const tellsPacked = castsAll || catalog.metadata?.has(TOTAL_PARAMETERS);
  if (tellsPacked) await readPackedWeights(shards, catalog, listed, signal);
  return { tensors: await runAsync(indexedTensors(shards, catalog), signal), duplicates: [] };
}

/** The tensors of all shards, each name once; all headers were read. */
function* allTensors(shards: SourceShards): Work<FoundTensors> {
  const numbers = shards.readNumbers;
  const headers = numbers.map((number) => shards.at(number).header);
  const { taken, duplicates } = takenEntries(headers, shards.index, shards.path);
  const found: RemoteTensor[][] = [];
  for (const [number, own] of taken.entries()) {
    const shard = shards.at(number);
    const entries = yield* filterYielding([...own.keys()], (entry) => own[entry] === 1);
    found.push(yield* mapYielding(entries, (entry) => new RemoteTensor(shard, entry)));
  }
  return { tensors: found.flat(), duplicates };
}

/** The tensors that the index names in the shards whose headers were read. */
function* indexedTensors(shards: SourceShards, catalog: Catalog): Work<RemoteTensor[]> {
  const found: RemoteTensor[][] = [];
  for (const number of shards.readNumbers) {
    const shard = shards.at(number);
    const entries = catalog.entriesIn(number, shard.header);
    found.push(yield* mapYielding(entries, (entry) => new RemoteTensor(shard, entry)));
  }
  return found.flat();
}

/** Reads the headers of the shards that may hold the quantized weights of these tensors. */
async function readPackedWeights(
  shards: SourceShards,
  catalog: Catalog,
  names: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const unread = new Set<number>();
    const read = new Set(shards.readNumbers);
    const dtypeOf = (name: string): string | undefined => {
      const place = catalog.find(name);
      if (place?.name !== name) return undefined;
      if (read.has(place.shard)) {
        const { header } = shards.at(place.shard);
        const entry = header.find(name);
        return entry === -1 ? undefined : header.dtype(entry);
      }
      unread.add(place.shard);
      return undefined;
    };
    for (const name of names) packedWeightOf(name, dtypeOf);
    if (unread.size === 0) return;
    await runAsync(shards.contentsOf([...unread]), signal);
  }
}
