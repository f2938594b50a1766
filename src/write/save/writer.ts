/** `createWriter`: writes a file tensor by tensor, all declared first, then written in any order. */

import { createHash } from 'node:crypto';
import {
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
  requirePathFirst,
  requireString,
} from '../../errors/arguments.js';
import { isIterable } from '../../errors/brand-checks.js';
import { quoteName, SafetensorsError, TensorNotFoundError } from '../../errors/errors.js';
import { type NamedValues, pairsOf } from '../../errors/named-values.js';
import { nearNames } from '../../errors/near-names.js';
import { uncloneable } from '../../errors/uncloneable.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import {
  HEADER_OPTIONS,
  type HeaderOptions,
  type Layout,
  layOut,
  type Placed,
} from '../../header/header-writer.js';
import type { DigestsPlace } from '../../header/tensor-digests.js';
import { type NamedTensorSpec, readSpec, type TensorSpec } from '../../header/tensor-spec.js';
import { writeViews } from '../../platform/io/file-writes.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { INSPECT, type Inspect, showInfo } from '../../tensor/inspection.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { Transfer } from '../../work/transfer.js';
import { type FetchableTensors, isFetchable } from '../input/fetched-tensors.js';
import { metadataFor } from '../input/given-checkpoint.js';
import { isTensorBytes, type TensorBytes } from '../input/tensor-bytes.js';
import { payloadOf, payloadOfTensor } from '../input/tensor-input.js';
import type { TensorPieces, TensorStream } from '../input/tensor-stream.js';
import { requireNotInUse } from '../replacement/in-use.js';
import { Replacement } from '../replacement/replacement.js';
import { LeasedFiles } from './leased-files.js';
import { writeTensors } from './tensor-writes.js';

/** Number of missing tensors that an error names; it counts the rest. */
const MAX_LISTED_NAMES = 5;

/** Options of `createWriter`. */
export interface WriterOptions extends HeaderOptions {
  /** False does not sync file and folder: a loss of power may undo the writing. True by default. */
  readonly durable?: boolean | undefined;
  /** True hashes every tensor while it is written, and records the digests at `close`, as `saveFile` does. */
  readonly digests?: boolean | undefined;
}

const WRITER_OPTIONS: OptionNames<WriterOptions> = {
  ...HEADER_OPTIONS,
  durable: true,
  digests: true,
};

/**
 * A tensor of another file; or bytes: in memory, which must not change until the write is done; in pieces of any
 * length, such as an iterable, a stream or `tensor.chunks()`; or a function that returns one of these.
 */
export type WriterData = Tensor | TensorBytes | TensorPieces | TensorStream;

/** A declared tensor and its state. */
interface Slot extends Placed<NamedTensorSpec> {
  state: 'missing' | 'under way' | 'written';
  /** The SHA-256 of its bytes, once they are written, for a file with digests. */
  hex: string;
}

/** As the public `createWriter`. */
export async function createWriter(
  path: PathLike,
  specs: NamedValues<TensorSpec> | FetchableTensors,
  options: WriterOptions = {},
): Promise<SafetensorsWriter> {
  requirePathFirst(path, specs, 'createWriter(path, specs)');
  requireOptions(options, WRITER_OPTIONS);
  const { durable = true, digests = false } = options;
  requireBoolean('durable', durable);
  requireBoolean('digests', digests);
  const { location, label } = locate(path);
  requireLittleEndianHost(label);
  const metadata = metadataFor(specs, options.metadata);
  const layout = layOut(namedSpecs(specs), { ...options, metadata }, digests);
  const { header, byteLength } = layout;
  requireNotInUse(location, label);
  const replacement = await Replacement.open(location, label, { byteLength, durable });
  try {
    await writeViews(replacement, [header], 0);
  } catch (error) {
    replacement.discard();
    throw error;
  }
  return SafetensorsWriter.of(replacement, layout);
}

