/** The worker: reads and computes what the page asks for, each call until it is done or cancelled. */

import type {
  ArgsOf,
  CallName,
  Failure,
  ProgressOf,
  Reply,
  Request,
  ResultOf,
} from '../protocol.js';
import { adviceFor, needsToken } from './advice.js';
import { readConfig } from './architecture.js';
import { nameDifference, valueDifferences } from './compare.js';
import { configDifference } from './config.js';
import { find } from './find.js';
import { heat } from './heat.js';
import { layerStatistics } from './layers.js';
import { adapterFacts, loraPairs } from './lora.js';
import { overlap } from './overlap.js';
import { tensorPair } from './pair.js';
import { closeSource, openSource, sourceOf } from './sources.js';
import { tensorStatistics } from './statistics.js';
import { branchesTo, treeRows } from './tree.js';
import { byteMap } from './treemap.js';
import { cells, formatTable, tensorFacts } from './values.js';

/** What a call gets in addition to its arguments. */
interface Context<Name extends CallName> {
  readonly signal: AbortSignal;
  onProgress(progress: ProgressOf<Name>): void;
}

type Handlers = {
  readonly [Name in CallName]: (
    args: ArgsOf<Name>,
    context: Context<Name>,
  ) => ResultOf<Name> | Promise<ResultOf<Name>>;
};

const HANDLERS: Handlers = {
  open: ({ place, token }, { signal, onProgress }) => openSource(place, token, signal, onProgress),
  close: ({ id }) => closeSource(id),
  find: ({ id, text, order }) => find(sourceOf(id).list, text, order),
  tree: ({ id, node }) => treeRows(sourceOf(id).list, node),
  branches: ({ id, tensor }) => branchesTo(sourceOf(id).list, tensor),
  tensor: async ({ id, tensor }, { signal }) => {
    const source = sourceOf(id);
    // Rejects for a name that is not there, with names that are like it.
    if (!source.entries.has(tensor)) await source.checkpoint.info(tensor, { signal });
    return tensorFacts(source, tensor);
  },
  cells: ({ id, tensor, axes, form }, { signal }) =>
    cells(sourceOf(id), tensor, axes, form, signal),
  heat: ({ id, tensor, axes, window, minus }, { signal }) =>
    heat(sourceOf(id), tensor, axes, window, minus === null ? null : sourceOf(minus), signal),
  pair: ({ id, other, tensor }, { signal }) =>
    tensorPair(sourceOf(id), sourceOf(other), tensor, signal),
  layers: ({ id, whole }, { signal, onProgress }) =>
    layerStatistics(sourceOf(id), whole, signal, onProgress),
  map: ({ id, map }) => byteMap(sourceOf(id).list, map),
  names: ({ id, other }) => nameDifference(sourceOf(id), sourceOf(other)),
  config: async ({ id, other }, { signal }) => {
    const configs = [sourceOf(id), sourceOf(other)].map(({ checkpoint }) =>
      readConfig(checkpoint, signal),
    );
    const [first, second] = await Promise.all(configs);
    return configDifference(first, second);
  },
  differ: ({ id, other, whole }, { signal, onProgress }) =>
    valueDifferences(sourceOf(id), sourceOf(other), whole, signal, onProgress),
  overlap: ({ id, a, b, tensors, whole }, { signal }) =>
    overlap([sourceOf(id), sourceOf(a), sourceOf(b)], tensors, whole, signal),
  adapter: ({ id }, { signal }) => adapterFacts(sourceOf(id), signal),
  lora: ({ id, base }, { signal }) =>
    loraPairs(sourceOf(id), base === null ? null : sourceOf(base), signal),
  statistics: ({ id, tensor, extent }, { signal, onProgress }) =>
    tensorStatistics(sourceOf(id), tensor, extent, signal, onProgress),
  table: ({ id, tensor, axes, form }, { signal }) =>
    formatTable(sourceOf(id), tensor, axes, form, signal),
};

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<Request>) => void;
  postMessage(reply: Reply): void;
};

const running = new Map<number, AbortController>();

/** The calls for names and for values that people see as numbers, and those that read much and wait for these. */
const FIRST: readonly CallName[] = ['tree', 'branches', 'find', 'tensor', 'cells'];
const SECOND: readonly CallName[] = ['statistics', 'heat', 'pair', 'layers', 'differ', 'overlap'];
const first = new Set<Promise<void>>();

function failureOf(error: unknown): Failure {
  const { code, message } = Object(error) as { code?: unknown; message?: unknown };
  return {
    code: typeof code === 'string' ? code : null,
    message: typeof message === 'string' ? message : String(error),
    advice: adviceFor(error),
    needsToken: needsToken(error),
  };
}

async function answer(call: number, name: CallName, args: unknown): Promise<void> {
  const controller = new AbortController();
  running.set(call, controller);
  try {
    if (SECOND.includes(name)) await Promise.all(first);
    controller.signal.throwIfAborted();
    const handle = HANDLERS[name] as (args: unknown, context: Context<CallName>) => unknown;
    const result = await handle(args, {
      signal: controller.signal,
      onProgress: (progress) => scope.postMessage({ call, progress }),
    });
    scope.postMessage({ call, result });
  } catch (error) {
    scope.postMessage({ call, failure: failureOf(error) });
  } finally {
    running.delete(call);
  }
}

/** Answers the calls of the page that started this worker. */
export function answerCalls(): void {
  scope.onmessage = ({ data }) => {
    if ('cancel' in data) running.get(data.cancel)?.abort();
    else {
      const answered = answer(data.call, data.name, data.args);
      if (!FIRST.includes(data.name)) return;
      first.add(answered);
      void answered.finally(() => first.delete(answered));
    }
  };
}
