/** Statistics of a tensor: numbers, histogram, and the norms of rows and columns. */

import { useState } from 'preact/hooks';
import { formatBytes, formatInteger, formatPercent, shortNumber } from '../parts/format.js';
import { Failure, Working } from '../parts/messages.js';
import { Plot } from '../parts/plot.js';
import { SaveTable } from '../parts/save.js';
import { linearScale } from '../parts/scale.js';
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
    <dl class="facts">
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

function Histogram({
  name,
  histogram,
  note,
}: {
  name: string;
  histogram: NonNullable<TensorStatistics['histogram']>;
  note: string | null;
}) {
  const [isLog, setLog] = useState(false);
  const { min, max, counts } = histogram;
  const width = (max - min) / counts.length;
  const valueText = (at: number) =>
    width === 0
      ? shortNumber(min)
      : `${shortNumber(min + at * width)} to ${shortNumber(min + (at + 1) * width)}`;
  return (
    <section class="card">
      <div class="row">
        <h2 class={note === null ? 'grow' : undefined}>Histogram</h2>
        {note !== null && <span class="grow muted">{note}</span>}
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
        kind="bars"
        isLog={isLog}
        xScale={linearScale(min, max, 7)}
        xTitle="value"
        xText={valueText}
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
            xTitle={one}
            xText={(at) => `${one} ${at}`}
            height={180}
          />
        </section>
      ))}
    </div>
  );
}

/** The statistics of a tensor: of all values when it is small or people ask for it, else of a sample. */
export function Statistics({ id, facts }: { id: number; facts: NamedTensorSpec }) {
  const { name, elements, byteLength } = facts;
  const [isWhole, setWhole] = useState(false);
  const { result, progress, failure, isRunning, stop } = useCall(
    'statistics',
    { id, tensor: name, whole: isWhole },
    { delay: 60, keep: true },
  );
  if (elements === 0) return null;
  const table = Object.entries(result?.statistics ?? {});
  return (
    <>
      <section class="card">
        <div class="row">
          <h2 class="grow">Statistics</h2>
          {result !== null && (
            <SaveTable
              name={`statistics of ${name}`}
              columns={['statistic', 'value']}
              rows={() => table}
            />
          )}
        </div>
        {result?.isSample && (
          <p class="message row">
            <span class="grow">
              Of a sample: {formatInteger(result.statistics.elements)} of {formatInteger(elements)}{' '}
              values.
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
      {result?.histogram && (
        <Histogram name={name} histogram={result.histogram} note={constantNote(result)} />
      )}
      {result?.norms && <Norms name={name} norms={result.norms} />}
    </>
  );
}
