/** Statistics of a tensor: numbers, histogram, and the norms of rows and columns. */

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Export } from '../parts/export.js';
import { formatBytes, formatInteger, formatPercent, shortNumber } from '../parts/format.js';
import { Failure, Working } from '../parts/messages.js';
import { Plot } from '../parts/plot.js';
import { linearScale, needsLog } from '../parts/scale.js';
import { useCall } from '../parts/use-call.js';
import type { TensorStatistics } from '../worker/statistics.js';
import type { NamedTensorSpec } from '../worker/values.js';

/** What a count is of: a sample shows what is there at least, and not what is missing. */
function CountOf({
  count,
  elements,
  isSample,
}: {
  count: number;
  elements: number;
  isSample: boolean;
}) {
  if (count === 0) return <>{isSample ? '0 seen in sample' : '0'}</>;
  const share = formatPercent(count, elements);
  return (
    <>
      {isSample && 'at least '}
      {formatInteger(count)} <small>{isSample ? `${share} of the sample` : share}</small>
    </>
  );
}

function Numbers({ statistics, isSample }: Pick<TensorStatistics, 'statistics' | 'isSample'>) {
  const { elements, min, max, mean, std, zero, nan, infinite, subnormal } = statistics;
  const shares = [
    ['Zeros', zero],
    ['NaN', nan],
    ['Infinite', infinite],
    ['Subnormal', subnormal],
  ] as const;
  return (
    <dl class="lines">
      {(
        [
          [isSample ? 'Minimum seen' : 'Minimum', min],
          [isSample ? 'Maximum seen' : 'Maximum', max],
          ['Mean', mean],
          ['Standard deviation', std],
        ] as const
      ).map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{shortNumber(value)}</dd>
        </div>
      ))}
      {shares.map(([label, count]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>
            <CountOf count={count} elements={elements} isSample={isSample} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** `All 768 values are 1`; null unless there is one finite value only. */
function constantNote({ statistics, histogram, isSample }: TensorStatistics): string | null {
  if (histogram === null || histogram.min !== histogram.max) return null;
  const { elements, nan, infinite } = statistics;
  const counted = formatInteger(elements - nan - infinite);
  const finite = nan + infinite > 0 ? 'finite ' : '';
  const extent = isSample ? ' in the sample' : '';
  return `All ${counted} ${finite}values${extent} are ${shortNumber(histogram.min)}`;
}

/** What is beyond a side of a clipped histogram: `12 more, to 4.36`. */
function beyond(count: number, extreme: number | null): string | undefined {
  return count === 0 ? undefined : `${formatInteger(count)} more, to ${shortNumber(extreme)}`;
}

function Histogram({ name, result }: { name: string; result: TensorStatistics }) {
  const [isLog, setLog] = useState(false);
  const note = constantNote(result);
  const { clipped, statistics } = result;
  // A linear axis shows what most values are; one of powers shows the few others, too.
  const shown = (!isLog && clipped) || result.histogram;
  if (shown === null) return null;
  const { min, max, counts } = shown;
  const isClipped = clipped !== null && shown === clipped;
  const width = (max - min) / counts.length;
  const valueText = (at: number) =>
    width === 0
      ? shortNumber(min)
      : `${shortNumber(min + at * width)} to ${shortNumber(min + (at + 1) * width)}`;
  return (
    <section class="card">
      <div class="row">
        <h2 class={note === null && !isClipped ? 'grow' : undefined}>Histogram</h2>
        {note !== null && <span class="grow muted">{note}</span>}
        {isClipped && (
          <span class="grow muted small">
            {formatInteger(clipped.below + clipped.above)} values are beyond the dashed lines; Log
            shows all
          </span>
        )}
        <fieldset class="tabs">
          <legend class="hidden">Scale of counts</legend>
          <button type="button" aria-pressed={!isLog} onClick={() => setLog(false)}>
            Linear
          </button>
          <button type="button" aria-pressed={isLog} onClick={() => setLog(true)}>
            Log
          </button>
        </fieldset>
      </div>
      <Plot
        name={`histogram of ${name}`}
        series={[{ name: 'count', values: counts, colour: '#3b82c4' }]}
        {...(isClipped
          ? {
              beyond: [
                beyond(clipped.below, statistics.min),
                beyond(clipped.above, statistics.max),
              ] as const,
            }
          : {})}
        kind="bars"
        isLog={isLog}
        xScale={linearScale(min, max, 7)}
        xTitle="value"
        xText={valueText}
        height={170}
      />
    </section>
  );
}

function Norms({
  name,
  norms: { rows, columns },
}: {
  name: string;
  norms: NonNullable<TensorStatistics['norms']>;
}) {
  return (
    <div class="pair">
      {(
        [
          ['rows', 'row', rows],
          ['columns', 'column', columns],
        ] as const
      ).map(([title, one, values]) => (
        <section key={title} class="card">
          <h2>Norms of {title}</h2>
          <Plot
            name={`norms of ${title} of ${name}`}
            series={[{ name: 'norm', values, colour: one === 'row' ? '#3b82c4' : '#d55e00' }]}
            kind="lines"
            isLog={needsLog(values)}
            xTitle={one}
            xText={(at) => `${one} ${at}`}
            height={150}
          />
        </section>
      ))}
    </div>
  );
}

/** The statistics of a tensor: of all values when it is small or people ask for it, else of a sample. */
export function Statistics({
  id,
  facts,
  findBroken,
  goToBroken,
  children,
}: {
  id: number;
  facts: NamedTensorSpec;
  /** What is shown between the histogram and the norms. */
  children: ComponentChildren;
  /** Called with the index of the first value that is NaN or infinite. */
  findBroken: (index: readonly number[] | null) => void;
  /** Shows that value. */
  goToBroken: () => void;
}) {
  const { name, elements, byteLength } = facts;
  const [isWhole, setWhole] = useState(false);
  const { result, progress, failure, isRunning, stop } = useCall(
    'statistics',
    { id, tensor: name, extent: isWhole ? 'whole' : 'limited' },
    { delay: 60, keep: true },
  );
  useEffect(() => findBroken(result?.brokenAt ?? null), [result]);
  if (elements === 0) return <>{children}</>;
  const table = Object.entries(result?.statistics ?? {});
  return (
    <>
      {result?.brokenAt && (
        <p class="message broken row">
          <span class="grow">
            This tensor has values that are NaN or infinite
            {result.isSample ? ', as seen in the sample' : ''}, first at [
            {result.brokenAt.join(', ')}].
          </span>
          <button type="button" onClick={goToBroken}>
            Go to it
          </button>
        </p>
      )}
      <div class="side-by-side unequal">
        <section class="card">
          <div class="row">
            <h2 class="grow">Statistics</h2>
            {result !== null && (
              <Export
                name={`statistics of ${name}`}
                table={{ columns: ['statistic', 'value'], rows: () => table }}
              />
            )}
          </div>
          {result?.isSample && (
            <p class="message row">
              <span class="grow">
                Of a sample: {formatInteger(result.statistics.elements)} of{' '}
                {formatInteger(elements)} values.
              </span>
              {!isRunning && (
                <button type="button" onClick={() => setWhole(true)}>
                  Read all {formatBytes(byteLength)}
                </button>
              )}
            </p>
          )}
          {isRunning && (
            <Working
              label="Reading values"
              progress={progress}
              stop={() => {
                stop();
                setWhole(false);
              }}
            />
          )}
          {failure !== null && <Failure error={failure} />}
          {result !== null && <Numbers statistics={result.statistics} isSample={result.isSample} />}
        </section>
        {result?.histogram && <Histogram name={name} result={result} />}
      </div>
      {children}
      {result?.norms && <Norms name={name} norms={result.norms} />}
    </>
  );
}
