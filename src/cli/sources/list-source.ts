/** Lists whatever one model was found, by its headers. */

import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type {
  Checkpoint,
  CheckpointSummary,
  ForeignFormatError,
  TensorEntry,
} from '../../index.js';
import {
  type ListedShard,
  listLocalShards,
  listRemoteShards,
  shardByteLength,
} from './listed-shards.js';
import {
  countByDtype,
  elementsOf,
  type LeftOutTensor,
  type ListedTensor,
  type Listing,
} from './listing.js';
import { foreignSource, type OpenedSource } from './open-source.js';

/** What was found, unless it is a pipeline of several models. */
export type OneModel = Exclude<OpenedSource, { kind: 'pipeline' }>;

/**
 * Lists a model by its headers.
 *
 * @throws ForeignFormatError for a GGUF file
 */
export async function listSource(opened: OneModel, signal: AbortSignal): Promise<Listing> {
  if (opened.kind === 'gguf') throw foreignSource(opened, 'a model of safetensors, torch or NumPy');
  if (opened.kind === 'remote') {
    const { checkpoint } = opened;
    const { path, metadata } = checkpoint;
    const files = await listRemoteShards(checkpoint, signal);
    const facts = { path, metadata, passedOver: [] };
    return { ...facts, ...listFiles(files, await checkpoint.summary({ signal })) };
  }
  const { kind, checkpoint } = opened;
  if (kind !== 'local') return await listForeign(checkpoint, kind, signal);
  const { path, metadata, passedOver } = checkpoint;
  const files = await listLocalShards(checkpoint, signal);
  return { path, metadata, passedOver, ...listFiles(files, checkpoint.summary()) };
}

function listFiles(
  files: readonly ListedShard[],
  summary: CheckpointSummary,
): Omit<Listing, 'path' | 'metadata' | 'passedOver'> {
  const { parameters, totalParameters, quantization, dtypes, shards } = summary;
  return {
    ...{ format: 'safetensors', parameters, totalParameters, quantization, dtypes, leftOut: [] },
    files: files.map((file) => ({
      name: file.name,
      byteLength: shardByteLength(file),
      tensors: file.tensors.length,
      parameters: shards.get(file.name)?.parameters ?? 0,
    })),
    tensors: files.flatMap(({ dataStart, tensors }) =>
      tensors.map((one) => listed(one, dataStart)),
    ),
  };
}

function listed(entry: TensorEntry, dataStart: number): ListedTensor {
  const { name, dtype, shape, byteLength, dataOffsets, file } = entry;
  return { name, dtype, shape, byteLength, offset: dataStart + dataOffsets[0], file };
}

/** An element is a parameter. */
async function listForeign(
  checkpoint: Checkpoint,
  format: 'torch' | 'numpy',
  signal: AbortSignal,
): Promise<Listing> {
  const { path, problems, shards } = checkpoint;
  const entries = await checkpoint.tensors({ signal });
  const tensors = entries.map((entry) => listed(entry, 0));
  const parametersIn = (some: readonly ListedTensor[]): number =>
    some.reduce((sum, { shape }) => sum + elementsOf(shape), 0);
  const files = shards.map((name) => {
    const own = tensors.filter(({ file }) => file === name);
    const byteLength = statSync(join(dirname(path), name)).size;
    return { name, byteLength, tensors: own.length, parameters: parametersIn(own) };
  });
  return {
    ...{ format, path, files, tensors, dtypes: countByDtype(tensors) },
    ...{ parameters: parametersIn(tensors), leftOut: problems.map(leftOutTensor) },
    ...{ totalParameters: null, quantization: null, metadata: null, passedOver: [] },
  };
}

/** The reason is the message without the file and the tensor, which stand before it. */
function leftOutTensor({ message, tensor = '' }: ForeignFormatError): LeftOutTensor {
  const begin = message.indexOf(': expected ');
  return { name: tensor, reason: begin === -1 ? message : message.slice(begin + 2) };
}
