/** The page's side of the calls: starts the worker, and gives a promise for every call. */

import type {
  ArgsOf,
  CallName,
  Failure,
  ProgressOf,
  Reply,
  Request,
  ResultOf,
} from './protocol.js';

/** What a call rejects with; the reason of `signal` when it was aborted. */
export class CallError extends Error {
  readonly code: string | null;
  readonly advice: string | null;
  readonly needsToken: boolean;

  constructor({ code, message, advice, needsToken }: Failure) {
    super(message);
    this.code = code;
    this.advice = advice;
    this.needsToken = needsToken;
  }
}

/** Options of a call. */
export interface CallOptions<Name extends CallName> {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: ProgressOf<Name>) => void;
}

interface Pending {
  resolve(result: unknown): void;
  reject(error: unknown): void;
  progress(value: unknown): void;
}

interface TrustedScripts {
  createScriptURL(url: string): string;
}

/** The page's policy lets one place make the address of a script: this one. */
function scriptUrl(script: string): string {
  const url = URL.createObjectURL(new Blob([script], { type: 'text/javascript' }));
  const { trustedTypes } = globalThis as {
    trustedTypes?: { createPolicy(name: string, rules: TrustedScripts): TrustedScripts };
  };
  const policy = trustedTypes?.createPolicy('worker', { createScriptURL: (own) => own });
  return policy?.createScriptURL(url) ?? url;
}

const pending = new Map<number, Pending>();
let lastCall = 0;
let worker: Worker;

/** Starts the worker, before the first call. Its script is that of the page, since both contain the library. */
export function startWorker(script: string): void {
  worker = new Worker(scriptUrl(script));
  worker.onmessage = ({ data }: MessageEvent<Reply>) => {
    const waiting = pending.get(data.call);
    if (waiting === undefined) return;
    if ('progress' in data) {
      waiting.progress(data.progress);
      return;
    }
    pending.delete(data.call);
    if ('failure' in data) waiting.reject(new CallError(data.failure));
    else waiting.resolve(data.result);
  };
  worker.onerror = (event) => {
    const message = `The worker of this page failed: ${event.message}`;
    for (const { reject } of pending.values()) {
      reject(
        new CallError({ code: null, message, advice: 'Load the page again.', needsToken: false }),
      );
    }
    pending.clear();
  };
}

/** Calls the worker. Rejects at once when `signal` is aborted, and makes the worker end the call. */
export function call<Name extends CallName>(
  name: Name,
  args: ArgsOf<Name>,
  { signal, onProgress }: CallOptions<Name> = {},
): Promise<ResultOf<Name>> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const number = ++lastCall;
    pending.set(number, {
      resolve: (result) => resolve(result as ResultOf<Name>),
      reject,
      progress: (value) => onProgress?.(value as ProgressOf<Name>),
    });
    signal?.addEventListener('abort', () => {
      if (!pending.delete(number)) return;
      worker.postMessage({ cancel: number } satisfies Request);
      reject(signal.reason);
    });
    worker.postMessage({ call: number, name, args } satisfies Request);
  });
}
