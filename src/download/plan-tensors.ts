/** Chosen tensors of a remote checkpoint as files to be written anew: headers of ours, bytes of the source. */

import { createHash } from 'node:crypto';
import { type CheckpointPlan, planCheckpoint, type TensorTable } from '../checkpoint/write/plan.js';
import { argumentRangeError, requireString } from '../errors/arguments.js';
import { type TensorInfo, tensorInfo } from '../file/facts.js';
import type { Header } from '../format/header.js';
import { type HeaderEntries, layOutEntries } from '../format/header-copy.js';
import type { MetadataInput } from '../format/header-writer.js';
import { Slots } from '../io/transfer.js';
import { readRemoteHeader } from '../remote/read-header.js';
import type { JsonString } from '../shards/checkpoint-index-writer.js';
import { CheckpointContents } from '../shards/contents.js';
import { reshardMetadata } from '../shards/metadata.js';
import { findModel, otherFiles, type PlaceOf } from './model-files.js';
import type { DownloadPlan, PlannedFile, Segment } from './planned-file.js';
import { QUESTIONS_AT_ONCE, type SourceFile, type SourceFiles } from './source-files.js';

/** Which tensors: by names, or by what a function says of each. */
export type TensorChoice = Iterable<string> | ((name: string, info: TensorInfo) => boolean);

/** Which tensors are written, and into files of which size. */
export interface TensorsOptions {
  /** All tensors when it is undefined. */
  readonly names?: TensorChoice | undefined;
  readonly maxShardSize?: number | string | undefined;
}

/** A file of the source and its header. */
interface SourceShard {
  readonly file: SourceFile;
  readonly header: Header;
}

/** A tensor of a shard. */
interface ChosenTensor {
  readonly shard: SourceShard;
  readonly entry: number;
}

/**
 * Plans files of these tensors. Asks for the headers of the shards that have them; a function is asked about
 * the tensors of all shards.
 *
 * @throws As `findModel`; TensorNotFoundError; FormatError; RangeError when the choice has no tensor
 */
