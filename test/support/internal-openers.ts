/** The openers that `safeOpen`, `open`, `openPipeline` and `verify` call; those of local files are synchronous. */
import type { SafetensorsFile } from '../../src/file/file.js';
import { type FileOptions, openFile as openFileWork } from '../../src/file/open.js';
import type { PathOrDescriptor } from '../../src/platform/io/paths.js';
import { runSync } from '../../src/work/work.js';

/** One file without a checkpoint around it. */
export function openFile(path: PathOrDescriptor, options: FileOptions = {}): SafetensorsFile {
  return runSync(openFileWork(path, options));
}

export { openPipeline } from '../../src/file/checkpoint/open-pipeline.js';
export { type OpenDdufOptions, openDduf } from '../../src/foreign/dduf/open.js';
export { type OpenNumpyOptions, openNumpy } from '../../src/foreign/numpy/open-numpy.js';
export { scanPickle } from '../../src/foreign/scan/scan-file.js';
export { type OpenTorchOptions, openTorchCheckpoint } from '../../src/foreign/torch/open.js';
export { verifyOpened } from '../../src/open/verify-source.js';
export { openRemotePipeline } from '../../src/remote/node/open-remote.js';
export type { RemoteOptions } from '../../src/remote/open.js';
export { type DetectedFormat, detectFormat } from '../../src/write/convert/detect-format.js';
