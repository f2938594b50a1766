/** What the readers in Node share; `read_all.py` and `raw_limit.c` do the same. */
import { createRequire } from 'node:module';
import { type Memory, readMemory } from '../memory.js';
import { touchWords } from './touch-words.js';

/** The line a reader prints: times in ms since the call that opens the file, memory in bytes. */
export interface ReaderResult {
  /** Until the file is open: its tensors can be asked for. */
  readonly open: number;
  /** Until the first byte of the first tensor is in a register. */
  readonly firstTensor: number;
  /** Until all tensors have been handed out; of a lazy reader nothing has been read then. */
  readonly handedOut: number;
  /** Until the loop has been over every byte of every tensor. */
  readonly everyByte: number;
  /** Bytes of the tensors. */
  readonly bytes: number;
  /** First byte of the first tensor, printed so that reading it cannot be left out. */
  readonly firstByte?: number | undefined;
  /** Sum of all words as 16 hexadecimal digits: equal for all readers of the same weights. */
  readonly checksum: string;
  /** Memory when the clock started; absent where the system does not tell. */
  readonly before?: Memory | undefined;
  /** Memory after the last byte was read, with all tensors still held. */
  readonly after?: Memory | undefined;
}

/** Stands in the command in place of the path of the compiled loop where there is none. */
export const NO_ADDON = '-';

/** Hands a tensor's bytes out, which may mean to read them. */
export type Take = () => Uint8Array | Promise<Uint8Array>;

/** Stands in the command where the child shall end when it has printed its line. */
export const NO_HOLD = '-';

/** Opens a file; its tensors in the order of the file, to be taken one by one. */
export type Opener = (path: string, method: string) => readonly Take[] | Promise<readonly Take[]>;

const [path = '', addon = NO_ADDON, what = 'all', hold = NO_HOLD, method = ''] =
  process.argv.slice(2);

/**
 * Measures one reader and prints its line; a failure is one line on stderr and exit code 1.
 * Arguments of the process: FILE ADDON all|INDEX hold|- [METHOD], with the position of the one
 * tensor to read; with `hold` everything stays in memory until standard input ends.
 */
export async function measureReader(open: Opener): Promise<void> {
  try {
    const held: Uint8Array[] = [];
    console.log(JSON.stringify(await readEveryByte(open, held)));
    if (hold === NO_HOLD) return;
    for await (const _ of process.stdin);
    held.length = 0;
  } catch (error) {
    console.error(`Error: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}

async function readEveryByte(open: Opener, held: Uint8Array[]): Promise<ReaderResult> {
  const touch: (bytes: Uint8Array) => bigint =
    addon === NO_ADDON ? touchWords : createRequire(import.meta.url)(addon).touchWords;
  let sum = 0n;
  let bytes = 0;
  const before = readMemory();
  const start = performance.now();
  const all = await open(path, method);
  const opened = performance.now() - start;
  const wanted = what === 'all' ? all : all.slice(Number(what), Number(what) + 1);
  let firstByte: number | undefined;
  let firstTensor = Number.NaN;
  for (const take of wanted) {
    const taken = take();
    const tensor = taken instanceof Uint8Array ? taken : await taken;
    if (held.push(tensor) > 1) continue;
    firstByte = tensor[0];
    firstTensor = performance.now() - start;
  }
  const handedOut = performance.now() - start;
  for (const tensor of held) {
    sum += touch(tensor);
    bytes += tensor.byteLength;
  }
  const everyByte = performance.now() - start;
  const after = readMemory();
  const checksum = BigInt.asUintN(64, sum).toString(16).padStart(16, '0');
  const times = { open: opened, firstTensor, handedOut, everyByte };
  return { ...times, bytes, firstByte, checksum, before, after };
}
