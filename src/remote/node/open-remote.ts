/** `open` and `openPipeline` in Node. */

import { constants } from 'node:buffer';
import type { BlobFolder, ByteSource } from '../byte-source.js';
import type { RemoteCheckpoint } from '../checkpoint.js';
import { openModelIn, openRemoteIn, type RemoteOptions, type RemoteRuntime } from '../open.js';
import {
  openRemotePipelineIn,
  type RemotePipeline,
  type RemotePipelineOptions,
} from '../pipeline.js';
import { nodeDigest } from './digest.js';
import { remoteSettings } from './settings.js';

function runtime(): RemoteRuntime {
  const { MAX_LENGTH } = constants;
  return {
    ...{ maxBufferByteLength: MAX_LENGTH, hubSettings: remoteSettings(), digest: nodeDigest },
    openDistributed: async (...opening) => {
      const { openDistributedRemote } = await import('./distributed.js');
      return await openDistributedRemote(...opening);
    },
  };
}

/**
 * Opens a remote checkpoint: one request for a file, which brings its header, or for an index; a second one only for
 * a header of more than 100 000 bytes. Fetches no tensor data.
 *
 * `source` is the URL of a `.safetensors` or `.gguf` file or of an index, on any server that answers ranges; a
 * repository on the Hub, as `hf://org/name@revision/path` or as the address of one of its pages, for which at most two
 * requests more find out what it has; a Blob, such as a dropped file; a Map of Blobs by path, which are the files of a
 * folder; or your own reader.
 *
 * The Hub's address is `HF_ENDPOINT`; it gets the token of `HF_TOKEN` or of the token file. `docs/remote.md`
 * describes sources, tokens and versions. Close the checkpoint, or declare it with `using`: that ends requests under
 * way.
 *
 * @throws FormatError, by rejecting, when the file is not valid safetensors or the index is bad
 * @throws RemoteError whose code tells why the file is unavailable
 */
export async function openRemote(
  source: string | URL | Blob | BlobFolder | ByteSource,
  options: RemoteOptions = {},
  formats?: readonly string[],
): Promise<RemoteCheckpoint> {
  return await openRemoteIn(runtime(), source, options, { formats });
}

/** As {@link openRemote}; opens every model of a pipeline, which is found by the same requests. */
export async function openRemoteSource(
  source: string,
  { skipFailed, ...options }: RemotePipelineOptions,
): Promise<RemoteCheckpoint | RemotePipeline> {
  const opened = await openModelIn(runtime(), source, options);
  if (!('error' in opened)) return opened;
  if (opened.kind !== 'pipeline') throw opened.error;
  return await openRemotePipeline(source, { ...options, skipFailed });
}

/** As {@link openRemote}, and accepts parts of distributed checkpoints and deltas, to inspect them. */
export async function openRemoteForInspection(
  source: string,
  options: RemoteOptions,
): Promise<RemoteCheckpoint> {
  return await openRemoteIn(runtime(), source, options, { acceptsIncomplete: true });
}

/**
 * Opens a pipeline of diffusers in a repository on the Hub, or in a folder of one: every model as {@link openRemote}
 * opens it, by its folder. Requests the list of files, `model_index.json`, and the header or the index of each model.
 * With `variant` takes the files of that variant where a folder has them, as diffusers does.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` without `model_index.json`, or for a variant that no
 *   folder has; FormatError `SAFETENSORS_INVALID_PIPELINE` for a bad `model_index.json`; RangeError for a source that is
 *   not on the Hub; as `open`
 */
export async function openRemotePipeline(
  source: string | URL,
  options: RemotePipelineOptions = {},
): Promise<RemotePipeline> {
  return await openRemotePipelineIn(runtime(), source, options);
}
