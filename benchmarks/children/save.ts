/**
 * Writes a copy of a file. Arguments: METHOD SOURCE TARGET. The methods `memory…` hold the tensors
 * before the clock starts, `file…` open the source within it. Prints 0 when it is ready, and starts
 * its clock when standard input ends. `save.py` and `write_limit.c` do the same.
 */
import { readFileSync, writeFile, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { safeOpen, saveFile } from 'safetensors-mmap';

/** The line a writer prints in the end. */
export interface WriterResult {
  /** Wall time in ms until the new file is in its place. */
  readonly elapsed: number;
  /** Resident memory at its highest, above what was there when the clock started; in bytes. */
  readonly extraMemory: number;
}

type Work = () => Promise<void>;

async function fromMemory(source: string, target: string, durable: boolean): Promise<Work> {
  using file = safeOpen(source);
  const { metadata } = file;
  const tensors = await file.load();
  return () => saveFile(target, tensors, { metadata, durable });
}

function fromFile(source: string, target: string, durable: boolean): Work {
  return () => {
    const file = safeOpen(source);
    return saveFile(target, file.getTensors(), { metadata: file.metadata, durable });
  };
}

async function byWriteFile(source: string, target: string): Promise<Work> {
  await using file = await open(source);
  // `readFile` refuses files above 2 GiB.
  const bytes = Buffer.alloc((await file.stat()).size);
  for (let done = 0; done < bytes.length; ) {
    done += (await file.read(bytes, done, Math.min(2 ** 30, bytes.length - done), done)).bytesRead;
  }
  // The one with a callback writes the whole buffer in one call, that of fs/promises in small ones.
  return () => promisify(writeFile)(target, bytes);
}

const METHODS: Readonly<Record<string, (source: string, target: string) => Work | Promise<Work>>> =
  {
    memory: (source, target) => fromMemory(source, target, false),
    'memory-durable': (source, target) => fromMemory(source, target, true),
    file: (source, target) => fromFile(source, target, false),
    'file-durable': (source, target) => fromFile(source, target, true),
    writeFile: byWriteFile,
  };

/** The highest resident memory so far in bytes; NaN where the system does not tell. */
function peak(): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) * 1024;
}

const [method = '', source = '', target = ''] = process.argv.slice(2);
const work = await METHODS[method]?.(source, target);
console.log(0);
for await (const _ of process.stdin);
// Forgets the highest value so far.
writeFileSync('/proc/self/clear_refs', '5');
const before = peak();
const start = performance.now();
await work?.();
const result: WriterResult = { elapsed: performance.now() - start, extraMemory: peak() - before };
console.log(JSON.stringify(result));
