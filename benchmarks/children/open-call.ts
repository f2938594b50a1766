/** Times the open call alone: the first one of the process, and many more. Arguments: FILE COUNT */
import { safeOpen } from 'safetensors-mmap';
import { median } from '../median.js';

/** The line this child prints, in ms. */
export interface OpenCallResult {
  /** The first call of the process, the package already imported. */
  readonly first: number;
  /** Median of the later calls; each file is closed before the next is opened. */
  readonly repeated: number;
}

const [path = '', count = '1000'] = process.argv.slice(2);

function timedOpen(): number {
  const start = performance.now();
  const file = safeOpen(path);
  const elapsed = performance.now() - start;
  file.close();
  return elapsed;
}

const first = timedOpen();
const repeated = median(Array.from({ length: Number(count) }, timedOpen));
const result: OpenCallResult = { first, repeated };
console.log(JSON.stringify(result));
