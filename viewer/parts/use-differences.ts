/** Differences of values of two sources: begun at once where bytes are local; for other servers the user starts it. */

import { useEffect, useMemo } from 'preact/hooks';
import { pairOf, start, stop, type Work, workOf } from './background.js';
import type { OpenSource } from './open-sources.js';
import { isSmall } from './sample.js';
import { useSignal } from './signal.js';

/** The work on two sources, and the ways to begin and stop it. */
export interface Differences {
  readonly work: Work<'differ'>;
  begin(whole: boolean): void;
  stop(): void;
  /** Bytes of the first that are read for a sample, and to compare all. */
  readonly bytes: { readonly sample: number; readonly all: number };
  /** Whether all values have been compared. */
  readonly isExact: boolean;
}

/** Compares two sources. */
export function useDifferences(first: OpenSource, second: OpenSource): Differences {
  const pair = pairOf(first, second);
  const work = useSignal(workOf('differ', pair));
  const begin = (whole: boolean) =>
    void start('differ', pair, { id: first.id, other: second.id, whole });
  useEffect(() => {
    const isLocal = first.place.kind !== 'url' && second.place.kind !== 'url';
    if (work.result === null && !work.isRunning && isLocal)
      begin(isSmall(first) && isSmall(second));
  }, [pair]);
  const bytes = useMemo(() => {
    const { sample } = first.overview;
    const isRequested = first.place.kind !== 'files' || second.place.kind !== 'files';
    return { sample: isRequested ? sample.requests : sample.files, all: sample.all };
  }, [pair]);
  const isExact = work.isComplete && (work.isWhole || bytes.sample === bytes.all);
  return { work, begin, stop: () => stop('differ', pair), bytes, isExact };
}
