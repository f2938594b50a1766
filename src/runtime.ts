/** The functions that differ between Node and browsers, in Node. `#runtime` imports this file there. */

export { loadFile, parse, safeOpen, safeOpenAsync } from './file/checkpoint/open.js';
export { watch } from './file/watching/watch.js';
export { scanPickle } from './foreign/scan/scan-pickle.js';
export { convert } from './open/convert.js';
export { mergeAdapters } from './open/merge-adapters.js';
export { mergeModels } from './open/merge-models.js';
export { open } from './open/open.js';
export { openPipeline } from './open/open-pipeline.js';
export { verify } from './open/verify.js';
export { mappingStatus } from './platform/storage/mapping-status.js';
export { download } from './remote/download/download.js';
export { parseSafetensorsMetadata } from './remote/node/parse-safetensors-metadata.js';
export { saveCheckpoint } from './write/checkpoint/save-checkpoint.js';
export { createWriter } from './write/save/create-writer.js';
export { editMetadata } from './write/save/edit-metadata.js';
export { saveFile } from './write/save/save.js';
export { serialize, serializeStream } from './write/save/serialize.js';
