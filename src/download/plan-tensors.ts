/** Chosen tensors of a remote checkpoint as files to be written anew: headers of ours, bytes of the source. */

import { createHash } from 'node:crypto';
import {
  type CheckpointLayout,
  layOutCheckpoint,
  type TensorTable,
} from '../checkpoint/write/layout.js';
import { type TensorInfo, tensorInfo } from '../file/facts.js';
import type { Header } from '../format/header.js';
import { layOut } from '../format/header-writer.js';
import type { TensorFacts } from '../format/tensor-spec.js';
import { Slots } from '../io/pieces.js';
import { packedWeightOf } from '../quantized/packed-weights.js';
import { readRemoteHeader } from '../remote/read-header.js';
import { counterOf, reportOf } from '../selection/cast-report.js';
import type { SelectionOptions } from '../selection/options.js';
import { type Selected, Selection } from '../selection/select.js';
import { TOTAL_PARAMETERS } from '../selection/total-parameters.js';
import { CheckpointContents } from '../shards/contents.js';
import { reshardMetadata } from '../shards/metadata.js';
import { findModel, otherFiles, type PlaceOf } from './model-files.js';
import { targetLengthOf } from './pieces.js';
import { QUESTIONS_AT_ONCE, type SourceFile, type SourceFiles } from './source-files.js';
import type { CastRun, Segment, WantedFile, WantedFiles } from './wanted-file.js';

/** Which tensors are written, as what, and into files of which size. */
export interface TensorsOptions extends SelectionOptions {
  readonly maxShardSize?: number | string | undefined;
}

/** A file of the source and its header. */
interface SourceShard {
  readonly file: SourceFile;
  readonly header: Header;
}

/** A tensor of a shard. */
interface ShardTensor {
  readonly shard: SourceShard;
  readonly name: string;
  readonly info: TensorInfo;
}

/**
 * Plans files of these tensors. Asks for the headers of the shards that have them; a function is asked about
 * the tensors of all shards.
 *
 * @throws As `findModel`, as `Selection.of`; FormatError
 */
