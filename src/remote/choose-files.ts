/** Chooses the files of a remote model: reads the indexes that the decision requests. */

import type { CheckpointIndex } from '../file/shards/checkpoint-index.js';
import { PIPELINE_FILE } from '../file/shards/file-names.js';
import { IMPLIED_INDEX, isDistributed, METADATA_FILE } from '../file/shards/incomplete-models.js';
import {
  type ChosenModel,
  isChosen,
  type ModelDecision,
  type NoModel,
  type PartialModel,
} from '../file/shards/model-choice.js';
import { readRemoteIndex } from './read-index.js';
import type { RemoteFile, RemoteFolder, RemoteSource } from './remote-file.js';

/** The chosen files of a model. */
interface ChosenFiles {
  readonly model: ChosenModel;
  /** The index, which the choice has read; null if there is none. */
  readonly index: CheckpointIndex | null;
}

/** What to accept besides models. */
export interface SourceAcceptance {
  /** Whether to accept the index of a delta, to inspect it. */
  readonly acceptsIncomplete?: boolean | undefined;
  /** Whether the caller assembles distributed checkpoints. */
  readonly acceptsDistributed?: boolean | undefined;
}

/** How to read indexes. */
export interface ReadIndexOptions extends SourceAcceptance {
  readonly signal: AbortSignal;
}

/**
 * Drives a decision. Shards below further folders count as present where `hasFile` doesn't know them.
 *
 * @throws As `read`
 */
export async function driveDecision(
  decision: ModelDecision,
  read: (name: string) => Promise<CheckpointIndex>,
  hasFile: (name: string) => boolean,
): Promise<ChosenFiles | PartialModel | NoModel> {
  const indexes = new Map<string, CheckpointIndex>();
  let next = decision.next();
  while (next.done !== true) {
    const index = await read(next.value);
    indexes.set(next.value, index);
    const { shards } = index;
    next = decision.next({ shards, missing: shards.filter((shard) => !hasFile(shard)) });
  }
  const model = next.value;
  return isChosen(model) ? { model, index: indexes.get(model.name) ?? null } : model;
}

/** The chosen files of a folder as a source, without its session. */
export function chosenSource(
  chosen: ChosenFiles,
  folder: RemoteFolder,
): Pick<RemoteSource, 'file' | 'kind' | 'folder' | 'chosen'> {
  const { kind, name } = chosen.model;
  return { file: folder.file(name), kind, folder, chosen };
}

/** The distributed checkpoint in a folder without a model; undefined without one, or if the caller accepts none. */
export function distributedSource(
  none: PartialModel | NoModel,
  names: readonly string[],
  folder: RemoteFolder,
  { acceptsDistributed, variant }: SourceAcceptance & { readonly variant?: string | undefined },
): Pick<RemoteSource, 'file' | 'kind' | 'folder'> | undefined {
  if (acceptsDistributed !== true || variant !== undefined || none.kind === 'missing-shards') {
    return undefined;
  }
  if (names.includes(PIPELINE_FILE) || !isDistributed(names)) return undefined;
  const name = names.includes(METADATA_FILE) ? METADATA_FILE : IMPLIED_INDEX;
  return { file: folder.file(name), kind: 'distributed', folder };
}

/** Reads the indexes in a folder. */
export function indexReader(
  fileAt: (name: string) => RemoteFile,
  { acceptsIncomplete, signal }: ReadIndexOptions,
): (name: string) => Promise<CheckpointIndex> {
  return (name) => readRemoteIndex(fileAt(name), acceptsIncomplete, signal);
}

/** A test whether a folder has a file: by these names, or below a further folder, whose files are not listed. */
export function listedIn(names: readonly string[]): (name: string) => boolean {
  const listed = new Set(names);
  return (name) => name.includes('/') || listed.has(name);
}
