/** A file over HTTP: reads ranges, all of one version. */

import { FileChangedError, type RemoteError, type RemoteErrorCode } from '../errors/errors.js';
import { type FileVersion, versionChange } from './file-version.js';
import {
  type AnsweredRange,
  type AskedRange,
  rangeHeader,
  readRangeHead,
} from './range-response.js';
import type { FileStart, ReadRangeOptions, RemoteFile } from './remote-file.js';
import {
  type Answer,
  type AskedUrl,
  awaitPlaced,
  discard,
  readPieces,
  refused,
  request,
} from './request.js';
import { PassingFailure } from './retries.js';
import type { FailureContext, Session, Try } from './session.js';
import { beginsAsPage, isCalledPage, pageMessage } from './web-page.js';

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
  /** Position behind the last byte; for a start it may lie behind the end of the file. */
  end: number;
  /** Their target. Undefined until the length of the file is known. */
  target: Uint8Array<ArrayBuffer> | undefined;
  /** Number of arrived bytes. */
  received: number;
  readonly onBytes: ReadRangeOptions['onBytes'];
  readonly onRedirected: (() => void) | undefined;
}

/** Read bytes. */
interface FileBytes {
  readonly target: Uint8Array<ArrayBuffer>;
  readonly fileByteLength: number;
}

/** A file read by ranged requests. */
export class HttpFile implements RemoteFile {
  readonly path: string;
  readonly #session: Session;
  readonly #address: FileAddress;
  /** The version of the first answer. */
  #version: FileVersion | undefined;
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
    const { target, fileByteLength } = await this.#read(reading, signal);
    return { bytes: target, fileByteLength };
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
    const asked = { begin: reading.begin + reading.received, end: reading.end };
    const answer = await this.#ask(asked, reading, tried);
    const { begin, end, total } = await this.#checkHead(answer, asked, tried, reading.target);
    const target = reading.target ?? new Uint8Array(end - begin);
    reading.target = target;
    reading.end = end;
    // The body of a 416 is an error page: the file itself is empty.
    if (answer.response.status === 416) await discard(answer.response, tried);
    else await this.#readBody(answer, reading, target, tried);
    return { target, fileByteLength: total };
  }

  /** Asks the host of the last redirect; if that refuses, the source's host. */
  async #ask(
    asked: AskedRange,
    { target, received, onRedirected }: Reading,
    tried: Try,
  ): Promise<Answer> {
    const question = {
      range: rangeHeader(asked),
      target: target?.subarray(received),
      onRedirected,
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
    question: Pick<AskedUrl, 'range' | 'target' | 'onRedirected'>,
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
    asked: AskedRange,
    tried: Try,
    target: Uint8Array | undefined,
  ): Promise<AnsweredRange> {
    const { response, url, isAuthorized } = answer;
    const { status, headers } = response;
    const { path } = this;
    const pageError = (): RemoteError =>
      this.#error(
        'SAFETENSORS_BAD_RESPONSE',
        pageMessage('the bytes of a file', url, isAuthorized),
        { url, status, foundFormat: 'html' },
      );
    const { origin } = this.#address.url();
    if (status >= 400 && status !== 416) {
      throw await refused(this.#session, answer, { ...this.#address, path, origin }, tried);
    }
    try {
      const head = readRangeHead(status, headers, asked);
      const isPage = isCalledPage(headers, path);
      if ('code' in head && isPage && status === 200) throw pageError();
      this.#page = isPage ? pageError : undefined;
      if ('code' in head) {
        const pinned = this.#version;
        // An answer without bytes has no other facts of the version.
        if (pinned !== undefined && head.total !== undefined) {
          this.#requireSame(pinned, { ...pinned, total: head.total });
        }
        const message = `expected ${head.expected}, found ${head.found}`;
        throw this.#error(head.code, message, { url, status });
      }
      this.#checkVersion(answer, head.total);
      if (target !== undefined && head.end < asked.end) {
        const message = `expected bytes up to ${asked.end}, found a file of ${head.total} bytes`;
        throw this.#error('SAFETENSORS_BAD_RESPONSE', message, { url, status });
      }
      if (url.origin !== origin) this.#location = url;
      return head;
    } catch (error) {
      response.body?.cancel().catch(() => {});
      throw error;
    }
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
      // Ignore a connection that breaks or stalls behind the last byte.
      const isCutOff = error instanceof PassingFailure || tried.isStalled();
      if (!isCutOff || reading.received < target.byteLength) throw error;
    }
    if (reading.received < target.byteLength) throw this.#tooShort(reading.received, target, url);
  }

  #tooLong({ byteLength }: Uint8Array, url: URL): RemoteError {
    const message = `expected a body of ${byteLength} bytes in all, found more`;
    return this.#error('SAFETENSORS_BAD_RESPONSE', message, { url });
  }

  #tooShort(received: number, { byteLength }: Uint8Array, url: URL): PassingFailure {
    const message = `expected ${byteLength} bytes, found the end of the body after ${received}`;
    return new PassingFailure(
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
