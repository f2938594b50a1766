/** Statistics of a whole model, computed in the background: once for a source, whichever view shows them. */

import { type CallError, call } from '../client.js';
import type { LayerStatistics, LayersProgress } from '../worker/layers.js';
import type { OpenSource } from './open-sources.js';
import { type Signal, signal } from './signal.js';

/** How far the work is. */
export interface LayerWork {
  readonly statistics: LayerStatistics | null;
  readonly isWhole: boolean;
  readonly isRunning: boolean;
  readonly progress: LayersProgress | null;
  readonly failure: CallError | null;
}

const works = new WeakMap<OpenSource, Signal<LayerWork>>();
const controllers = new WeakMap<OpenSource, AbortController>();

/** The work of a source, which has perhaps not begun. */
export function layerWork(source: OpenSource): Signal<LayerWork> {
  const known = works.get(source);
  if (known !== undefined) return known;
  const work = signal<LayerWork>({
    statistics: null,
    isWhole: false,
    isRunning: false,
    progress: null,
    failure: null,
  });
  works.set(source, work);
  return work;
}

/** Begins the work anew. */
export async function startLayerWork(source: OpenSource, isWhole: boolean): Promise<void> {
  stopLayerWork(source);
  const work = layerWork(source);
  const controller = new AbortController();
  controllers.set(source, controller);
  const { signal: own } = controller;
  work.value = { statistics: null, isWhole, isRunning: true, progress: null, failure: null };
  try {
    const onProgress = (progress: LayersProgress) => {
      work.value = { ...work.value, progress, statistics: progress.statistics };
    };
    const statistics = await call(
      'layers',
      { id: source.id, whole: isWhole },
      { signal: own, onProgress },
    );
    work.value = { ...work.value, statistics, isRunning: false };
  } catch (error) {
    if (!own.aborted) work.value = { ...work.value, isRunning: false, failure: error as CallError };
  }
}

/** Ends the work; what is known stays. */
export function stopLayerWork(source: OpenSource): void {
  controllers.get(source)?.abort();
  const work = layerWork(source);
  work.value = { ...work.value, isRunning: false };
}
