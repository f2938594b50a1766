/** Plans new files for chosen tensors of a remote checkpoint, through the writer of checkpoints. */

import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import { runAsync } from '../../work/work.js';
import { CONFIG_FILE, isCast, mismatchesIn } from '../../write/checkpoint/cast-config.js';
import { obsoleteNames } from '../../write/checkpoint/dequantized-files.js';
import type { DequantizedTensor } from '../../write/checkpoint/dequantized-source.js';
import { type CheckpointLayout, layOutCheckpoint } from '../../write/checkpoint/layout.js';
import { selectTensors } from '../../write/checkpoint/selected-tensors.js';
import type { WritableLayout } from '../../write/save/tensor-writes.js';
import type { SelectionOptions } from '../../write/selection/options.js';
import { requireModel } from '../found-file.js';
import { castConfigOf, DequantizedTensors } from './dequantized-tensors.js';
import type { DownloadItem, DownloadItems, IndexItem } from './download-item.js';
import { findModel, otherFiles, type PlaceOf } from './model-files.js';
import type { OrderedBytes } from './ordered-bytes.js';
import { knownFile } from './receive.js';
import { receiveLayout } from './receive-layout.js';
import { RemoteTensor, readRemoteTensors } from './remote-tensors.js';
import type { SourceFiles } from './source-files.js';

/** The chosen tensors, their names and dtypes, and the size of files. */
export interface TensorsOptions extends SelectionOptions {
  readonly maxShardSize?: number | string | undefined;
  /** Strings by key; they win over the metadata of the source. Null for no metadata. */
  readonly metadata?: ReadonlyMap<string, string> | null | undefined;
  /** Whether files without weights come along; by default if no tensor is left out. */
  readonly copyOtherFiles?: boolean | undefined;
  /** Whether tensors are written into new files although nothing else is chosen. */
  readonly isRewritten?: boolean | undefined;
}

/**
 * Plans files of these tensors. Requests only headers.
 *
 * @throws As `findModel`, `readRemoteTensors`, `selectTensors` and `layOutCheckpoint`
 */
export async function planTensors(
  source: SourceFiles,
  {
    maxShardSize,
    metadata = new Map(),
    copyOtherFiles,
    isRewritten: _,
    ...selection
  }: TensorsOptions,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadItems> {
  const model = requireModel(await findModel(source, placeOf, signal));
  const { dequantize } = selection;
  // Companions are among the tensors that are not asked for.
  const remote = await readRemoteTensors(
    source,
    model,
    dequantize === undefined ? selection : {},
    signal,
  );
  const plain =
    dequantize === undefined
      ? null
      : await DequantizedTensors.of(source, remote, dequantize, signal);
  const choices = { selection, shared: 'copy', metadata } as const;
  const selected = await runAsync(selectTensors(plain?.source ?? remote, choices), signal);
  const layout = layOutCheckpoint(selected.table, { maxShardSize }, selected.metadataOf);
  const checkpoint = await runAsync(layout, signal);
  const tensors = selected.tensors as readonly (RemoteTensor | DequantizedTensor)[];
  const byName = new Map(tensors.map((tensor, number) => [selected.table.name(number), tensor]));
  const namesIn = new Map<string, readonly string[]>();
  const weights = checkpoint.files.map(({ name, layout }): DownloadItem => {
    const names = Array.from(layout.placed, ({ spec }) => spec.name as string);
    namesIn.set(name, names);
    const own = names.map((each) => byName.get(each) as RemoteTensor | DequantizedTensor);
    return fileOf(name, layout, own, plain?.version ?? '');
  });
  const { report, floatDtypes } = selected;
  const castWeights = { selection, report, floatDtypes };
  const isAll =
    plain === null
      ? remote.isAll(tensors as readonly RemoteTensor[])
      : report.excluded.length === 0;
  if (copyOtherFiles === true && source.entries === null) {
    const expected = 'left out for a server that lists no files';
    throw argumentRangeError('copyOtherFiles', expected, copyOtherFiles);
  }
  const siblings =
    (copyOtherFiles ?? isAll)
      ? await otherFiles(source, placeOf, signal)
      : { others: [], skipped: [] };
  const isCopied = siblings.others.some(({ name }) => name === CONFIG_FILE);
  const cast =
    plain === null && isCopied && isCast(castWeights)
      ? await castConfigOf(source, castWeights, signal)
      : { configs: [], mismatches: [] };
  const configs =
    (await plain?.configs(model.file.name, { selection, report }, signal)) ?? cast.configs;
  const configMismatches =
    plain === null && !isCopied
      ? mismatchesIn(dirname(placeOf({ name: CONFIG_FILE })), castWeights)
      : cast.mismatches;
  const obsolete = obsoleteNames({ selection });
  const replaced = new Set([...configs.map(({ name }) => name), ...obsolete]);
  return {
    others: [...siblings.others.filter(({ name }) => !replaced.has(name)), ...configs],
    skipped: siblings.skipped,
    isAddition: false,
    conflicts: checkpoint.metadata.conflicts,
    totalSize: checkpoint.totalSize,
    configMismatches,
    commit: source.hub?.commit ?? null,
    report,
    models: [{ prefix: '', weights, index: plannedIndex(checkpoint), obsolete }],
    tensorsIn: async ({ name }) => namesIn.get(name) ?? null,
  };
}

/** A file of these tensors, in the order of their bytes. */
function fileOf(
  name: string,
  layout: WritableLayout,
  tensors: readonly (RemoteTensor | DequantizedTensor)[],
  configVersion: string,
): DownloadItem {
  const { byteLength } = layout;
  const version = layoutVersion(layout, tensors, configVersion);
  const facts = { name, byteLength, hash: null, version };
  // The others are fetched as their rows are asked for.
  const received = tensors.filter((tensor) => tensor instanceof RemoteTensor);
  const ranges = received.map(({ range }) => range);
  const takeFrom = (bytes: OrderedBytes): void => {
    for (const tensor of received) tensor.bytes = bytes;
  };
  return {
    ...facts,
    receive: (target, place, scope) =>
      receiveLayout({ ...facts, layout, ranges, takeFrom }, target, place, scope),
  };
}

function plannedIndex({ pattern, index, interimIndex }: CheckpointLayout): IndexItem | null {
  if (index === null) return null;
  const file = knownFile({ name: pattern.indexFilename, hash: null, version: null }, index);
  return { ...file, interimIndex };
}

/** Hashes all that determines the bytes of a file: its header, and the versions of the files with its tensors. */
function layoutVersion(
  { header }: WritableLayout,
  tensors: readonly (RemoteTensor | DequantizedTensor)[],
  configVersion: string,
): string | null {
  const hash = createHash('sha256').update(header).update(configVersion);
  const parts = tensors.flatMap((tensor) =>
    tensor instanceof RemoteTensor ? tensor : (tensor.parts as readonly RemoteTensor[]),
  );
  for (const { shard, range } of parts) {
    const { version } = shard.file;
    if (version === null) return null;
    hash.update(`${version} ${range.begin} ${range.end}\n`);
  }
  return hash.digest('hex');
}
