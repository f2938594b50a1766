/** A file over HTTP: reads ranges, all of one version. */

import { PASS_CREDENTIALS } from '../errors/advice.js';
import { FileChangedError, type RemoteError, type RemoteErrorCode } from '../errors/errors.js';
import { type FileVersion, versionChange } from './file-version.js';
import {
  type AnsweredRange,
  codingOf,
  isDecodable,
  type RangeRequest,
  rangeHeader,
  readRangeHead,
  type UnmeasuredFile,
  wholeLengthOf,
} from './range-response.js';
import { FIRST_BYTE_LENGTH } from './read-header.js';
import type { FileStart, ReadRangeOptions, RemoteFile } from './remote-file.js';
import {
  type Answer,
  awaitPlaced,
  discard,
  type RequestUrl,
  readPieces,
  rejection,
  request,
} from './request.js';
import { TransientError } from './retries.js';
import type { FailureContext, Session, Try } from './session.js';
import { beginsAsPage, isCalledPage, pageMessage } from './web-page.js';

/** Statuses by which servers also reject the header `Range`: the same request without it may succeed. */
const RANGE_REFUSALS: readonly number[] = [400, 501];

/** The address of a file. */
export interface FileAddress {
  /** For messages: without credentials, query and fragment. */
  readonly path: string;
  readonly isOnHub: boolean;
  /** The pinned commit, if any. */
  readonly commit: string | undefined;
  /** The URL to request now: of the pinned commit once there is one. */
  url(): URL;
  /**
   * Called with the commit of an answer.
   *
   * @throws FileChangedError `SAFETENSORS_FILE_CHANGED` if the commit has changed
   */
  answeredBy(commit: string): void;
  /** Finds and pins the commit before redirects that hide it. */
  pin(tried: Try): Promise<void>;
}

/** Bytes in the process of being read. */
interface Reading {
  /** Position of the first byte. */
  readonly begin: number;
  /** Position after the last byte; for a start it may lie after the end of the file. */
  end: number;
  /** Their target. Undefined until the length of the file is known. */
  target: Uint8Array<ArrayBuffer> | undefined;
  /** Number of arrived bytes. */
  received: number;
  readonly onBytes: ReadRangeOptions['onBytes'];
  readonly onRedirected: (() => void) | undefined;
}

/** Read bytes. */
interface FileBytes extends Omit<FileStart, 'bytes'> {
  readonly target: Uint8Array<ArrayBuffer>;
}

/** The first bytes of a file. */
interface FileHead {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Length of the whole file in bytes; undefined if no answer proves it. */
  readonly fileByteLength: number | undefined;
}

/** What the caller knows about a file beforehand. */
export interface KnownFile {
  readonly byteLength: number;
  /** Whether the caller compares a hash of all bytes: then the version and the coding of an answer don't matter. */
  readonly isHashed: boolean;
}

/** Takes a whole file, piece by piece. */
export interface WholeFileSink {
  /** Called before the first byte of every try, which starts over. */
  begin(): Promise<void>;
  /** The next bytes; their memory is reused afterwards. */
  take(bytes: Uint8Array<ArrayBuffer>): Promise<void> | void;
}

/** A file read by ranged requests. */
export class HttpFile implements RemoteFile {
  readonly path: string;
  readonly #session: Session;
  readonly #address: FileAddress;
  /** The version of the first answer. */
  #version: FileVersion | undefined;
  /** All bytes of a small file, from a server without ranges, which sends it whole. */
  #whole: Uint8Array<ArrayBuffer> | undefined;
  #lacksRanges = false;
  /** The error for an answer with the content type of a web page, until its first bytes disprove it. */
  #page: (() => RemoteError) | undefined;
  /** The URL on another host to which the last redirect has led. Usually a signed URL that expires. */
  #location: URL | undefined;

  /** Sends no request yet. */
  constructor(session: Session, address: FileAddress) {
    this.path = address.path;
    this.#session = session;
    this.#address = address;
  }

