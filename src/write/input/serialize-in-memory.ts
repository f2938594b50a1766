/** `serialize` and `serializeStream` where there are no files, such as in browsers. */

import { type OptionNames, requireOptions, requireSignal } from '../../errors/arguments.js';
import type { Dtype } from '../../header/dtype.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { HEADER_OPTIONS, type HeaderOptions, layOut } from '../../header/header-writer.js';
import { type FetchableTensors, requireInMemory, withFetchedNow } from './fetched-tensors.js';
import { metadataFor } from './given-checkpoint.js';
import {
  type LeasedSources,
  SerializedStream,
  serializedPieces,
  serializeEntries,
} from './serialized.js';
import {
  memoryEntries,
  type NamedTensors,
  type NamedTensorsInMemory,
  readTensorsAndStreams,
} from './tensor-input.js';

/** Options of {@link serializeStream}. */
export interface SerializeStreamOptions extends HeaderOptions {
  /** Ends the stream: its next piece is `signal.reason` as an error. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
export const STREAM_OPTIONS: OptionNames<SerializeStreamOptions> = {
  ...HEADER_OPTIONS,
  signal: true,
};

/** All bytes are in memory. */
const NO_FILES: LeasedSources<(target: Uint8Array, begin?: number) => void> = {
  fill:
    (payload) =>
    (target, begin = 0) => {
      if (payload.kind === 'memory') {
        target.set(payload.window(begin, begin + target.length));
        return;
      }
      const from = payload.position + begin;
      target.set(payload.storage.window(from, from + target.length));
    },
  verify() {},
  end() {},
};

/**
 * Returns tensors and metadata as the bytes of a safetensors file, in one buffer: as `serialize` of the main entry.
 *
 * @throws InvalidTensorError `SAFETENSORS_INVALID_TENSOR_VIEW`, `SAFETENSORS_HEADER_TOO_LARGE`; SafetensorsError
 *   `SAFETENSORS_OUT_OF_MEMORY`
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE` for unusable arguments
 */
export function serialize<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(tensors: NamedTensorsInMemory<D, ByName>, options: HeaderOptions = {}): Uint8Array<ArrayBuffer> {
  requireLittleEndianHost();
  requireOptions(options, HEADER_OPTIONS);
  requireInMemory(tensors);
  const entries = memoryEntries(tensors as NamedTensorsInMemory);
  const header = { ...options, metadata: metadataFor(tensors, options.metadata) };
  return serializeEntries(entries, header, Number.MAX_SAFE_INTEGER, () => NO_FILES);
}

/**
 * As `serialize`, one piece after the other, of tensors in memory or of streams, such as functions that fetch: as
 * `serializeStream` of the main entry. A page can save what it has opened by it.
 *
 * @throws As `serialize`; in the stream as streams of tensors do, and `signal.reason`
 */
export function serializeStream<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(
  tensors: NamedTensors<D, ByName> | FetchableTensors,
  options: SerializeStreamOptions = {},
): SerializedStream {
  requireLittleEndianHost();
  requireOptions(options, STREAM_OPTIONS);
  const { signal, ...rest } = options;
  requireSignal(signal);
  const given = withFetchedNow(tensors as NamedTensors | FetchableTensors, signal);
  const header = { ...rest, metadata: metadataFor(tensors, options.metadata) };
  const layout = layOut(readTensorsAndStreams(given), header);
  return SerializedStream.of(layout.byteLength, () =>
    serializedPieces(layout, () => NO_FILES, signal),
  );
}
