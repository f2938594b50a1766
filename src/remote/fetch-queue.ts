/**
 * Fetches planned pieces, several at a time, into the memory of tensors. Plans the calls of one turn of the event
 * loop together: neighbouring bytes share a request, also across calls.
 */

import { RemoteError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import { gather } from '../tensor/gather.js';
import { extentOf } from '../tensor/strided-copy.js';
import { whenAborted } from '../work/abort-listeners.js';
import type { ByteRange } from '../work/byte-ranges.js';
import { limit, Slots } from '../work/slots.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { untilAborted } from '../work/until-aborted.js';
import { yieldNow } from '../work/yielding.js';
import {
  type FetchPiece,
  type PiecePart,
  planPieces,
  type RequestedCopy,
  type ResultMemory,
} from './fetch-plan.js';
import type { RemoteFile } from './remote-file.js';

/** Memory that is allocated right before its first bytes arrive. */
export class LazyMemory implements ResultMemory {
  readonly tensor: string;
  readonly byteLength: number;
  readonly #path: string;
  #bytes: Uint8Array<ArrayBuffer> | undefined;

  /** The path is for messages. */
  constructor(tensor: string, byteLength: number, path: string) {
    this.tensor = tensor;
    this.byteLength = byteLength;
    this.#path = path;
  }

  /** @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY` */
  get bytes(): Uint8Array<ArrayBuffer> {
    const { tensor, byteLength } = this;
    this.#bytes ??= allocate(Uint8Array, byteLength, { path: this.#path, tensor });
    return this.#bytes;
  }
}

/** Settings of a call. */
export interface FetchOptions {
  readonly onProgress: TransferOptions['onProgress'];
  /** Most unwanted bytes between two runs of a piece. Calls with different limits share no request. */
  readonly maxGapByteLength: number;
}

/** Calls of one turn that may share requests. */
interface Turn {
  readonly calls: FetchCall[];
  readonly planned: Promise<void>;
}

/** The fetches of one checkpoint: limits the requests at a time over all calls. */
export class FetchQueue {
  readonly #slots: Slots;
  /** Batches by `maxGap`. */
  readonly #turns = new Map<number, Turn>();

  constructor(concurrency: number) {
    this.#slots = new Slots(concurrency);
  }

  /**
   * Fetches all copies of a call, in the order of the bytes. An error ends its requests unless another call needs
   * them; an abort also ends waiting for a slot. Memory besides the results: at most a piece for every slot.
   *
   * @throws The error of the first failed request, or of `onProgress`
   */
  async fetch(
    wanted: readonly RequestedCopy[],
    { onProgress, maxGapByteLength }: FetchOptions,
    scope: AbortController,
  ): Promise<void> {
    const call = new FetchCall(wanted, onProgress, scope);
    await untilAborted(this.#plan(call, maxGapByteLength), scope.signal);
    await untilAborted(call.run(this.#slots), scope.signal);
  }

  async #plan(call: FetchCall, maxGap: number): Promise<void> {
    let turn = this.#turns.get(maxGap);
    if (turn === undefined) {
      const calls: FetchCall[] = [];
      const planned = yieldNow().then(() => {
        this.#turns.delete(maxGap);
        planTogether(
          calls.filter(({ hasEnded }) => !hasEnded),
          maxGap,
        );
      });
      turn = { calls, planned };
      this.#turns.set(maxGap, turn);
    }
    turn.calls.push(call);
    await turn.planned;
  }
}

/** Assigns pieces to the calls that need them. */
function planTogether(calls: readonly FetchCall[], maxGap: number): void {
  const [first] = calls;
  if (first === undefined) return;
  if (calls.length === 1) {
    // Generate them one by one: a slice may have very many.
    first.pieces = () => ownPieces(first, maxGap);
    return;
  }
  const callOf = new Map<ResultMemory, FetchCall>();
  for (const call of calls) for (const { memory } of call.wanted) callOf.set(memory, call);
  const lists = new Map(calls.map((call) => [call, [] as NeededPiece[]]));
  const wanted = inFileOrder(calls.flatMap((call) => call.wanted));
  for (const { file, parts } of planPieces(wanted, maxGap)) {
    const byCall = new Map<FetchCall, PiecePart[]>();
    for (const part of parts) {
      const call = callOf.get(part.memory) as FetchCall;
      const own = byCall.get(call);
      if (own === undefined) byCall.set(call, [part]);
      else own.push(part);
    }
    const shares = Array.from(byCall, shareOf);
    const piece = new SharedPiece(file, shares);
    for (const share of shares) lists.get(share.call)?.push(neededPiece(piece, share));
  }
  for (const [call, pieces] of lists) call.pieces = () => pieces;
}

function* ownPieces(call: FetchCall, maxGap: number): Generator<NeededPiece, void, void> {
  for (const { file, parts } of planPieces(inFileOrder(call.wanted), maxGap)) {
    const share = shareOf([call, parts]);
    yield neededPiece(new SharedPiece(file, [share]), share);
  }
}

/** Sorts by file, in order of appearance, then by position. */
function inFileOrder(wanted: readonly RequestedCopy[]): RequestedCopy[] {
  const ranks = new Map<RemoteFile, number>();
  for (const { file } of wanted) if (!ranks.has(file)) ranks.set(file, ranks.size);
  const rank = ({ file }: RequestedCopy): number => ranks.get(file) as number;
  return wanted.toSorted((a, b) => rank(a) - rank(b) || a.copy.byteOffset - b.copy.byteOffset);
}

/** One call's parts of a piece, and the range around them. */
interface Share extends ByteRange {
  readonly call: FetchCall;
  readonly parts: FetchPiece['parts'];
}

/** A piece for a call, and the number of its bytes that count for the call. */
interface NeededPiece {
  readonly piece: SharedPiece;
  readonly byteLength: number;
}

function neededPiece(piece: SharedPiece, { begin, end }: Share): NeededPiece {
  return { piece, byteLength: end - begin };
}

function shareOf([call, parts]: readonly [FetchCall, FetchPiece['parts']]): Share {
  return { call, parts, ...hullOf(parts.map(({ copy }) => extentOf(copy))) };
}

/** The smallest range around all ranges. There may be more of them than a call can take arguments. */
function hullOf(ranges: readonly ByteRange[]): ByteRange {
  let [begin, end] = [Number.POSITIVE_INFINITY, 0];
  for (const range of ranges) {
    begin = Math.min(begin, range.begin);
    end = Math.max(end, range.end);
  }
  return { begin, end };
}

/** One call: its pieces, progress and end. */
class FetchCall {
  readonly wanted: readonly RequestedCopy[];
  pieces: () => Iterable<NeededPiece> = () => [];
  readonly #onProgress: TransferOptions['onProgress'];
  readonly #scope: AbortController;
  #transfer: Transfer | undefined;

  constructor(
    wanted: readonly RequestedCopy[],
    onProgress: TransferOptions['onProgress'],
    scope: AbortController,
  ) {
    this.wanted = wanted;
    this.#onProgress = onProgress;
    this.#scope = scope;
  }

  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  get hasEnded(): boolean {
    return this.signal.aborted;
  }

  /** Ends the call, which rejects with the error. */
  fail(error: unknown): void {
    this.#scope.abort(error);
  }

  /** Counts arrived bytes. */
  advance(byteLength: number): void {
    try {
      if (!this.hasEnded) this.#transfer?.advance(byteLength);
    } catch (error) {
      // Thrown into the request, it would look like a broken connection.
      this.fail(error);
    }
  }

  /** Fetches all pieces, or waits for those that another call has begun. */
  async run(slots: Slots): Promise<void> {
    let totalBytes = 0;
    for (const { byteLength } of this.pieces()) totalBytes += byteLength;
    const { signal } = this;
    const goOn = (): void => signal.throwIfAborted();
    const transfer = new Transfer(totalBytes, { onProgress: this.#onProgress }, goOn);
    this.#transfer = transfer;
    const begunByOthers: Promise<void>[] = [];
    const fetch = async ({ piece }: NeededPiece): Promise<void> => {
      if (piece.begun === undefined) await piece.fetch();
      else begunByOthers.push(piece.begun);
    };
    await limit(this.pieces(), slots, fetch, signal);
    await Promise.all(begunByOthers);
    transfer.finish();
  }
}

/** A range of a file, fetched by one request for one or several calls. */
class SharedPiece {
  readonly #file: RemoteFile;
  readonly #shares: readonly Share[];
  #begun: Promise<void> | undefined;

  constructor(file: RemoteFile, shares: readonly Share[]) {
    this.#file = file;
    this.#shares = shares;
  }

  /** Settles once all bytes are there; undefined until a call begins. */
  get begun(): Promise<void> | undefined {
    return this.#begun;
  }

  /** Fetches for all calls that have not ended. Never rejects: an error ends the calls. */
  fetch(): Promise<void> {
    this.#begun ??= this.#fetch(this.#shares.filter(({ call }) => !call.hasEnded));
    return this.#begun;
  }

  async #fetch(shares: readonly Share[]): Promise<void> {
    const request = new AbortController();
    // The request ends when the last call that needs it does.
    let needed = shares.length;
    const leave = (): void => {
      if (--needed === 0) request.abort();
    };
    const ends = shares.map(({ call }) => whenAborted(call.signal, leave));
    try {
      await this.#fill(shares, request.signal);
    } catch (error) {
      for (const { call, parts } of shares) call.fail(withTensor(error, tensorOf(parts)));
    } finally {
      for (const end of ends) end();
    }
  }

  async #fill(shares: readonly Share[], signal: AbortSignal): Promise<void> {
    const { begin, end } = hullOf(shares);
    const all = shares.flatMap(({ parts }) => parts);
    const [first] = all;
    if (first === undefined) return;
    const { memory, targetByteOffset, copy } = first;
    const isRun = all.length === 1 && copy.loops.length === 0;
    const bytes = isRun
      ? memory.bytes.subarray(targetByteOffset, targetByteOffset + copy.byteLength)
      : allocate(Uint8Array, end - begin, { path: this.#file.path, tensor: tensorOf(all) });
    let arrived = begin;
    const onBytes = (byteLength: number): void => {
      const before = arrived;
      arrived += byteLength;
      for (const share of shares) {
        const own = lengthUntil(share, arrived) - lengthUntil(share, before);
        if (own > 0) share.call.advance(own);
      }
    };
    await this.#file.readInto(bytes, begin, { signal, onBytes });
    if (isRun) return;
    for (const { call, parts } of shares) {
      if (!call.hasEnded) gatherParts(call, parts, bytes, begin);
    }
  }
}

/** Bytes of the range in front of a position. */
function lengthUntil({ begin, end }: ByteRange, position: number): number {
  return Math.min(Math.max(position, begin), end) - begin;
}

/** An error, such as too little memory, ends this call only. */
function gatherParts(
  call: FetchCall,
  parts: FetchPiece['parts'],
  bytes: Uint8Array,
  begin: number,
): void {
  try {
    for (const { copy, memory, targetByteOffset } of parts) {
      gather(copy, bytes, begin, memory.bytes, targetByteOffset);
    }
  } catch (error) {
    call.fail(error);
  }
}

/** The tensor of all parts; undefined for several tensors. */
function tensorOf(parts: FetchPiece['parts']): string | undefined {
  const [first] = parts;
  return parts.every(({ memory }) => memory === first?.memory) ? first?.memory.tensor : undefined;
}

/** Adds the tensor's name to the error of a request, which doesn't know tensors. */
function withTensor(error: unknown, tensor: string | undefined): unknown {
  if (tensor === undefined || !(error instanceof RemoteError)) return error;
  const { code, path, status, url, cause, message } = error;
  const prefix = path === undefined ? '' : `${path}: `;
  const rest = message.slice(prefix.length);
  return new RemoteError(code, rest, { path, tensor, status, url, cause });
}
