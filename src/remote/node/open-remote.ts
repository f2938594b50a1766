/** `openRemote` in Node. */

import { constants } from 'node:buffer';
import { hubSettings } from '../../file/cache/environment.js';
import type { ByteSource } from '../byte-source.js';
import type { RemoteCheckpoint } from '../checkpoint.js';
import { openRemoteIn, type RemoteOptions } from '../open.js';

/**
 * Opens a remote checkpoint: one request for a file, which brings its header, or for an
 * index; a second one only for a header of more than 100 000 bytes. Of the tensors nothing is fetched.
 *
 * `source` is the URL of a `.safetensors` file or of an index, on any server that answers ranges; a
 * repository on the Hub, as `hf://org/name@revision/path` or as the address of one of its pages, for which
 * at most two requests more find out what it has; a Blob, such as a dropped file; or a reader of the
 * caller's.
 *
 * The Hub is that of `HF_ENDPOINT`, and gets the token of `HF_TOKEN` or of the token file. `docs/remote.md`
 * says more about sources, tokens and versions. Close the checkpoint, or declare it with `using`: that ends
 * requests under way.
 *
 * @throws FormatError, by rejecting, when the file is not valid safetensors or the index is bad
 * @throws RemoteError whose code says why the file cannot be had
 *
 * @example
 * ```ts
 * const checkpoint = await openRemote('https://models.example/model.safetensors');
 * console.log(checkpoint.keys()); // → [ 'embed.weight', 'norm.weight' ]
 * checkpoint.close();
 * ```
 */
export async function openRemote(
  source: string | URL | Blob | ByteSource,
  options: RemoteOptions = {},
): Promise<RemoteCheckpoint> {
  const runtime = { maxBufferByteLength: constants.MAX_LENGTH, hubSettings: hubSettings() };
  return await openRemoteIn(runtime, source, options);
}
