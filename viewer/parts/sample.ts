/** The sample of a model: read at once where its bytes are local; for other servers the user starts it. */

import { useEffect } from 'preact/hooks';
import type { Overview } from '../worker/info.js';
import type { Place, SourceId } from '../worker/sources.js';
import { start, type Work, workOf } from './background.js';
import { useSignal } from './signal.js';

/** What a sample is of: an open source. */
interface Sampled {
  readonly id: SourceId;
  readonly place: Place;
  readonly overview: Overview;
}

/** Bytes of local models up to which all values are read at once: that takes as long as a sample. */
const SMALL = 2 ** 26;

/** Whether a source is so small that no sample is needed. */
export function isSmall({ overview }: Pick<Sampled, 'overview'>): boolean {
  return overview.sample.all <= SMALL;
}

/** Begins to read a sample of all tensors, or all of them. */
export function beginSample(source: Sampled, whole: boolean): void {
  void start('layers', source, { id: source.id, whole });
}

/** Begins the sample of files and of the page's server: of all values where these are few. */
export function beginFreeSample(source: Sampled): void {
  if (source.place.kind !== 'url') beginSample(source, isSmall(source));
}

/** The statistics of a model, begun at once where its bytes are local. */
export function useSample(source: Sampled): Work<'layers'> {
  const work = useSignal(workOf('layers', source));
  useEffect(() => {
    const { result, isRunning, failure } = workOf('layers', source).value;
    if (result === null && !isRunning && failure === null) beginFreeSample(source);
  }, [source]);
  return work;
}