export async function planTensors(
  source: SourceFiles,
  { maxShardSize, ...options }: TensorsOptions,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<WantedFiles> {
  const { file, index } = await findModel(source, placeOf, signal);
  const parsed = index?.parsed ?? null;
  const { path } = file.file;
  const shards = new ShardHeaders(source, parsed?.shards ?? [file.name]);
  if (parsed === null) await shards.read([0], signal);
  const contents = new CheckpointContents(parsed, path, () => shards.at(0).header);
  const selection = new Selection(options, {
    path,
    names: () => contents.keys(),
    tensorOf: (name) => contents.find(name)?.name,
    notFound: (name) => contents.notFound(name),
  });
  const given = await tensorsIn(shards, contents, selection, signal);
  const selected = selection.of(given);
  const overflowed = new Map<string, number>();
  const tensors = selected.map((tensor) => remoteTensorOf(tensor, overflowed));
  const metadataOf = selection.metadataOf(selected);
  const used = [...new Set(tensors.map(({ shard }) => shard))];
  const metadata = used.map(({ header }) => metadataOf(header.metadata));
  const ofIndex = parsed && { metadata: metadataOf(parsed.metadata), jsonKeys: parsed.jsonKeys };
  const plan = layOutCheckpoint(tableOf(tensors), { maxShardSize }, (split) =>
    reshardMetadata(metadata, ofIndex, split),
  );
  const isAll = selection.names === null && selected.length === given.length;
  const beside = isAll ? await otherFiles(source, placeOf, signal) : { others: [], skipped: [] };
  const casts = reportOf(selected, overflowed);
  return { commit: source.hub?.commit ?? null, ...filesOf(plan), ...beside, casts };
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

  /** Numbers of the shards whose headers were read, in order. */
  get readNumbers(): number[] {
    return this.numbers.filter((number) => this.#shards.has(number));
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

/**
 * The tensors of all shards, or at least those that are listed and what tells whether these are quantized; shard
 * by shard, each in the order of its bytes.
 */
async function tensorsIn(
  shards: ShardHeaders,
  contents: CheckpointContents,
  { names: listed, castsAll }: Pick<Selection<TensorInfo>, 'names' | 'castsAll'>,
  signal: AbortSignal,
): Promise<ShardTensor[]> {
  const numbers = listed === null ? shards.numbers : [...listed].map((n) => contents.shardOf(n));
  await shards.read(numbers, signal);
  const tellsPacked = castsAll || contents.metadata?.has(TOTAL_PARAMETERS);
  if (listed !== null && tellsPacked) await readPackedWeights(shards, contents, listed, signal);
  return shards.readNumbers.flatMap((number) => {
    const shard = shards.at(number);
    const { header } = shard;
    const names = contents.namesIn(number, header);
    const entries = names.map((name) => {
      const entry = header.find(name);
      if (entry === -1) throw contents.missing(number, name);
      return entry;
    });
    entries.sort((a, b) => a - b);
    return entries.map((entry) => ({
      shard,
      name: header.name(entry),
      info: tensorInfo(header, entry),
    }));
  });
}

/** Reads the headers of the shards that may have quantized weights to which these tensors belong. */
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

/** A tensor to be written. */
interface RemoteTensor extends TensorFacts {
  readonly shard: SourceShard;
  /** Where its bytes are in the file of the shard. */
  readonly begin: number;
  readonly end: number;
  readonly cast: CastRun | undefined;
}

function remoteTensorOf(
  { tensor: { shard, info }, name, cast }: Selected<ShardTensor>,
  overflowed: Map<string, number>,
): RemoteTensor {
  const { dataStart } = shard.header;
  const [begin, end] = info.dataOffsets.map((offset) => dataStart + offset) as [number, number];
  const run = cast === null ? undefined : { ...cast, onTooLarge: counterOf(overflowed, name) };
  const byteLength = targetLengthOf(run, end - begin);
  const { dtype, shape } = info;
  return { name, dtype: cast?.to ?? dtype, shape, byteLength, shard, begin, end, cast: run };
}

/** A file without its data, and where that comes from. */
interface RemoteLayout {
  readonly header: Uint8Array<ArrayBuffer>;
  readonly byteLength: number;
  readonly runs: readonly RemoteRun[];
}

/** Bytes of neighbouring tensors, or of one that is cast, as positions in the file of their shard. */
interface RemoteRun extends Pick<RemoteTensor, 'shard' | 'begin' | 'cast'> {
  end: number;
}

function tableOf(tensors: readonly RemoteTensor[]): TensorTable<RemoteLayout> {
  const tensor = (number: number): RemoteTensor => tensors[number] as RemoteTensor;
  return {
    byteLengths: Float64Array.from(tensors, ({ byteLength }) => byteLength),
    name: (number) => tensor(number).name,
    layOut: (numbers, metadata) => {
      const { header, placed, byteLength } = layOut(numbers.map(tensor), { metadata });
      return { header, byteLength, runs: runsOf(placed.map(({ spec }) => spec)) };
    },
    // Nothing of them is on this machine.
    samples: [],
  };
}

function runsOf(tensors: readonly RemoteTensor[]): RemoteRun[] {
  const runs: RemoteRun[] = [];
  for (const { shard, begin, end, cast } of tensors) {
    const last = runs.at(-1);
    const isNext = last?.shard === shard && last.end === begin;
    if (isNext && cast === undefined && last.cast === undefined) last.end = end;
    else runs.push({ shard, begin, end, cast });
  }
  return runs;
}

function filesOf({
  files,
  pattern,
  index: bytes,
  interimIndex,
}: CheckpointLayout<unknown, RemoteLayout>): Pick<WantedFiles, 'weights' | 'index'> {
  const weights = files.map(({ name, layout }): WantedFile => {
    const { header, byteLength, runs } = layout;
    const data = runs.map(({ shard, ...run }) => ({ file: shard.file.file, ...run }));
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