  /** The first URL, with its query: not for messages. */
  get url(): URL {
    return this.#address.url();
  }

  /** The version pinned by the first answer. */
  get version(): FileVersion | undefined {
    return this.#version;
  }

  /**
   * Throws if the last answer and its first bytes say that the file is a web page: reading a header would notice,
   * copying bytes would not.
   *
   * @throws RemoteError `SAFETENSORS_BAD_RESPONSE`
   */
  requireNoPage({ bytes }: FileStart): void {
    if (this.#page !== undefined && beginsAsPage(bytes)) throw this.#page();
  }

  /** Whether the server has answered a range with something else. It may still send the file as a whole. */
  get lacksRanges(): boolean {
    return this.#lacksRanges;
  }

  async readStart(
    byteLength: number,
    signal?: AbortSignal,
    onRedirected?: () => void,
  ): Promise<FileStart> {
    const reading: Reading = {
      begin: 0,
      end: byteLength,
      target: undefined,
      received: 0,
      onBytes: undefined,
      onRedirected,
    };
    const { target, ...start } = await this.#read(reading, signal);
    return { bytes: target, ...start };
  }

  /** The first bytes of a file, also of a long one from a server without ranges, whose answer is cut off there. */
  async readHead(byteLength: number, signal: AbortSignal): Promise<FileHead> {
    try {
      const { bytes, fileByteLength, isDecoded } = await this.readStart(byteLength, signal);
      return { bytes, fileByteLength: isDecoded ? undefined : fileByteLength };
    } catch (error) {
      if (!this.#lacksRanges) throw error;
    }
    const readOnce = (tried: Try): Promise<FileHead> => this.#readHeadOnce(byteLength, tried);
    return await this.#session.request(this.path, signal, readOnce);
  }

  /**
   * Receives all bytes by one request without a range, from a server that answers none. A body of another length than
   * the known one ends at once, whatever it is decoded from. Retries start over.
   *
   * @throws RemoteError, FileChangedError; what the sink throws
   */
  async receiveWhole(known: KnownFile, sink: WholeFileSink, signal: AbortSignal): Promise<void> {
    const receive = async (tried: Try): Promise<void> => {
      await sink.begin();
      const answer = await this.#requestWhole(tried);
      this.#requireKnown(answer, known);
      await this.#readWhole(answer, known, sink, tried);
    };
    await this.#session.request(this.path, signal, receive);
  }

  async readInto(
    target: Uint8Array<ArrayBuffer>,
    position: number,
    { signal, onBytes }: ReadRangeOptions = {},
  ): Promise<void> {
    if (target.byteLength === 0) return;
    const end = position + target.byteLength;
    const reading = { begin: position, end, target, received: 0, onBytes, onRedirected: undefined };
    await this.#read(reading, signal);
  }

  /** Reads in one or several tries; each continues where the last one stopped. */
  async #read(reading: Reading, signal: AbortSignal | undefined): Promise<FileBytes> {
    const readOnce = async (tried: Try): Promise<FileBytes> => {
      try {
        return await this.#readOnce(reading, tried);
      } catch (error) {
        // Its host may have caused the failure.
        this.#location = undefined;
        throw error;
      }
    };
    return this.#session.request(this.path, signal, readOnce, () => reading.received);
  }

  async #readOnce(reading: Reading, tried: Try): Promise<FileBytes> {
    const kept = this.#readKept(reading);
    if (kept !== undefined) return kept;
    const asked = { begin: reading.begin + reading.received, end: reading.end };
    const answer = await this.#ask(rangeHeader(asked), reading, tried);
    const head = await this.#checkHead(answer, asked, tried, reading.target);
    if (head.total === undefined) return await this.#readUnmeasured(answer, head, asked.end, tried);
    const { begin, end, total } = head;
    const target = reading.target ?? new Uint8Array(end - begin);
    reading.target = target;
    reading.end = end;
    const { status } = answer.response;
    // The body of a 416 is an error page: the file itself is empty.
    if (status === 416) await discard(answer.response, tried);
    else await this.#readBody(answer, reading, target, tried);
    if (status === 200) this.#keep(target);
    return { target, fileByteLength: total };
  }

