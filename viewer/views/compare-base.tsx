/** Two models and their common base: which layers each touched, and how much. */

import { useMemo } from 'preact/hooks';
import { Failure } from '../parts/messages.js';
import { close, type OpenSource, slots } from '../parts/open-sources.js';
import { useSignal } from '../parts/signal.js';
import { useDifferences } from '../parts/use-differences.js';
import { WorkRow } from '../parts/work-row.js';
import { cellMaxima, formatLayers, posterOf } from '../poster.js';
import type { ValueDifferences } from '../worker/compare.js';
import { Open } from './open.js';
import { type ModelShares, SharePoster } from './share-poster.js';

/** Layers in which a tensor differs from the base. */
function touchedLayers(base: OpenSource, { differing }: ValueDifferences): number[] {
  const poster = posterOf(base.list);
  const cells = cellMaxima(poster, differing);
  return poster.layers.filter((_, column) => cells.some((row) => (row[column] as number) > 0));
}

/** `a touched layers 4–7, b 2, 3 and 7; both 7.` */
function threeWay(base: OpenSource, first: ValueDifferences, second: ValueDifferences): string {
  const [a, b] = [touchedLayers(base, first), touchedLayers(base, second)];
  const shared = a.filter((layer) => b.includes(layer));
  const inWords = (layers: readonly number[]): string =>
    layers.length === 0 ? 'none' : formatLayers(layers);
  return `a touched layers ${inWords(a)}, b ${inWords(b)}; both ${inWords(shared)}.`;
}

/** What is known of a model; nothing yet before its comparison begins. */
function useShares(base: OpenSource, result: ValueDifferences | null): ModelShares {
  const none = useMemo(() => new Float64Array(base.list.names.length).fill(Number.NaN), [base]);
  if (result === null) return { shares: none };
  return { shares: result.relative, differences: result };
}

function WithBase({
  base,
  source,
  second,
}: {
  base: OpenSource;
  source: OpenSource;
  second: OpenSource;
}) {
  const [a, b] = [useDifferences(base, source), useDifferences(base, second)];
  const isExact = a.isExact && b.isExact;
  const isKnown = a.work.isComplete && b.work.isComplete;
  const [ofA, ofB] = [a.work.result, b.work.result];
  const [sharesOfA, sharesOfB] = [useShares(base, ofA), useShares(base, ofB)];
  return (
    <>
      <section class="card" data-slot="base">
        <div class="row">
          <h2 class="grow">
            {isKnown && ofA !== null && ofB !== null
              ? `${isExact ? '' : 'In the sample, '}${threeWay(base, ofA, ofB)}`
              : `Next to ${base.label}`}
          </h2>
          <button type="button" onClick={() => close('base')}>
            Close the base
          </button>
        </div>
        <p class="muted small">
          a is {source.label}, b is {second.label}, the base is {base.label}.
          {isExact && ' All values have been compared.'}
        </p>
        {(
          [
            ['a', a],
            ['b', b],
          ] as const
        ).map(([letter, { work, begin, stop, bytes }]) => (
          <div key={letter}>
            {!isExact && (
              <WorkRow
                work={work}
                label={`Comparing ${letter} with the base`}
                verb={{ sample: `Compare a sample of ${letter},`, all: `Compare all of ${letter}` }}
                bytes={bytes}
                begin={begin}
                stop={stop}
              />
            )}
            {work.failure !== null && <Failure error={work.failure} />}
          </div>
        ))}
      </section>
      {(ofA !== null || ofB !== null) && (
        <SharePoster
          source={base}
          models={[sharesOfA, sharesOfB]}
          title="Change from the base"
          note="‖model − base‖ ÷ ‖base‖"
          name={`changes of ${base.label} in a, ${source.label}, and b, ${second.label}`}
          sampleNote={isExact ? 'Of all values' : 'From a sample'}
          none={isExact ? 'no difference' : 'no difference seen'}
        />
      )}
    </>
  );
}

/** The base of two models, or the ways to open it. */
export function Base({ source, second }: { source: OpenSource; second: OpenSource }) {
  const { open: base, opening } = useSignal(slots.base);
  if (base !== null) return <WithBase base={base} source={source} second={second} />;
  return (
    <details class="card" open={opening !== null}>
      <summary>Add a common base</summary>
      <Open slot="base" />
    </details>
  );
}
