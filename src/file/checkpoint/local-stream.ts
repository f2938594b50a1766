/** Streams local tensors: from the mapping, or through memory that is reused. */

import { tensorByteLength } from '../../header/tensor-spec.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { type TransferOptions, totalByteLength } from '../../work/transfer.js';
import { ReusedMemory } from '../reused-memory.js';
import {
  type Arrival,
  type GroupFetchOptions,
  inOrder,
  type StreamedTensor,
  type StreamGroup,
  type StreamSource,
} from '../source/stream.js';
import type { TensorEntry, TensorInfo } from '../source/tensor-info.js';

const PREFETCH_BYTE_LENGTH = 128 * 2 ** 20;
const REUSED_PREFETCH_BYTE_LENGTH = 64 * 2 ** 20;

/** Each fetch costs some 50 µs. */
const GROUP_BYTE_LENGTH = 4 * 2 ** 20;

/** What a stream needs of its checkpoint. */
interface StreamedCheckpoint {
  info(name: string): TensorInfo;
  tensors(): Promise<TensorEntry[]>;
  getTensor(name: string): Tensor;
  prefetch(names: readonly string[], options: TransferOptions): Promise<void>;
  readTensors(names: readonly string[], options: TransferOptions): Promise<Map<string, Tensor>>;
}

/** What is streamed, and how. */
interface LocalStreamPlan {
  /** The names, where they were chosen. */
  readonly names: readonly string[] | undefined;
  /** All names; each shard is opened when its turn comes. */
  readonly allNames: Iterable<string>;
  /** Whether tensors are streamed through memory that is reused. */
  readonly reuse: boolean;
  /** Whether the checkpoint would retain a copy of the bytes until it is closed. */
  isCopied(name: string): boolean;
  /** Throws once the checkpoint is closed. */
  requireOpen(): void;
}

/** The source of one stream. */
export class LocalStream implements StreamSource {
  readonly groupByteLength: number = GROUP_BYTE_LENGTH;
  readonly prefetchByteLength: number;
  readonly #checkpoint: StreamedCheckpoint;
  readonly #plan: LocalStreamPlan;
  readonly #names: Iterable<string>;
  readonly #memory: ReusedMemory | undefined;

  constructor(checkpoint: StreamedCheckpoint, plan: LocalStreamPlan) {
    const { names, allNames, reuse } = plan;
    this.#checkpoint = checkpoint;
    this.#plan = plan;
    this.#names = names ?? allNames;
    this.#memory = reuse ? new ReusedMemory() : undefined;
    this.prefetchByteLength = reuse ? REUSED_PREFETCH_BYTE_LENGTH : PREFETCH_BYTE_LENGTH;
  }

  tensors(): Iterable<StreamedTensor> {
    return this.#memory === undefined ? inOrder(this.#sized()) : this.#inFiles();
  }

  async totalByteLength(): Promise<number> {
    const { names } = this.#plan;
    if (names === undefined) return totalByteLength(await this.#checkpoint.tensors());
    return names.reduce((sum, name) => sum + this.#byteLength(name), 0);
  }

  async fetch({ tensors, range }: StreamGroup, options: GroupFetchOptions): Promise<Arrival> {
    const names = tensors.map(({ name }) => name);
    if (this.#memory !== undefined) {
      const found = new Map(names.map((name) => [name, this.#checkpoint.getTensor(name)]));
      const arrival = await this.#memory.fetch(found, range, options.signal);
      if (arrival !== undefined) return arrival;
    }
    if (this.#plan.isCopied(names[0] as string)) {
      const read = await this.#checkpoint.readTensors(names, options);
      return { tensorOf: (name) => read.get(name) as Tensor, release() {} };
    }
    await this.#checkpoint.prefetch(names, options);
    return { tensorOf: (name) => this.#checkpoint.getTensor(name), release() {} };
  }

  requireOpen(): void {
    this.#plan.requireOpen();
  }

  end(): void {
    this.#memory?.end();
  }

  #byteLength(name: string): number {
    return tensorByteLength(this.#checkpoint.info(name));
  }

  *#sized(): Generator<{ readonly name: string; readonly byteLength: number }, void, void> {
    for (const name of this.#names) yield { name, byteLength: this.#byteLength(name) };
  }

  /** The tensors where their bytes are. */
  *#inFiles(): Generator<StreamedTensor, void, void> {
    for (const name of this.#names) {
      const { position, byteLength, untouchedFile } = TensorOf.sourceOf(
        this.#checkpoint.getTensor(name),
      );
      yield { name, position, byteLength, file: untouchedFile };
    }
  }
}
