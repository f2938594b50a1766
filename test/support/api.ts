/** The public names as tests import them: the one file to change when a name moves or changes. */

import {
  type Checkpoint,
  type OpenPipelineSourceOptions,
  type OpenSourceOptions,
  open,
  openPipeline,
  type Pipeline,
  type RemoteCheckpoint,
} from '../../src/index.js';

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

/** Opens a local PyTorch checkpoint. */
export async function openTorch(
  path: string,
  options?: Omit<OpenSourceOptions, 'remote' | 'formats'>,
): Promise<Checkpoint> {
  return await open(path, { ...options, remote: false, formats: ['torch'] });
}

/** Opens a local pipeline, in a folder or an archive. */
export async function openLocalPipeline(
  path: string,
  options?: Omit<OpenPipelineSourceOptions, 'remote'>,
): Promise<Pipeline<Checkpoint>> {
  return await openPipeline(path, { ...options, remote: false });
}
