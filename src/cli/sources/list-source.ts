/** Lists the tensors and files of one model. */

import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { elementCountOf } from '../../header/tensor-spec.js';
import type {
  Checkpoint,
  CheckpointSummary,
  RemoteCheckpoint,
  SafetensorsError,
  ShardHeader,
  TensorEntry,
} from '../../index.js';
import {
  countByDtype,
  type ListedTensor,
  type Listing,
  type UnsupportedTensor,
} from './listing.js';
import { foreignSource, type OpenedSource } from './open-source.js';

/** An open source, but not a pipeline of several models. */
export type OneModel = Exclude<OpenedSource, { kind: 'pipeline' }>;

/**
 * Lists a model; reads only headers.
 *
 * @throws FormatError for a GGUF file
 */
export async function listSource(opened: OneModel, signal: AbortSignal): Promise<Listing> {
  if (opened.kind === 'gguf') throw foreignSource(opened, 'a model of safetensors, torch or NumPy');
  const { kind, checkpoint } = opened;
  if (kind === 'torch' || kind === 'numpy') return await listForeign(checkpoint, kind, signal);
  const headers = await checkpoint.headers({ signal });
  // Of a remote index only its own tensors; rejects when a file lacks one of them.
  const tensors =
    kind === 'local'
      ? headers.flatMap((header) => header.tensors)
      : await checkpoint.tensors({ signal });
  return listingOf(checkpoint, headers, tensors, await checkpoint.summary({ signal }));
}

function listingOf(
  { path, metadata, ignoredFiles }: Checkpoint | RemoteCheckpoint,
  headers: readonly ShardHeader[],
  tensors: readonly TensorEntry[],
  { parameters, totalParameters, quantization, dtypes, shards }: CheckpointSummary,
): Listing {
  const starts = new Map(headers.map(({ file, dataStart }) => [file, dataStart]));
  return {
    ...{ format: 'safetensors', path: path as string, metadata, parameters, totalParameters },
    ...{ quantization, dtypes },
    ...{ unsupported: [], ignoredFiles },
    files: Array.from(shards, ([name, counts]) => {
      const { tensors, parameters, byteLength } = counts;
      return { name, byteLength: (starts.get(name) ?? 0) + byteLength, tensors, parameters };
    }),
    tensors: tensors.map((one) => listed(one, starts.get(one.file) ?? 0)),
  };
}

function listed(entry: TensorEntry, dataStart: number): ListedTensor {
  const { name, dtype, shape, byteLength, dataOffsets, file } = entry;
  return { name, dtype, shape, byteLength, offset: dataStart + dataOffsets[0], file };
}

/** Lists a torch or NumPy file; counts every element as a parameter. */
async function listForeign(
  checkpoint: Checkpoint,
  format: 'torch' | 'numpy',
  signal: AbortSignal,
): Promise<Listing> {
  const { problems, shards } = checkpoint;
  const path = checkpoint.path as string;
  const entries = await checkpoint.tensors({ signal });
  const tensors = entries.map((entry) => listed(entry, 0));
  const parametersIn = (some: readonly ListedTensor[]): number =>
    some.reduce((sum, { shape }) => sum + elementCountOf(shape), 0);
  const files = shards.map((name) => {
    const own = tensors.filter(({ file }) => file === name);
    const byteLength = statSync(join(dirname(path), name)).size;
    return { name, byteLength, tensors: own.length, parameters: parametersIn(own) };
  });
  return {
    ...{ format, path, files, tensors, dtypes: countByDtype(tensors) },
    ...{ parameters: parametersIn(tensors), unsupported: problems.map(unsupportedTensor) },
    ...{ totalParameters: null, quantization: null, metadata: null, ignoredFiles: [] },
  };
}

/** The reason is the message without the names of file and tensor at its start. */
function unsupportedTensor({ message, tensor = '' }: SafetensorsError): UnsupportedTensor {
  const begin = message.indexOf(': expected ');
  return { name: tensor, reason: begin === -1 ? message : message.slice(begin + 2) };
}
