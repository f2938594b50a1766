/** `open` and `openPipeline` in browsers. */

import { DEFAULT_HUB_SETTINGS } from '../file/hub/settings.js';
import type { BlobFolder, ByteSource } from './byte-source.js';
import type { RemoteCheckpoint } from './checkpoint.js';
import { openRemoteIn, type RemoteOptions, type RemoteRuntime } from './open.js';
import {
  openRemotePipelineIn,
  type RemotePipeline,
  type RemotePipelineOptions,
} from './pipeline.js';
import { webDigest } from './whole-digests.js';

const BROWSER: RemoteRuntime = {
  // Browsers don't tell the limit: they report too long a buffer as a lack of memory.
  maxBufferByteLength: Number.MAX_SAFE_INTEGER,
  hubSettings: DEFAULT_HUB_SETTINGS,
  digest: webDigest,
};

/**
 * As in Node, but without settings from the environment.
 */
export async function openRemote(
  source: string | URL | Blob | BlobFolder | ByteSource,
  options: RemoteOptions = {},
  formats?: readonly string[],
): Promise<RemoteCheckpoint> {
  return await openRemoteIn(BROWSER, source, options, { formats });
}

/**
 * As in Node, but without settings from the environment.
 */
export async function openRemotePipeline(
  source: string | URL,
  options: RemotePipelineOptions = {},
): Promise<RemotePipeline> {
  return await openRemotePipelineIn(BROWSER, source, options);
}
