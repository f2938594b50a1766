/**
 * Readers of other formats in Node. Arguments: METHOD FILE LOOPS all|NAME. Prints the line of `read.ts`, with
 * what the reader says about each tensor and what the system has read from the disk meanwhile.
 */
import { readFileSync } from 'node:fs';
import { FORMAT_READERS } from './format-readers.js';
import { type ReaderResult, TensorClock } from './tensor-clock.js';

/** The line this child prints. */
export interface FormatResult extends ReaderResult {
  /** What the reader says about the elements of each tensor, by name. */
  readonly dtypes: Readonly<Record<string, string>>;
  /** Bytes from the disk, read ahead included; absent where the system does not tell. */
  readonly readBytes?: number | undefined;
}

function diskBytes(): number | undefined {
  if (process.platform !== 'linux') return undefined;
  return Number(/^read_bytes: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

const [method = '', path = '', loops = '', what = 'all'] = process.argv.slice(2);
const openTensors = await FORMAT_READERS[method]?.();
if (openTensors === undefined) throw new Error(`no method ${method}`);
const diskBefore = diskBytes();
const clock = new TensorClock(loops);
const file = await openTensors(path);
clock.opened();
const dtypes: Record<string, string> = {};
for (const name of what === 'all' ? file.names : [what]) {
  const tensor = await file.get(name);
  clock.hold(tensor.bytes);
  dtypes[name] = tensor.dtype;
}
clock.handedOut();
clock.touchHeld();
const line = clock.stop();
const diskAfter = diskBytes();
const readBytes =
  diskBefore === undefined || diskAfter === undefined ? undefined : diskAfter - diskBefore;
const result: FormatResult = { ...line, dtypes, readBytes };
console.log(JSON.stringify(result));
await clock.keepHeld();
