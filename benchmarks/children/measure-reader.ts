/** What the readers in Node share; `read_all.py` and `plain_mapping.c` do the same. */
import { createRequire } from 'node:module';
import { type Memory, readMemory } from '../memory.js';
import { touchWords } from './touch-words.js';

/** The line a reader prints: times in ms since the call that opens the file, memory in bytes. */
export interface ReaderResult {
  /** Until the file is open: its tensors can be asked for. */
  readonly open: number;
  /** Until the first byte of the first tensor is in a register. */
  readonly firstTensor: number;
  /** Until the loop has been over every byte of every tensor. */
  readonly everyByte: number;
  /** Bytes of all tensors. */
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

/** Opens a file and gives the bytes of its tensors one by one. */
export type Opener = (path: string) => Iterable<Uint8Array> | Promise<Iterable<Uint8Array>>;

/** Measures one reader and prints its line; a failure is one line on stderr and exit code 1. */
export async function measureReader(open: Opener): Promise<void> {
  try {
    console.log(JSON.stringify(await readEveryByte(open)));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  }
}

async function readEveryByte(open: Opener): Promise<ReaderResult> {
  const [path = '', addon = NO_ADDON] = process.argv.slice(2);
  const touch: (bytes: Uint8Array) => bigint =
    addon === NO_ADDON ? touchWords : createRequire(import.meta.url)(addon).touchWords;
  const held: Uint8Array[] = [];
  let sum = 0n;
  let bytes = 0;
  let firstByte: number | undefined;
  let firstTensor = Number.NaN;
  const before = readMemory();
  const start = performance.now();
  const tensors = await open(path);
  const opened = performance.now() - start;
  for (const tensor of tensors) {
    if (held.length === 0) {
      firstByte = tensor[0];
      firstTensor = performance.now() - start;
    }
    sum += touch(tensor);
    bytes += tensor.byteLength;
    held.push(tensor);
  }
  const everyByte = performance.now() - start;
  const after = readMemory();
  const checksum = BigInt.asUintN(64, sum).toString(16).padStart(16, '0');
  const times = { open: opened, firstTensor, everyByte };
  return { ...times, bytes, firstByte, checksum, before, after };
}
