/** Remote files in memory: they count what is asked of them, and can be slow, fail and hang. */

import { constants } from 'node:buffer';
import { setTimeout as delay } from 'node:timers/promises';
import { RemoteCheckpoint } from '../../src/remote/checkpoint.js';
import type { RemoteFile, RemoteSource } from '../../src/remote/remote-file.js';
import { RemoteShards } from '../../src/remote/remote-shards.js';
import { HeldAnswers } from './held-answers.js';
import { type CheckpointDescription, filesOf } from './make-checkpoint.js';

/** A range that was asked for. */
export interface CountedRequest {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
}

/** Rejects when the signal is aborted. */
function endOf(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** Files by name, as a server has them. */
export class CountedFiles {
  readonly requests: CountedRequest[] = [];
  /** Requests under way, and the most that ever were. */
  underWay = 0;
  mostUnderWay = 0;
  /** Requests whose signal was aborted while they were under way. */
  aborted = 0;
  /** How long every answer takes. */
  delayMs = 0;
  readonly #answers = new HeldAnswers();
  /** Called before every answer; may throw. */
  onRequest: (request: CountedRequest) => void = () => {};
  readonly #files: ReadonlyMap<string, Uint8Array>;

  constructor(files: ReadonlyMap<string, Uint8Array>) {
    this.#files = files;
  }

  /** Bytes that were asked for. */
  get byteLength(): number {
    return this.requests.reduce((sum, { begin, end }) => sum + end - begin, 0);
  }

  /** Forgets the requests so far, and gives them. */
  take(): CountedRequest[] {
    return this.requests.splice(0);
  }

  /** Keeps back the answers to what is asked from now on, until the function that this gives is called. */
  hold(): () => void {
    return this.#answers.hold();
  }

  file(name: string): RemoteFile {
    const read = async (
      begin: number,
      byteLength: number,
      signal?: AbortSignal,
    ): Promise<[Uint8Array, number]> => {
      const bytes = this.#files.get(name);
      const end = Math.min(begin + byteLength, bytes?.length ?? begin);
      const request = { name, begin, end };
      this.requests.push(request);
      this.underWay++;
      this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
      try {
        signal?.throwIfAborted();
        if (bytes === undefined) throw new Error(`there is no ${name}`);
        this.onRequest(request);
        await delay(this.delayMs, undefined, signal === undefined ? {} : { signal });
        const { released } = this.#answers;
        if (released !== undefined) await Promise.race([released, endOf(signal)]);
        return [bytes.slice(begin, end), bytes.length];
      } catch (error) {
        if (signal?.aborted) this.aborted++;
        throw error;
      } finally {
        this.underWay--;
      }
    };
    return {
      path: `https://models.example/${name}`,
      readStart: async (byteLength, signal) => {
        const [bytes, fileByteLength] = await read(0, byteLength, signal);
        return { bytes: new Uint8Array(bytes), fileByteLength };
      },
      readInto: async (target, position, { signal, onBytes } = {}) => {
        const [bytes] = await read(position, target.length, signal);
        if (bytes.length !== target.length) throw new Error('read behind the end');
        target.set(bytes);
        onBytes?.(bytes.length);
      },
    };
  }

  source(name: string): RemoteSource {
    const isIndex = name.endsWith('.json');
    return {
      folder: { file: (other) => this.file(other) },
      file: this.file(name),
      kind: isIndex ? 'index' : 'file',
      close: () => {},
      withoutSecrets: (error) => error,
    };
  }

  /** Opens one of the files. */
  async open(
    name: string,
    {
      concurrency = 8,
      maxHeaderByteLength = undefined as number | undefined,
      maxBufferByteLength = constants.MAX_LENGTH,
      signal = new AbortController().signal,
    } = {},
  ): Promise<RemoteCheckpoint> {
    const shards = await RemoteShards.open(this.source(name), { maxHeaderByteLength }, signal);
    return RemoteCheckpoint.of(shards, { concurrency, maxBufferByteLength });
  }
}

/** One file, `model.safetensors`. */
export function countedFile(bytes: Uint8Array): CountedFiles {
  return new CountedFiles(new Map([['model.safetensors', bytes]]));
}

/** An index and its shards, and perhaps other files. */
export function countedCheckpoint(
  description: CheckpointDescription,
  others: Readonly<Record<string, string>> = {},
): CountedFiles {
  const files = filesOf(description);
  for (const [name, text] of Object.entries(others))
    files.set(name, new TextEncoder().encode(text));
  return new CountedFiles(files);
}
