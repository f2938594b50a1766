/** Opens what people drop, choose or type, and keeps it open under a number. */

import {
  type DequantizedCheckpoint,
  dequantize,
  type OpenSourceOptions,
  open,
  type RemoteCheckpoint,
  type TensorEntry,
} from 'safetensors-mmap';
import { listOf, type Overview, overviewOf, type TensorList } from './facts.js';

/** An open source, as the page names it. */
export type SourceId = number;

/** Where a source is. */
export type Place =
  /** By their paths in the folder of the checkpoint. */
  | { readonly kind: 'files'; readonly files: ReadonlyMap<string, File> }
  | {
      readonly kind: 'url';
      readonly url: string;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** An open source. */
export interface Source {
  readonly checkpoint: RemoteCheckpoint;
  readonly model: DequantizedCheckpoint;
  readonly list: TensorList;
  /** The stored tensors by name. */
  readonly stored: ReadonlyMap<string, TensorEntry>;
  /** Where the data of each file begins. */
  readonly starts: ReadonlyMap<string, number>;
  /** Whether reading costs transfers. */
  readonly isRemote: boolean;
}

const sources = new Map<SourceId, Source>();
let lastId = 0;

async function openPlace(place: Place, options: OpenSourceOptions): Promise<RemoteCheckpoint> {
  if (place.kind === 'files') return await open(place.files, options);
  const { url, headers } = place;
  // A text without a scheme would be a path, which a page has none of.
  return (await open(url, { ...options, headers })) as RemoteCheckpoint;
}

/** What is wrong with index and shards. */
async function problemsOf(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { problems } = await checkpoint.verify({ signal });
  return problems.map(({ message }) => message);
}

/** Opens a source: all of its headers are read. */
export async function openSource(
  place: Place,
  token: string | null,
  signal: AbortSignal,
): Promise<{ id: SourceId; overview: Overview; list: TensorList }> {
  const checkpoint = await openPlace(place, token === null ? { signal } : { signal, token });
  try {
    // Headers and configuration are fetched once, whoever asks first.
    const [model, headers, entries, summary, problems] = await Promise.all([
      dequantize(checkpoint, { signal }),
      checkpoint.headers({ signal }),
      checkpoint.tensors({ signal }),
      checkpoint.summary({ signal }),
      problemsOf(checkpoint, signal),
    ]);
    const list = listOf(headers, entries, model);
    const { parameters } = summary;
    const overview = overviewOf(checkpoint, { model, headers, list, parameters, problems });
    const id = ++lastId;
    const stored = new Map(entries.map((entry) => [entry.name, entry]));
    const starts = new Map(headers.map(({ file, dataStart }) => [file, dataStart]));
    sources.set(id, { checkpoint, model, list, stored, starts, isRemote: place.kind === 'url' });
    return { id, overview, list };
  } catch (error) {
    checkpoint.close();
    throw error;
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
