/** Weights of a remote checkpoint that are dequantized on their way. */

import { createHash } from 'node:crypto';
import type { SiblingFile, TensorInfo } from '../../file/source/tensor-info.js';
import type { Dtype } from '../../header/dtype.js';
import { withScope } from '../../work/scope.js';
import { runAsync } from '../../work/work.js';
import {
  type CastWeights,
  CONFIG_FILE,
  type ConfigMismatch,
  changedDtype,
} from '../../write/checkpoint/cast-config.js';
import {
  changedConfig,
  configNames,
  type DequantizedWeights,
} from '../../write/checkpoint/dequantized-files.js';
import { dequantizedSource } from '../../write/checkpoint/dequantized-source.js';
import type { CheckpointSource } from '../../write/checkpoint/source.js';
import type { StoredPart } from '../../write/checkpoint/stored-digests.js';
import { DEFAULT_MAX_GAP_BYTE_LENGTH, FETCHED_PIECE_BYTE_LENGTH } from '../fetch-plan.js';
import { FetchQueue, LazyMemory } from '../fetch-queue.js';
import { fetchSibling, isAbsence } from '../remote-shards.js';
import type { DownloadItem } from './download-item.js';
import { knownFile } from './receive.js';
import type { RemoteTensor, RemoteTensors } from './remote-tensors.js';
import type { SourceFiles } from './source-files.js';

/** Requests for codes and scales at a time, of all files. */
const REQUESTS_AT_ONCE = 8;

/** Codes to fetch at once, in one request. As many are fetched ahead. */
const WINDOW_BYTE_LENGTH = FETCHED_PIECE_BYTE_LENGTH;

/** A remote checkpoint with logical tensors. */
export class DequantizedTensors {
  /** The tensors to select from. */
  readonly source: CheckpointSource<TensorInfo>;
  readonly #files: SourceFiles;
  readonly #configs: ReadonlyMap<string, SiblingFile>;

  private constructor(
    source: CheckpointSource<TensorInfo>,
    files: SourceFiles,
    configs: ReadonlyMap<string, SiblingFile>,
  ) {
    this.source = source;
    this.#files = files;
    this.#configs = configs;
  }

  /** Requests the configuration and the few tensors that plans need. Throws as `dequantized`. */
  static async of(
    files: SourceFiles,
    remote: RemoteTensors,
    dtype: Dtype,
    signal: AbortSignal,
  ): Promise<DequantizedTensors> {
    const { tensors } = await runAsync(remote.list(), signal);
    const queue = new FetchQueue(REQUESTS_AT_ONCE);
    const configs = new Map<string, SiblingFile>();
    const stored = {
      path: remote.path,
      tensors: tensors as readonly RemoteTensor[],
      windowByteLength: WINDOW_BYTE_LENGTH,
      read: (parts: readonly StoredPart<RemoteTensor>[]) => fetchParts(parts, queue, signal),
      digestOf: (tensor: RemoteTensor) => tensor.digest,
      readSibling: async (name: string) => {
        const config = await fetchConfig(files, name, signal);
        if (config !== undefined) configs.set(name, config);
        return config;
      },
    };
    const source = await dequantizedSource(remote, { stored, dtype, signal });
    return new DequantizedTensors(source, files, configs);
  }

  /** What identifies the configurations, which decide about values. */
  get version(): string {
    const hash = createHash('sha256');
    for (const [name, { bytes }] of this.#configs) hash.update(`${name}\n`).update(bytes);
    return hash.digest('hex');
  }

  /** The configurations of the plain weights, where they differ. Throws as `changedConfig`. */
  async configs(
    modelName: string,
    weights: DequantizedWeights,
    signal: AbortSignal,
  ): Promise<DownloadItem[]> {
    const found: DownloadItem[] = [];
    for (const name of configNames(modelName)) {
      const config = this.#configs.get(name) ?? (await fetchConfig(this.#files, name, signal));
      if (config === undefined) continue;
      const contents = changedConfig(config.bytes, config.path, weights);
      if (contents === null) continue;
      const version = createHash('sha256').update(contents).digest('hex');
      found.push(knownFile({ name, hash: null, version }, contents));
    }
    return found;
  }
}

/** Requests the configuration of a model whose tensors are cast, and returns it with the new dtype where it differs. */
export async function castConfigOf(
  files: SourceFiles,
  weights: CastWeights,
  signal: AbortSignal,
): Promise<{
  readonly configs: readonly DownloadItem[];
  readonly mismatches: readonly ConfigMismatch[];
}> {
  const config = await fetchConfig(files, CONFIG_FILE, signal);
  if (config === undefined) return { configs: [], mismatches: [] };
  const { contents, mismatches } = changedDtype(config.bytes, config.path, weights);
  if (contents === null) return { configs: [], mismatches };
  const version = createHash('sha256').update(contents).digest('hex');
  const facts = { name: CONFIG_FILE, hash: null, version };
  return { configs: [knownFile(facts, Uint8Array.from(contents))], mismatches };
}

/** Fetches bytes of tensors; those that are asked for in one turn share requests. */
async function fetchParts(
  parts: readonly StoredPart<RemoteTensor>[],
  queue: FetchQueue,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>[]> {
  const wanted = parts.map(({ tensor, begin, byteLength }) => {
    const { file, begin: start } = tensor.range;
    const copy = { byteLength, byteOffset: start + begin, runByteLength: byteLength, loops: [] };
    return { file, copy, memory: new LazyMemory(tensor.name, byteLength, file.path) };
  });
  const limits = { onProgress: undefined, maxGapByteLength: DEFAULT_MAX_GAP_BYTE_LENGTH };
  await withScope([signal], (scope) => queue.fetch(wanted, limits, scope));
  return wanted.map(({ memory }) => memory.bytes);
}

/** A file next to the weights; undefined where there is none, or a web page in its place. */
async function fetchConfig(
  files: SourceFiles,
  name: string,
  signal: AbortSignal,
): Promise<SiblingFile | undefined> {
  try {
    const { file } = await files.find(name, signal);
    return await fetchSibling(file, signal);
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}
