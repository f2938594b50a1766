/** Plans new files for chosen tensors of a remote checkpoint, through the writer of checkpoints. */

import { createHash } from 'node:crypto';
import { runAsync } from '../../platform/io/steps.js';
import { type CheckpointLayout, layOutCheckpoint } from '../../write/checkpoint/layout.js';
import { selectTensors } from '../../write/checkpoint/selected-tensors.js';
import type { WritableLayout } from '../../write/save/tensor-writes.js';
import type { SelectionOptions } from '../../write/selection/options.js';
import { findModel, otherFiles, type PlaceOf } from './model-files.js';
import type { OrderedBytes } from './ordered-bytes.js';
import { knownFile } from './receive.js';
import { receiveLayout } from './receive-layout.js';
import { type RemoteTensor, readRemoteTensors } from './remote-tensors.js';
import type { SourceFiles } from './source-files.js';
import type { WantedFile, WantedFiles, WantedIndex } from './wanted-file.js';

/** The chosen tensors, their names and dtypes, and the size of files. */
export interface TensorsOptions extends SelectionOptions {
  readonly maxShardSize?: number | string | undefined;
}

/**
 * Plans files of these tensors. Requests only headers.
 *
 * @throws As `findModel`, `readRemoteTensors`, `selectTensors` and `layOutCheckpoint`
 */
export async function planTensors(
  source: SourceFiles,
  { maxShardSize, ...selection }: TensorsOptions,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<WantedFiles> {
  const model = await findModel(source, placeOf, signal);
  const remote = await readRemoteTensors(source, model, selection, signal);
  const choices = { selection, shared: 'copy', metadata: new Map() } as const;
  const selected = await runAsync(selectTensors(remote, choices), signal);
  const layout = layOutCheckpoint(selected.table, { maxShardSize }, selected.metadataOf);
  const checkpoint = await runAsync(layout, signal);
  const tensors = selected.tensors as readonly RemoteTensor[];
  const byName = new Map(tensors.map((tensor, number) => [selected.table.name(number), tensor]));
  const namesIn = new Map<string, readonly string[]>();
  const weights = checkpoint.files.map(({ name, layout }): WantedFile => {
    const names = Array.from(layout.placed, ({ spec }) => spec.name as string);
    namesIn.set(name, names);
    return fileOf(
      name,
      layout,
      names.map((each) => byName.get(each) as RemoteTensor),
    );
  });
  const isAll = remote.isAll(tensors);
  const beside = isAll ? await otherFiles(source, placeOf, signal) : { others: [], skipped: [] };
  return {
    ...beside,
    commit: source.hub?.commit ?? null,
    report: selected.report,
    weights,
    index: plannedIndex(checkpoint),
    tensorsIn: async ({ name }) => namesIn.get(name) ?? null,
  };
}

/** A file of these tensors, in the order of their bytes. */
function fileOf(
  name: string,
  layout: WritableLayout,
  tensors: readonly RemoteTensor[],
): WantedFile {
  const { byteLength } = layout;
  const facts = { name, byteLength, hash: null, version: layoutVersion(layout, tensors) };
  const ranges = tensors.map(({ range }) => range);
  const takeFrom = (bytes: OrderedBytes): void => {
    for (const tensor of tensors) tensor.bytes = bytes;
  };
  return {
    ...facts,
    receive: (target, place, scope) =>
      receiveLayout({ ...facts, layout, ranges, takeFrom }, target, place, scope),
  };
}

function plannedIndex({ pattern, index, interimIndex }: CheckpointLayout): WantedIndex | null {
  if (index === null) return null;
  return knownFile({ name: pattern.indexFilename, hash: null, version: null }, index, interimIndex);
}

/** Hashes all that determines the bytes of a file: its header, and the versions of the files with its tensors. */
function layoutVersion(
  { header }: WritableLayout,
  tensors: readonly RemoteTensor[],
): string | null {
  const hash = createHash('sha256').update(header);
  for (const { shard, range } of tensors) {
    const { version } = shard.file;
    if (version === null) return null;
    hash.update(`${version} ${range.begin} ${range.end}\n`);
  }
  return hash.digest('hex');
}
