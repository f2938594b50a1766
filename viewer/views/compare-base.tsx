/** Two models and their common base: which layers each touched, and how much. */

import { useMemo } from 'preact/hooks';
import { Export } from '../parts/export.js';
import { plural } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import { wrapped } from '../parts/name.js';
import { formatRelative, relativeSize } from '../parts/one-sided.js';
import { close, countedNoun, type OpenSource, slots } from '../parts/open-sources.js';
import { isSmall } from '../parts/sample.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { useSignal } from '../parts/signal.js';
import { viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import { useDifferences } from '../parts/use-differences.js';
import { WorkRow } from '../parts/work-row.js';
import { cellMaxima, formatLayers, median, posterOf } from '../poster.js';
import type { ValueDifferences } from '../worker/compare.js';
import { Open } from './open.js';
import { type ModelShares, SharePoster } from './share-poster.js';

/** Layers in which a tensor differs from the base; none where no tensor was compared. */
function touchedLayers(base: OpenSource, differing: Float64Array): number[] {
  const poster = posterOf(base.list);
  const cells = cellMaxima(poster, differing);
  return poster.layers.filter((_, column) => cells.some((row) => (row[column] as number) > 0));
}

/** `a touched layers 4–7, b 2, 3 and 7; both 7.` Both touched a layer if they changed the same tensor there. */
function threeWay(
  base: OpenSource,
  { differing: ofA }: ValueDifferences,
  { differing: ofB }: ValueDifferences,
): string {
  if ([ofA, ofB].every((all) => all.every(Number.isNaN)))
    return 'The base has none of their tensors.';
  const inBoth = ofA.map((share, at) => Math.min(share, ofB[at] as number));
  const [a, b, both] = [ofA, ofB, inBoth].map((all) => {
    const layers = touchedLayers(base, all);
    return layers.length === 0 ? 'none' : formatLayers(layers);
  });
  return `a touched layers ${a}, b ${b}; both ${both}.`;
}

/** What is known of a model; nothing yet before its comparison begins. */
function useShares(base: OpenSource, result: ValueDifferences | null): ModelShares {
  const none = useMemo(() => new Float64Array(base.list.names.length).fill(Number.NaN), [base]);
  if (result === null) return { shares: none };
  return { shares: result.relative, differences: result };
}

function cosineText(cosine: number | null | undefined): string {
  if (typeof cosine !== 'number') return '–';
  // Adding 0 makes −0 positive.
  return (Math.round(1e4 * cosine) / 1e4 + 0).toFixed(4).replace('-', '−');
}

/** Maximum rows; each reads samples from three models. */
const SHOWN = 50;

/** The tensors that both models changed, those with the largest changes in both first. */
function Overlap({
  base,
  source,
  second,
  models,
  isExact,
}: {
  base: OpenSource;
  source: OpenSource;
  second: OpenSource;
  models: readonly [ValueDifferences, ValueDifferences];
  isExact: boolean;
}) {
  const shared = useMemo(() => {
    const least = base.list.names.map((_, at) =>
      models.every(({ differing }) => (differing[at] as number) > 0)
        ? Math.min(...models.map((model) => relativeSize(model, at)))
        : Number.NaN,
    );
    return [...least.keys()]
      .filter((at) => !Number.isNaN(least[at]))
      .sort((x, y) =>
        least[x] === least[y] ? x - y : (least[y] as number) - (least[x] as number),
      );
  }, models);
  const shown = shared.slice(0, SHOWN);
  const tensors = shown.map((at) => base.list.names[at] as string);
  const sources = [base, source, second];
  // Other servers are not asked without a click.
  const hasCosines = sources.every(({ place }) => place.kind !== 'url');
  const whole = isExact && sources.every(isSmall);
  const { result, failure, isRunning } = useCall(
    'overlap',
    shown.length === 0 || !hasCosines
      ? null
      : { id: base.id, a: source.id, b: second.id, tensors, whole },
  );
  if (shown.length === 0) return null;
  const hasMore = shared.length > SHOWN;
  const middle = median(result?.cosines.map((cosine) => cosine ?? Number.NaN) ?? []);
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">Overlap</h2>
        {!isRunning && (
          <Export
            name="overlap"
            table={{
              columns: ['name', 'relative_a', 'relative_b', ...(result ? ['cosine'] : [])],
              rows: () =>
                shown.map((at, row) => [
                  tensors[row] as string,
                  ...models.map((model) => relativeSize(model, at)),
                  ...(result ? [result.cosines[row] ?? null] : []),
                ]),
            }}
          />
        )}
      </div>
      <p class="muted small">
        {!isExact && 'At least '}
        {plural(shared.length, countedNoun(base.overview))} changed in a and in b
        {hasMore && `; the first ${SHOWN} by the smaller difference are listed`}.
        {!isExact && ' Shares are of a sample.'}
        {result?.isSample && ' Cosines are of a sample.'}
        {Number.isFinite(middle) &&
          ` Median cosine${hasMore ? ' of those listed' : ''}: ${cosineText(middle)}.`}
        {result?.cosines.includes(null) &&
          ' –: no finite change of a, or of b, in the values read.'}
        {isRunning && ' Reading …'}
      </p>
      {failure !== null && <Failure error={failure} />}
      <ScrollBox label="Overlap">
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th class="number wide">‖a − base‖ ÷ ‖base‖</th>
              <th class="number wide">‖b − base‖ ÷ ‖base‖</th>
              {hasCosines && <th class="number">Cosine of the changes</th>}
            </tr>
          </thead>
          <tbody>
            {shown.map((at, row) => (
              <tr key={at}>
                <td class="text mono">
                  <a href={viewAddress('tensor', { tensor: tensors[row] as string })}>
                    {wrapped(tensors[row] as string)}
                  </a>
                  <div class="narrow muted">
                    a {formatRelative(models[0], at)}, b {formatRelative(models[1], at)}
                  </div>
                </td>
                {models.map((model, of) => (
                  <td key={of} class="number wide">
                    {formatRelative(model, at)}
                  </td>
                ))}
                {hasCosines && <td class="number">{result && cosineText(result.cosines[row])}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  );
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
      {isKnown && ofA !== null && ofB !== null && (
        <Overlap
          base={base}
          source={source}
          second={second}
          models={[ofA, ofB]}
          isExact={isExact}
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
