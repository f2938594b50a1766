/** What all readers in Node do with their tensors: the clock, the loop, the memory, the line. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Memory, readMemory } from '../process-memory.js';

/** The line a reader prints: times in ms since the call that opens the file, memory in bytes. */
export interface ReaderResult {
  /** Until the file is open: its tensors can be asked for. */
  readonly open: number;
  /** Until the first byte of the first tensor is in a register. */
  readonly firstTensor: number;
  /** Until all tensors have been handed out; a lazy reader has read nothing else then. */
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

/** Starts when it is made. Tensors are held, then touched, or both in turns; `stop` gives the line. */
export class TensorClock {
  readonly #touchWords: (bytes: Uint8Array) => bigint;
  readonly #before: Memory | undefined;
  readonly #start: number;
  readonly #held: Uint8Array[] = [];
  readonly #times = { open: Number.NaN, firstTensor: Number.NaN, handedOut: Number.NaN };
  #firstByte: number | undefined;
  #sum = 0n;
  #bytes = 0;

  /** `loops` is the folder of the compiled loop. */
  constructor(loops: string) {
    this.#touchWords = createRequire(import.meta.url)(join(loops, 'touch.node')).touchWords;
    // Garbage of the start would be freed while the clock runs, and pass for memory that was gained.
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    // What the first finds to be free is given back by the second.
    collect();
    collect();
    this.#before = readMemory();
    this.#start = performance.now();
  }

  get #elapsed(): number {
    return performance.now() - this.#start;
  }

  /** The file is open now. */
  opened(): void {
    this.#times.open = this.#elapsed;
  }

  hold(tensor: Uint8Array): void {
    if (this.#held.push(tensor) > 1) return;
    this.#firstByte = tensor[0];
    this.#times.firstTensor = this.#elapsed;
  }

  touch(tensor: Uint8Array): void {
    this.#sum += this.#touchWords(tensor);
    this.#bytes += tensor.byteLength;
  }

  /** The last tensor has been handed out now. */
  handedOut(): void {
    this.#times.handedOut = this.#elapsed;
  }

  touchHeld(): void {
    for (const tensor of this.#held) this.touch(tensor);
  }

  stop(): ReaderResult {
    const everyByte = this.#elapsed;
    return {
      ...this.#times,
      everyByte,
      bytes: this.#bytes,
      firstByte: this.#firstByte,
      checksum: BigInt.asUintN(64, this.#sum).toString(16).padStart(16, '0'),
      before: this.#before,
      after: readMemory(),
    };
  }

  /** Keeps all tensors until standard input ends. */
  async keepHeld(): Promise<void> {
    for await (const _ of process.stdin);
    this.#held.length = 0;
  }
}