function* namedSpecs(
  specs: NamedValues<TensorSpec> | FetchableTensors,
): Generator<NamedTensorSpec, void, void> {
  const pairs = isFetchable(specs)
    ? specs.entriesNow().map((entry) => [entry.name, entry] as const)
    : pairsOf(specs as NamedValues<TensorSpec>, 'specs');
  for (const [name, spec] of pairs) {
    if (typeof spec !== 'object' || spec === null) {
      throw argumentTypeError(`the spec of tensor ${quoteName(name)}`, '{ dtype, shape }', spec);
    }
    yield readSpec(name, spec);
  }
}

const UNCLONEABLE = uncloneable('A SafetensorsWriter', 'post the tensors to this thread instead');

/**
 * A file that is being written. `createWriter` makes one.
 *
 * @example
 * ```ts
 * const specs = { a: { dtype: 'U8', shape: [4] }, b: { dtype: 'U8', shape: [2] } } as const;
 * await using writer = await createWriter('new.safetensors', specs); // aborts when not closed
 * await writer.write('b', Uint8Array.of(5, 6)); // in any order
 * await writer.write('a', [Uint8Array.of(1), Uint8Array.of(2, 3, 4)]); // in pieces
 * await writer.close();
 * console.log(loadFile('new.safetensors').get('a')?.data); // → Uint8Array(4) [ 1, 2, 3, 4 ]
 * ```
 */
export class SafetensorsWriter {
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #replacement: Replacement;
  readonly #dataStart: number;
  readonly #digests: DigestsPlace | undefined;
  /** In the order of their bytes. */
  readonly #slots = new Map<string, Slot>();
  readonly #pending = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  #state: 'open' | 'being closed' | 'closed' | 'aborted' = 'open';

  private constructor(
    replacement: Replacement,
    { header, placed, digests }: Layout<NamedTensorSpec>,
  ) {
    this.#replacement = replacement;
    this.#dataStart = header.byteLength;
    this.#digests = digests;
    for (const place of placed) {
      this.#slots.set(place.spec.name, { ...place, state: 'missing', hex: '' });
    }
  }

  /** @internal Takes ownership of a replacement with its header written. */
  static of(replacement: Replacement, layout: Layout<NamedTensorSpec>): SafetensorsWriter {
    return new SafetensorsWriter(replacement, layout);
  }

  /** The path as it was given, as text. */
  get path(): string {
    return this.#replacement.path;
  }

  /**
   * Writes all bytes of a declared tensor: a tensor of its dtype and shape, which the kernel copies from its file, a
   * typed array of its dtype, raw bytes, or a stream, with at most one piece and 1 MiB in memory. Several writes may
   * be under way. Each tensor is written once; after an error it may be tried again. A stream is always ended once
   * its first piece was requested; before that it is left untouched.
   *
   * @throws InvalidTensorError for another number of bytes, a tensor of another dtype or shape, a typed
   *   array of another dtype, and memory that was transferred meanwhile
   * @throws FileChangedError, FileClosedError for a tensor whose file changed or was closed with `detach`
   * @throws TensorNotFoundError for an undeclared name, with similar names
   * @throws SafetensorsError `SAFETENSORS_ALREADY_WRITTEN` for a tensor that is written or under way;
   *   `SAFETENSORS_WRITER_CLOSED` after `close()`, and when the writer is aborted meanwhile
   * @throws TypeError `ERR_INVALID_ARG_TYPE` for other values than bytes; errors of a stream
   * @throws Error Node's own `EIO`, `ENOSPC` and the like
   */
  async write(name: string, data: WriterData): Promise<void> {
    this.#requireOpen();
    const slot = this.#require(name);
    const work = this.#fill(slot, data);
    this.#pending.add(work);
    try {
      await work;
    } finally {
      this.#pending.delete(work);
    }
  }

