/** Opens what people drop, choose or type, and keeps it open under a number. */

import {
  dequantize,
  type OpenSourceOptions,
  open,
  type RemoteCheckpoint,
  type TensorEntry,
} from 'safetensors-mmap';
import { readArchitecture } from './architecture.js';
import { type EarlyInfo, earlyInfo, MANY_TENSORS } from './early.js';
import {
  elementsOf,
  listOf,
  type Overview,
  overviewOf,
  schemesOf,
  type TensorList,
} from './info.js';
import { joinedFetch } from './joined-requests.js';
import { sampleInfo } from './sample.js';

/** An open source, as the page names it. */
export type SourceId = number;

/** Where a source is. */
export type Place =
  /** By their paths in the folder of the checkpoint. */
  | { readonly kind: 'files'; readonly files: ReadonlyMap<string, File> }
  | { readonly kind: 'url'; readonly url: string }
  /** At the server of the page, on the same machine. */
  | {
      readonly kind: 'served';
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
    };

/** An open source. */
export interface Source {
  readonly checkpoint: RemoteCheckpoint;
  /** The dequantized view of it. */
  readonly model: RemoteCheckpoint;
  readonly list: TensorList;
  /** The tensors of `model` by name, and the stored ones that it lacks, such as scales. */
  readonly entries: ReadonlyMap<string, TensorEntry>;
  /** Where the data of each file begins. */
  readonly starts: ReadonlyMap<string, number>;
  /** Whether each read is a request. */
  readonly isRequested: boolean;
  /** Whether requests cross a network: those to the page's server stay on the machine. */
  readonly isRemote: boolean;
}

const sources = new Map<SourceId, Source>();
let lastId = 0;

/** Ranges at a time that share requests to the page's server. */
const MOST_REQUESTS = 20;

/** The page has no reader of GGUF: `serve` shows such files as safetensors. */
const FORMATS = ['safetensors'] as const;

async function openPlace(
  place: Place,
  given: OpenSourceOptions,
  onAnswer: (path: string) => void,
): Promise<RemoteCheckpoint> {
  const options = { ...given, formats: FORMATS };
  if (place.kind === 'files') return await open(place.files, options);
  // The server of the page is on the same machine: its requests wait for nothing but each other.
  const served =
    place.kind === 'served'
      ? { fetch: joinedFetch(place.headers, onAnswer), concurrency: MOST_REQUESTS }
      : {};
  // A text without a scheme would be a path, which a page has none of.
  if (!place.url.includes('://')) {
    const advice = 'enter org/name on the Hub, or an address that begins with https://';
    throw new Error(`unknown model ${JSON.stringify(place.url)}; ${advice}`);
  }
  return (await open(place.url, { ...options, ...served })) as RemoteCheckpoint;
}

/** What is wrong with index and shards. */
async function problemsOf(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { problems } = await checkpoint.verify({ signal });
  return problems.map(({ message }) => message);
}

/** Headers that have arrived, and all. */
export interface OpenProgress {
  readonly done: number;
  readonly total: number;
  /** What all headers of a large model show. */
  readonly early?: EarlyInfo;
}

const NAME = /[^/]*$/;

/** Counts the shards of which bytes have arrived, and reports them. */
class HeaderCount {
  readonly #names: Set<string | undefined>;
  readonly #arrived = new Set<string>();
  readonly #onProgress: (progress: OpenProgress) => void;
  // The browser lists requests that have ended.
  readonly #observer = new PerformanceObserver((entries) => {
    for (const { name } of entries.getEntries()) this.arrived(new URL(name).pathname);
  });

  constructor(shards: readonly string[], onProgress: (progress: OpenProgress) => void) {
    this.#names = new Set(shards.map((shard) => NAME.exec(shard)?.[0]));
    this.#onProgress = onProgress;
    this.#observer.observe({ type: 'resource' });
  }

  arrived(path: string): void {
    const name = NAME.exec(decodeURIComponent(path))?.[0] as string;
    if (!this.#names.has(name) || this.#arrived.has(name)) return;
    this.#arrived.add(name);
    this.#onProgress({ done: this.#arrived.size, total: this.#names.size });
  }

  end(): void {
    this.#observer.disconnect();
  }
}

/** Opens a source: all of its headers are read. */
export async function openSource(
  place: Place,
  token: string | null,
  signal: AbortSignal,
  onProgress: (progress: OpenProgress) => void,
): Promise<{ id: SourceId; overview: Overview; list: TensorList }> {
  let headerCount: HeaderCount | null = null;
  const checkpoint = await openPlace(
    place,
    token === null ? { signal } : { signal, token },
    (path) => headerCount?.arrived(path),
  );
  headerCount = new HeaderCount(checkpoint.shards, onProgress);
  try {
    const [headers, architecture, problems] = await Promise.all([
      checkpoint.headers({ signal }),
      readArchitecture(checkpoint, signal),
      problemsOf(checkpoint, signal),
    ]);
    headerCount.end();
    headerCount = null;
    const count = headers.reduce((sum, { tensors }) => sum + tensors.length, 0);
    if (count >= MANY_TENSORS) {
      const early = earlyInfo(checkpoint, headers, architecture);
      onProgress({ done: headers.length, total: headers.length, early });
    }
    // Their tensors are those of the headers, as long as these are retained: the same objects.
    const stored = await checkpoint.tensors({ signal });
    const model = await dequantize(checkpoint, { signal });
    const shown = await model.tensors({ signal });
    const starts = new Map(headers.map(({ file, dataStart }) => [file, dataStart]));
    const list = listOf(stored, shown, starts);
    const schemes = schemesOf(shown);
    const parameters =
      schemes.size === 0
        ? (await checkpoint.summary({ signal })).parameters
        : shown.reduce((sum, { shape }) => sum + elementsOf(shape), 0);
    const sample = sampleInfo(list);
    const known = { model, schemes, headers, list, parameters, problems, architecture, sample };
    const overview = overviewOf(checkpoint, known);
    const id = ++lastId;
    const entries = new Map<string, TensorEntry>();
    for (const entry of stored) entries.set(entry.name, entry);
    for (const entry of shown) entries.set(entry.name, entry);
    sources.set(id, {
      ...{ checkpoint, model, list, entries, starts },
      isRequested: place.kind !== 'files',
      isRemote: place.kind === 'url',
    });
    return { id, overview, list };
  } catch (error) {
    checkpoint.close();
    throw error;
  } finally {
    headerCount?.end();
  }
}

/** An open source; throws once it has been closed. */
export function sourceOf(id: SourceId): Source {
  const source = sources.get(id);
  if (source === undefined) throw new Error('This source has been closed; open it again.');
  return source;
}

/** Closes a source and ends its requests. */
export function closeSource(id: SourceId): null {
  sources.get(id)?.checkpoint.close();
  sources.delete(id);
  return null;
}