export async function planTensors(
  source: SourceFiles,
  { names, maxShardSize }: TensorsOptions,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadPlan> {
  const { file, index } = await findModel(source, placeOf, signal);
  const parsed = index?.parsed ?? null;
  const shards = new ShardHeaders(source, parsed?.shards ?? [file.name]);
  if (parsed === null) await shards.read([0], signal);
  const contents = new CheckpointContents(parsed, file.file.path, () => shards.at(0).header);
  const chosen = await chooseTensors(shards, contents, names, signal);
  if (chosen.length === 0)
    throw argumentRangeError('names', 'a choice of at least one tensor', names);
  const used = [...new Set(chosen.map(({ shard }) => shard))];
  const metadata = used.map(({ header }) => header.metadata);
  const plan = planCheckpoint(new RemoteTensors(chosen), { maxShardSize }, (split) =>
    reshardMetadata(metadata, parsed, split),
  );
  const beside =
    names === undefined ? await otherFiles(source, signal) : { others: [], skipped: [] };
  return { commit: source.hub?.commit ?? null, ...filesOf(plan), ...beside };
}

/** The headers of the shards, each asked for when it is needed. */
class ShardHeaders {
  readonly #source: SourceFiles;
  readonly #names: readonly string[];
  readonly #shards = new Map<number, SourceShard>();

  constructor(source: SourceFiles, names: readonly string[]) {
    this.#source = source;
    this.#names = names;
  }

  /** Numbers of all shards. */
  get numbers(): number[] {
    return [...this.#names.keys()];
  }

  /** A shard whose header was read. */
  at(number: number): SourceShard {
    return this.#shards.get(number) as SourceShard;
  }

  /** Reads the headers of shards by their numbers. */
  async read(numbers: Iterable<number>, signal: AbortSignal): Promise<void> {
    const slots = new Slots(QUESTIONS_AT_ONCE);
    const missing = [...new Set(numbers)].filter((number) => !this.#shards.has(number));
    const read = async (number: number): Promise<void> => {
      signal.throwIfAborted();
      const file = await this.#source.find(this.#names[number] as string, signal);
      const header = await readRemoteHeader(file.file, undefined, signal);
      this.#shards.set(number, { file, header });
    };
    await Promise.all(missing.map((number) => slots.run(() => read(number))));
  }
}

/** The chosen tensors, shard by shard, each in the order of its bytes. */
async function chooseTensors(
  shards: ShardHeaders,
  contents: CheckpointContents,
  names: TensorChoice | undefined,
  signal: AbortSignal,
): Promise<ChosenTensor[]> {
  const entries = new Map<number, Set<number>>();
  const add = (number: number, name: string): void => {
    const entry = shards.at(number).header.find(name);
    if (entry === -1) throw contents.missing(number, name);
    entries.set(number, (entries.get(number) ?? new Set()).add(entry));
  };
  if (names === undefined || typeof names === 'function') {
    await shards.read(shards.numbers, signal);
    for (const number of shards.numbers) {
      const { header } = shards.at(number);
      for (const name of contents.namesIn(number, header)) {
        const isChosen = names?.(name, tensorInfo(header, header.find(name))) ?? true;
        if (isChosen) add(number, name);
      }
    }
  } else {
    const places = Array.from(names, (name) => {
      requireString('name', name);
      const place = contents.find(name);
      if (place === null) throw contents.notFound(name);
      return place;
    });
    await shards.read(
      places.map(({ shard }) => shard),
      signal,
    );
    for (const { shard, name } of places) add(shard, name);
  }
  return shards.numbers.flatMap((number) =>
    [...(entries.get(number) ?? [])]
      .sort((a, b) => a - b)
      .map((entry) => ({ shard: shards.at(number), entry })),
  );
}

/** A file without its data, and where that comes from. */
interface RemoteLayout {
  readonly header: Uint8Array<ArrayBuffer>;
  readonly byteLength: number;
  readonly runs: readonly RemoteRun[];
}

/** Bytes of neighbouring tensors, as positions in the file of their shard. */
interface RemoteRun {
  readonly shard: SourceShard;
  readonly begin: number;
  end: number;
}

/** The chosen tensors by number. */
class RemoteTensors implements TensorTable<RemoteLayout>, HeaderEntries {
  readonly byteLengths: Float64Array;
  /** Nothing of them is on this machine. */
  readonly samples = [];
  readonly #tensors: readonly ChosenTensor[];

  constructor(tensors: readonly ChosenTensor[]) {
    this.#tensors = tensors;
    this.byteLengths = Float64Array.from(
      tensors,
      ({ shard: { header }, entry }) => header.end(entry) - header.begin(entry),
    );
  }

  header(number: number): Header {
    return this.#tensor(number).shard.header;
  }

  entry(number: number): number {
    return this.#tensor(number).entry;
  }

  name(number: number): JsonString {
    const header = this.header(number);
    return { text: header.source, start: header.nameAt(this.entry(number)) };
  }

  layOut(numbers: readonly number[], metadata: MetadataInput | null): RemoteLayout {
    const { header, numbers: order, byteLength } = layOutEntries(this, numbers, metadata);
    const runs: RemoteRun[] = [];
    for (const number of order) {
      const { shard, entry } = this.#tensor(number);
      const begin = shard.header.dataStart + shard.header.begin(entry);
      const end = shard.header.dataStart + shard.header.end(entry);
      const last = runs.at(-1);
      if (last?.shard === shard && last.end === begin) last.end = end;
      else runs.push({ shard, begin, end });
    }
    return { header, byteLength, runs };
  }

  #tensor(number: number): ChosenTensor {
    return this.#tensors[number] as ChosenTensor;
  }
}

function filesOf({
  files,
  pattern,
  index: bytes,
  interimIndex,
}: CheckpointPlan<RemoteLayout>): Pick<DownloadPlan, 'weights' | 'index'> {
  const weights = files.map(({ name, layout }): PlannedFile => {
    const { header, byteLength, runs } = layout;
    const data = runs.map(({ shard, begin, end }) => ({ file: shard.file.file, begin, end }));
    const segments: Segment[] = [{ file: null, bytes: header }, ...data];
    return { name, byteLength, segments, hash: null, version: versionOf(layout) };
  });
  if (bytes === null) return { weights, index: null };
  const own = Uint8Array.from(bytes);
  const { indexFilename: name } = pattern;
  const segments = [{ file: null, bytes: own }];
  const facts = { name, byteLength: own.length, segments, hash: null, version: null };
  return { weights, index: { ...facts, bytes: own, interimIndex } };
}

/** Two files with one version have the same bytes: header, and runs of files of the same contents. */
function versionOf({ header, runs }: RemoteLayout): string | null {
  const hash = createHash('sha256').update(header);
  for (const { shard, begin, end } of runs) {
    const { version } = shard.file;
    if (version === null) return null;
    hash.update(`${version} ${begin} ${end}\n`);
  }
  return hash.digest('hex');
}
