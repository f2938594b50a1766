/** Reads one rank's part of every tensor of a checkpoint. Arguments: INDEX ADDON RANK RANKS */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { openCheckpoint } from 'safetensors-mmap';
import { NO_ADDON } from './measure-reader.js';
import { touchWords } from './touch-words.js';

/** The line this child prints. */
export interface ReadPartitionResult {
  readonly elapsed: number;
  /** Bytes of its part. */
  readonly bytes: number;
  /** Sum of all words as a decimal number, modulo 2^64. */
  readonly sum: string;
  /** Bytes that the kernel has fetched from the disk for this process. */
  readonly fetched: number;
}

function fetchedBytes(): number {
  return Number(/^read_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

const [path = '', addon = NO_ADDON, rank, worldSize] = process.argv.slice(2);
const touch: (bytes: Uint8Array) => bigint =
  addon === NO_ADDON ? touchWords : createRequire(import.meta.url)(addon).touchWords;
const partition = { rank: Number(rank), worldSize: Number(worldSize), dim: 0 };
const before = fetchedBytes();
const start = performance.now();
const checkpoint = openCheckpoint(path);
let bytes = 0;
let sum = 0n;
for (const name of checkpoint.keys()) {
  const part = checkpoint.getPartition(name, partition).bytes;
  sum += touch(part);
  bytes += part.byteLength;
}
const elapsed = performance.now() - start;
const result: ReadPartitionResult = {
  elapsed,
  bytes,
  sum: String(BigInt.asUintN(64, sum)),
  fetched: fetchedBytes() - before,
};
console.log(JSON.stringify(result));
