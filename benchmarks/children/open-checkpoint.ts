/** Opens a checkpoint of many shards. Arguments: open|verify|tensor INDEX NAME */
import { openCheckpoint } from 'safetensors-mmap';

/** The line this child prints. */
export interface OpenCheckpointResult {
  /** Wall time in ms in a fresh process, everything imported. */
  readonly elapsed: number;
  /** Tensors that were seen; of `tensor`, the bytes of the one. */
  readonly count: number;
}

const [method = '', path = '', name = ''] = process.argv.slice(2);
const start = performance.now();
const checkpoint = openCheckpoint(path);
if (method === 'verify') await checkpoint.verify();
const count =
  method === 'tensor' ? Uint8Array.from(checkpoint.getTensor(name).bytes).length : checkpoint.size;
const result: OpenCheckpointResult = { elapsed: performance.now() - start, count };
console.log(JSON.stringify(result));
