/** The sample of a model: read at once where its bytes are local; of other servers people decide. */

import { useEffect } from 'preact/hooks';
import { start, type Work, workOf } from './background.js';
import type { OpenSource } from './open-sources.js';
import { useSignal } from './signal.js';

/** Bytes of local models up to which all values are read at once: that takes as long as a sample. */
const SMALL = 2 ** 26;

/** Whether a source is so small that no sample is needed. */
export function isSmall({ overview }: OpenSource): boolean {
  return overview.sample.all <= SMALL;
}

/** Begins to read a sample of all tensors, or all of them. */
export function beginSample(source: OpenSource, whole: boolean): void {
  void start('layers', source, { id: source.id, whole });
}

/**
 * The statistics of a model, which begin by themselves for files and for the server of the page: of all values where
 * these are few.
 */
export function useSample(source: OpenSource): Work<'layers'> {
  const work = useSignal(workOf('layers', source));
  const isBegun = work.result !== null || work.isRunning || work.failure !== null;
  useEffect(() => {
    if (!isBegun && source.place.kind !== 'url') beginSample(source, isSmall(source));
  }, [source]);
  return work;
}