  /** Keeps the bytes of a small file: the server sends no parts of it. */
  #keep(whole: Uint8Array<ArrayBuffer>): void {
    if (whole.length <= FIRST_BYTE_LENGTH) this.#whole = whole.slice();
  }

  /** A range of the bytes that are kept; undefined for others. */
  #readKept({ begin, end, target, onBytes }: Reading): FileBytes | undefined {
    const whole = this.#whole;
    if (whole === undefined || target === undefined || end > whole.length) return undefined;
    target.set(whole.subarray(begin, end));
    onBytes?.(target.length);
    return { target, fileByteLength: whole.length };
  }

  /** Reads a whole file of unknown length, which may have up to `maxByteLength` bytes. */
  async #readUnmeasured(
    answer: Answer,
    { isDecoded }: UnmeasuredFile,
    maxByteLength: number,
    tried: Try,
  ): Promise<FileBytes> {
    const pieces: Uint8Array[] = [];
    let byteLength = 0;
    await readPieces(this.#session, answer, this.path, tried, (piece) => {
      byteLength += piece.length;
      if (byteLength > maxByteLength) throw this.#tooLongWithoutRanges(maxByteLength, answer);
      pieces.push(piece);
    });
    this.#checkVersion(answer, byteLength);
    const target = new Uint8Array(byteLength);
    let at = 0;
    for (const piece of pieces) {
      target.set(piece, at);
      at += piece.length;
    }
    this.#keep(target);
    return { target, fileByteLength: byteLength, isDecoded };
  }

  async #readHeadOnce(byteLength: number, tried: Try): Promise<FileHead> {
    const answer = await this.#requestWhole(tried);
    const total = wholeLengthOf(answer.response.headers);
    if (total !== undefined) this.#checkVersion(answer, total);
    const bytes = new Uint8Array(Math.min(byteLength, total ?? byteLength));
    let received = 0;
    const enough = new Error('enough');
    const take = (piece: Uint8Array): void => {
      const wanted = piece.subarray(0, bytes.length - received);
      bytes.set(wanted, received);
      received += wanted.length;
      if (received === bytes.length) throw enough;
    };
    try {
      await readPieces(this.#session, answer, this.path, tried, take);
    } catch (error) {
      if (error !== enough) throw error;
    }
    return { bytes: bytes.subarray(0, received), fileByteLength: total };
  }

  /** Requests all of the file. */
  async #requestWhole(tried: Try): Promise<Answer> {
    const answer = await this.#ask(undefined, undefined, tried);
    const { response, url } = answer;
    const { status, headers } = response;
    if (status >= 400) throw await this.#rejection(answer, tried);
    this.#page = isCalledPage(headers, this.path) ? this.#pageError(answer) : undefined;
    if (status === 200) return answer;
    response.body?.cancel().catch(() => {});
    const message = `expected 200 with the whole file, found status ${status}`;
    throw this.#error('SAFETENSORS_BAD_RESPONSE', message, { url, status });
  }

  /** Throws for the head of a whole file that cannot be the known one. */
  #requireKnown(answer: Answer, { byteLength, isHashed }: KnownFile): void {
    const { url, response } = answer;
    const { status, headers, body } = response;
    const total = wholeLengthOf(headers);
    const coding = codingOf(headers);
    try {
      const isOther = total !== undefined && total !== byteLength;
      if (isOther && this.#page !== undefined) throw this.#page();
      if (!isHashed) this.#checkVersion(answer, total ?? byteLength);
      if (!isOther && (isHashed || coding === '' || isDecodable(coding))) return;
      const found = isOther ? `Content-Length: ${total}` : `Content-Encoding: ${coding}`;
      const message = `expected the whole file of ${byteLength} bytes, found ${found}`;
      throw this.#error('SAFETENSORS_BAD_RESPONSE', message, { url, status });
    } catch (error) {
      body?.cancel().catch(() => {});
      throw error;
    }
  }

  async #readWhole(
    answer: Answer,
    { byteLength, isHashed }: KnownFile,
    sink: WholeFileSink,
    tried: Try,
  ): Promise<void> {
    const { url } = answer;
    let received = 0;
    try {
      await readPieces(this.#session, answer, this.path, tried, async (piece) => {
        if (received === 0 && !isHashed) {
          this.requireNoPage({ bytes: piece, fileByteLength: byteLength });
        }
        received += piece.length;
        if (received > byteLength) throw this.#tooLong({ byteLength }, url);
        await sink.take(piece);
      });
    } catch (error) {
      const isCutOff = error instanceof TransientError || tried.isStalled();
      if (!isCutOff || received < byteLength) throw error;
    }
    if (received < byteLength) throw this.#tooShort(received, { byteLength }, url);
  }

  /** Asks the host of the last redirect; if that refuses, the source's host. */
  async #ask(range: string | undefined, reading: Reading | undefined, tried: Try): Promise<Answer> {
    const question = {
      range,
      target: reading?.target?.subarray(reading.received),
      onRedirected: reading?.onRedirected,
    };
    const location = this.#location;
    const answer = await this.#send(location, question, tried);
    const { status } = answer.response;
    const isElsewhere = answer.url.origin !== this.#address.url().origin;
    if (!isElsewhere || status < 400 || status === 416) return answer;
    await discard(answer.response, tried);
    this.#location = undefined;
    return this.#send(undefined, question, tried);
  }

  async #send(
    location: URL | undefined,
    question: Pick<RequestUrl, 'range' | 'target' | 'onRedirected'>,
    tried: Try,
  ): Promise<Answer> {
    const isForeign = location !== undefined;
    const pin = async (): Promise<URL> => {
      await this.#address.pin(tried);
      return this.#address.url();
    };
    const url = location ?? this.#address.url();
    const answer = await request(
      this.#session,
      { ...question, url, isForeign, path: this.path, pin },
      tried,
    );
    if (answer.commit !== undefined) this.#address.answeredBy(answer.commit);
    return answer;
  }

  /** Checks the contents of the body, which must be bytes of the first answer's version. */
  async #checkHead(
    answer: Answer,
    asked: RangeRequest,
    tried: Try,
    target: Uint8Array | undefined,
  ): Promise<AnsweredRange | UnmeasuredFile> {
    const { response, url } = answer;
    const { status, headers } = response;
    const { path } = this;
    const pageError = this.#pageError(answer);
    const { origin } = this.#address.url();
    if (status >= 400 && status !== 416) {
      this.#lacksRanges ||= RANGE_REFUSALS.includes(status);
      throw await this.#rejection(answer, tried);
    }
    try {
      const head = readRangeHead(status, headers, asked, target === undefined);
      const isPage = isCalledPage(headers, path);
      if ('code' in head && isPage && status === 200) {
        this.#lacksRanges = true;
        throw pageError();
      }
      this.#page = isPage ? pageError : undefined;
      if (url.origin !== origin && !('code' in head)) this.#location = url;
      if ('isDecoded' in head) return head;
      if ('code' in head) {
        const pinned = this.#version;
        // An answer without bytes has no other facts of the version.
        if (pinned !== undefined && head.total !== undefined) {
          this.#requireSame(pinned, { ...pinned, total: head.total });
        }
        this.#lacksRanges = true;
        const isWhole = status === 200 && wholeLengthOf(headers) !== undefined;
        const advice = isWhole ? '; `download` receives the whole file' : '';
        const message = `expected ${head.expected}, found ${head.found}${advice}`;
        throw this.#error(head.code, message, { url, status });
      }
      this.#checkVersion(answer, head.total);
      if (target !== undefined && head.end < asked.end) {
        const message = `expected bytes up to ${asked.end}, found a file of ${head.total} bytes`;
        throw this.#error('SAFETENSORS_BAD_RESPONSE', message, { url, status });
      }
      return head;
    } catch (error) {
      response.body?.cancel().catch(() => {});
      throw error;
    }
  }

  async #rejection(answer: Answer, tried: Try): Promise<RemoteError> {
    const { path } = this;
    const { origin } = this.#address.url();
    return await rejection(this.#session, answer, { ...this.#address, path, origin }, tried);
  }

  /** Makes the error for a web page in place of the file. */
  #pageError({ response: { status }, url, isAuthorized }: Answer): () => RemoteError {
    const message = pageMessage('the bytes of a file', url, isAuthorized);
    const advice = isAuthorized ? [] : [PASS_CREDENTIALS];
    const context = { url, status, foundFormat: 'html', advice } as const;
    return () => this.#error('SAFETENSORS_BAD_RESPONSE', message, context);
  }

  #checkVersion({ response: { headers }, url, linkedTag }: Answer, total: number): void {
    const version: FileVersion = {
      total,
      commit: this.#address.commit,
      linkedTag,
      tag: headers.get('etag') ?? undefined,
      modified: headers.get('last-modified') ?? undefined,
      origin: url.origin,
    };
    this.#version ??= version;
    this.#requireSame(this.#version, version);
  }

  #requireSame(first: FileVersion, next: FileVersion): void {
    const change = versionChange(first, next);
    if (change !== null) throw new FileChangedError(change, { path: this.path });
  }

  /** Reads the body to its end, which must be the last requested byte. */
  async #readBody(answer: Answer, reading: Reading, target: Uint8Array, tried: Try): Promise<void> {
    const { url } = answer;
    const arrived = (byteLength: number): void => {
      reading.received += byteLength;
      reading.onBytes?.(byteLength);
    };
    const take = (piece: Uint8Array): void => {
      const { byteLength } = piece;
      if (byteLength > target.byteLength - reading.received) throw this.#tooLong(target, url);
      target.set(piece, reading.received);
      arrived(byteLength);
    };
    try {
      if (answer.receive === undefined) {
        await readPieces(this.#session, answer, this.path, tried, take);
      } else {
        await awaitPlaced(this.#session, answer, this.path, tried, arrived);
      }
    } catch (error) {
      // Ignore a connection that breaks or stalls after the last byte.
      const isCutOff = error instanceof TransientError || tried.isStalled();
      if (!isCutOff || reading.received < target.byteLength) throw error;
    }
    if (reading.received < target.byteLength) throw this.#tooShort(reading.received, target, url);
  }

  #tooLongWithoutRanges(maxByteLength: number, { url }: Answer): RemoteError {
    this.#lacksRanges = true;
    const expected = `a server that answers ranges, or a file of at most ${maxByteLength} bytes`;
    const message = `expected ${expected}, found 200 with a longer file of unknown length (no Content-Length)`;
    return this.#error('SAFETENSORS_RANGES_UNSUPPORTED', message, { url, status: 200 });
  }

  #tooLong({ byteLength }: Pick<Uint8Array, 'byteLength'>, url: URL): RemoteError {
    const message = `expected a body of ${byteLength} bytes in all, found more`;
    return this.#error('SAFETENSORS_BAD_RESPONSE', message, { url });
  }

  #tooShort(
    received: number,
    { byteLength }: Pick<Uint8Array, 'byteLength'>,
    url: URL,
  ): TransientError {
    const message = `expected ${byteLength} bytes, found the end of the body after ${received}`;
    return new TransientError(
      (note) => this.#error('SAFETENSORS_BAD_RESPONSE', message + note, { url }),
      'failed',
    );
  }

  #error(
    code: RemoteErrorCode,
    message: string,
    context: Omit<FailureContext, 'path'> = {},
  ): RemoteError {
    return this.#session.error(code, message, { path: this.path, ...context });
  }
}
