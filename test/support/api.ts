/** The public names as tests import them: the one file to change when a name moves or changes. */

import { type OpenSourceOptions, open, type RemoteCheckpoint } from '../../src/index.js';

export * from '../../src/hub.js';
export * from '../../src/index.js';
export { dequantize as dequantized } from '../../src/index.js';
export * from '../../src/inspect.js';

/** Opens a source that is read by requests, whatever its type shows. */
export async function openRemote(
  source: unknown,
  options?: OpenSourceOptions,
): Promise<RemoteCheckpoint> {
  return (await open(source as Blob, options)) as RemoteCheckpoint;
}
