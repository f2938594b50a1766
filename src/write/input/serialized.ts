/** The bytes of a whole file, all at once or as a stream, wherever the tensors' bytes are. */

import { argumentRangeError, type OptionNames } from '../../errors/arguments.js';
import { allocate } from '../../errors/out-of-memory.js';
import { HEADER_OPTIONS, type HeaderOptions, layOut } from '../../header/header-writer.js';
import type { FilePayload, WriteEntry } from './tensor-input.js';

/** Options of `serializeStream`. */
export interface SerializeStreamOptions extends HeaderOptions {
  /** Ends the stream: its next piece is `signal.reason` as an error. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
export const STREAM_OPTIONS: OptionNames<SerializeStreamOptions> = {
  ...HEADER_OPTIONS,
  signal: true,
};

/** Files that lend their bytes while a result is made. */
export interface Lenders<Fill> {
  fill(payload: FilePayload): Fill;
  /** Throws when a file or memory has changed meanwhile. */
  verify(): void;
  end(): void;
}

/**
 * Writes the tensors into one buffer.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for a result of more than `maxByteLength` bytes; as `layOut` and `lend`
 */
export function serializeEntries(
  entries: readonly WriteEntry[],
  options: HeaderOptions,
  maxByteLength: number,
  lend: (entries: readonly WriteEntry[]) => Lenders<(target: Uint8Array) => void>,
): Uint8Array<ArrayBuffer> {
  const { header, placed, byteLength } = layOut(entries, options);
  if (byteLength > maxByteLength) {
    const expected = `at most ${maxByteLength} bytes, as one buffer of this runtime holds`;
    throw argumentRangeError('the result', expected, byteLength);
  }
  const lenders = lend(entries);
  try {
    const result = allocate(Uint8Array, byteLength, {});
    result.set(header);
    const data = result.subarray(header.byteLength);
    for (const { spec, begin, end } of placed) {
      const { payload } = spec;
      if (payload.kind === 'memory') data.set(payload.window(0, spec.byteLength), begin);
      else lenders.fill(payload)(data.subarray(begin, end));
    }
    lenders.verify();
    return result;
  } finally {
    lenders.end();
  }
}

/**
 * The bytes of a file that is made while it is read, by `serializeStream`: an async iterable of pieces, or a
 * `ReadableStream` of them. It can be read once.
 *
 * @example
 * ```ts
 * const stream = serializeStream({ steps: { dtype: 'I32', shape: [2], data: Int32Array.of(1, 2) } });
 * console.log(stream.byteLength); // → 80
 * const response = new Response(stream.readable());
 * console.log((await response.arrayBuffer()).byteLength); // → 80
 * ```
 */
export class SerializedStream implements AsyncIterable<Uint8Array<ArrayBuffer>> {
  /** Length of the whole file in bytes. */
  readonly byteLength: number;
  #open: (() => AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>) | undefined;

  private constructor(
    byteLength: number,
    open: () => AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>,
  ) {
    this.byteLength = byteLength;
    this.#open = open;
  }

  /** @internal */
  static of(
    byteLength: number,
    open: () => AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>,
  ): SerializedStream {
    return new SerializedStream(byteLength, open);
  }

  /**
   * The pieces in order, of at most 1 MiB each; they are yours. Leaving the loop ends it.
   *
   * @throws TypeError `ERR_INVALID_STATE` the second time; in the loop as `serializeStream`
   */
  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
    const open = this.#open;
    this.#open = undefined;
    if (open !== undefined) return open();
    const message = 'the stream is read already: make another one by serializeStream';
    throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_STATE' });
  }

  /**
   * The same as a web stream, which makes a piece when it is asked for one. Cancelling ends it.
   *
   * @throws As iterating
   */
  readable(): ReadableStream<Uint8Array<ArrayBuffer>> {
    const pieces = this[Symbol.asyncIterator]();
    return new ReadableStream<Uint8Array<ArrayBuffer>>(
      {
        async pull(controller) {
          const { value, done } = await pieces.next();
          if (done === true) controller.close();
          else controller.enqueue(value);
        },
        async cancel() {
          await pieces.return();
        },
      },
      { highWaterMark: 0 },
    );
  }
}