  /**
   * Waits for the writes under way, then syncs the file and puts it into place.
   *
   * @throws SafetensorsError `SAFETENSORS_TENSORS_MISSING`, with names, when tensors are missing; the writer then
   *   stays open. Any other error, such as `SAFETENSORS_TARGET_IN_USE` or an error of the system, leaves nothing
   *   behind and the old file as it was
   */
  async close(): Promise<void> {
    this.#requireOpen();
    this.#state = 'being closed';
    await Promise.allSettled(this.#pending);
    if (this.#state !== 'being closed') this.#failClosed();
    const missing = [...this.#slots.values()].filter(({ state }) => state !== 'written');
    if (missing.length > 0) {
      this.#state = 'open';
      this.#failMissing(missing);
    }
    this.#state = 'closed';
    try {
      await this.#writeDigests();
      await this.#replacement.commit();
    } finally {
      this.#replacement.discard();
    }
  }

  /**
   * Gives up the file: writes under way reject, and nothing is left when the promise resolves. Does
   * nothing after `close()` or `abort()`.
   */
  async abort(): Promise<void> {
    if (this.#state === 'open' || this.#state === 'being closed') {
      this.#state = 'aborted';
      this.#abort.abort(this.#closedError());
    }
    if (this.#state !== 'aborted') return;
    // Don't close the descriptor under a write.
    if (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    this.#replacement.discard();
  }

  /** `await using writer = await createWriter(…)` aborts at the end of the block, unless closed. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort();
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    return showInfo('SafetensorsWriter', { path: this.path }, depth, options, inspect);
  }

  async #writeDigests(): Promise<void> {
    if (this.#digests === undefined) return;
    const text = Array.from(this.#slots.values(), ({ hex }) => hex).join('');
    const bytes = new TextEncoder().encode(text);
    await writeViews(this.#replacement, [bytes], this.#digests.position);
  }

  async #fill(slot: Slot, data: WriterData): Promise<void> {
    const { spec, begin } = slot;
    const { name, byteLength } = spec;
    if (slot.state !== 'missing') {
      const found = slot.state === 'written' ? 'found it written' : 'found its writing under way';
      throw new SafetensorsError(
        'SAFETENSORS_ALREADY_WRITTEN',
        `expected every tensor to be written once, ${found}`,
        { path: this.path, tensor: name },
      );
    }
    const transfer = new Transfer(byteLength, { signal: this.#abort.signal });
    slot.state = 'under way';
    try {
      const payload =
        data instanceof TensorOf
          ? payloadOfTensor(spec, data as Tensor)
          : payloadOf(spec, dataOrStream(data));
      const tensor = { byteLength, payload };
      const sources = new LeasedFiles([tensor]);
      try {
        const placed = [{ spec: tensor, begin }];
        const hash = createHash('sha256');
        const onBytes = (bytes: Uint8Array): unknown => hash.update(bytes);
        const how = this.#digests === undefined ? {} : { onBytes };
        await writeTensors(this.#replacement, this.#dataStart, placed, sources, transfer, how);
        sources.verify();
        slot.hex = hash.digest('hex');
      } finally {
        sources.end();
      }
      slot.state = 'written';
    } catch (error) {
      slot.state = 'missing';
      throw error;
    }
  }

  #require(name: string): Slot {
    requireString('name', name);
    const slot = this.#slots.get(name);
    if (slot !== undefined) return slot;
    throw new TensorNotFoundError(name, nearNames(name, this.#slots.keys()), { path: this.path });
  }

  #requireOpen(): void {
    if (this.#state !== 'open') this.#failClosed();
  }

  #failClosed(): never {
    throw this.#closedError();
  }

  #closedError(): SafetensorsError {
    const verb = this.#state === 'aborted' ? 'was' : 'is';
    const message = `expected an open writer, but it ${verb} ${this.#state}`;
    return new SafetensorsError('SAFETENSORS_WRITER_CLOSED', message, { path: this.path });
  }

  #failMissing(missing: readonly Slot[]): never {
    const names = missing.slice(0, MAX_LISTED_NAMES).map(({ spec }) => quoteName(spec.name));
    const others = missing.length - names.length;
    throw new SafetensorsError(
      'SAFETENSORS_TENSORS_MISSING',
      `expected all ${this.#slots.size} tensors to be written, but ${missing.length} are not: ` +
        `${names.join(', ')}${others > 0 ? ` and ${others} more` : ''}`,
      { path: this.path },
    );
  }
}

/** Wraps a synchronous iterable, such as an array or `tensor.chunks()`, in a stream. */
function dataOrStream(data: TensorBytes | TensorPieces | TensorStream): TensorBytes | TensorStream {
  // First, because a typed array is also an iterable, of numbers.
  if (isTensorBytes(data) || !isIterable(data)) return data;
  return () => data;
}
