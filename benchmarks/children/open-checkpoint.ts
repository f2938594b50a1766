/** Opens a checkpoint of many shards. Arguments: open|verify|tensor INDEX NAME */
import { openCheckpoint } from 'safetensors-mmap';

/** The line this child prints. */
export interface OpenCheckpointResult {
  /** Wall time in ms in a fresh process, everything imported. */
  readonly elapsed: number;
  /** Tensors that were seen. */
  readonly tensors: number;
}

const [method = '', path = '', name = ''] = process.argv.slice(2);
const start = performance.now();
const checkpoint = openCheckpoint(path);
if (method === 'verify') await checkpoint.verify();
if (method === 'tensor') Uint8Array.from(checkpoint.getTensor(name).bytes);
const elapsed = performance.now() - start;
const result: OpenCheckpointResult = { elapsed, tensors: checkpoint.size };
console.log(JSON.stringify(result));
