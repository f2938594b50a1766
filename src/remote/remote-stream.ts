/** Streams remote tensors: each group is fetched by requests, into new memory. */

import {
  type Arrival,
  type GroupFetchOptions,
  inOrder,
  type StreamedTensor,
  type StreamGroup,
  type StreamSource,
} from '../file/source/stream.js';
import type { Tensor } from '../tensor/tensor.js';
import { type TransferOptions, totalByteLength } from '../work/transfer.js';
import { FETCHED_PIECE_BYTE_LENGTH } from './fetch-plan.js';

/** A located tensor. */
interface SizedTensor {
  readonly name: string;
  readonly byteLength: number;
}

/** How the checkpoint fetches. */
interface RemoteStreamPlan {
  /** Requests at a time. */
  readonly concurrency: number;
  readTensors(names: readonly string[], options: TransferOptions): Promise<Map<string, Tensor>>;
  /** Throws once the checkpoint is closed. */
  requireOpen(): void;
}

/** The source of one stream. */
export class RemoteStream implements StreamSource {
  /** As many bytes as one request fetches. */
  readonly groupByteLength: number = FETCHED_PIECE_BYTE_LENGTH;
  /** Enough for all requests at a time. */
  readonly prefetchByteLength: number;
  readonly #tensors: readonly SizedTensor[];
  readonly #plan: RemoteStreamPlan;

  constructor(tensors: readonly SizedTensor[], plan: RemoteStreamPlan) {
    this.#tensors = tensors;
    this.#plan = plan;
    this.prefetchByteLength = plan.concurrency * FETCHED_PIECE_BYTE_LENGTH;
  }

  tensors(): Iterable<StreamedTensor> {
    return inOrder(this.#tensors);
  }

  async totalByteLength(): Promise<number> {
    return totalByteLength(this.#tensors);
  }

  async fetch({ tensors }: StreamGroup, options: GroupFetchOptions): Promise<Arrival> {
    const names = tensors.map(({ name }) => name);
    const read = await this.#plan.readTensors(names, options);
    return { tensorOf: (name) => read.get(name) as Tensor, release() {} };
  }

  requireOpen(): void {
    this.#plan.requireOpen();
  }

  end(): void {}
}
