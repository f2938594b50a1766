/** A tensor of two models: both histograms, and the numbers of each. */

import { useMemo } from 'preact/hooks';
import { formatPercent, shortNumber } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import type { OpenSource } from '../parts/open-sources.js';
import { Plot } from '../parts/plot.js';
import { linearScale } from '../parts/scale.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { useCall } from '../parts/use-call.js';
import type { TensorPair as Pair } from '../worker/pair.js';

const ROWS = [
  ['Minimum', 'min'],
  ['Maximum', 'max'],
  ['Mean', 'mean'],
  ['Standard deviation', 'std'],
  ['NaN', 'nan'],
  ['Infinite', 'infinite'],
  ['Zeros', 'zero'],
] as const;

/** Quotients so near to 1 differ from it by rounding only. */
const ROUNDING = 1e-12;

/** `0.9978`; tensors in nearly one direction are not shown as if they were in one. */
function formatCosine(cosine: number | null): string {
  if (cosine === null) return '–';
  const size = Math.abs(cosine);
  const text =
    size > 1 - ROUNDING ? '1' : size > 0.999999 ? '0.999999…' : `${Number(size.toFixed(6))}`;
  return cosine < 0 && text !== '0' ? `−${text}` : text;
}

function Histograms({
  name,
  histograms: { min, max, counts },
}: {
  name: string;
  histograms: NonNullable<Pair['histograms']>;
}) {
  const [a = [], b = []] = counts;
  const width = (max - min) / a.length;
  const series = useMemo(
    () => [
      { name: 'a', values: a, colour: '#3b82c4' },
      { name: 'b', values: b, colour: '#ce6400', isLine: true },
    ],
    [counts],
  );
  return (
    <Plot
      name={`histograms of ${name}`}
      series={series}
      kind="bars"
      xScale={linearScale(min, max, 7)}
      xTitle="value"
      xText={(at) => `${shortNumber(min + at * width)} to ${shortNumber(min + (at + 1) * width)}`}
    />
  );
}

/** Shows a tensor next to that of the same name in a second model, if it has the same shape. */
export function TensorPair({
  source,
  second,
  name,
}: {
  source: OpenSource;
  second: OpenSource;
  name: string;
}) {
  const args = { id: source.id, other: second.id, tensor: name };
  const { result, failure } = useCall('pair', args);
  if (failure !== null) return <Failure error={failure} />;
  if (result === null) return null;
  const { statistics, histograms, relative, cosine, differing, maxError, isSample } = result;
  const areFinite = statistics.every(({ nan, infinite }) => nan + infinite === 0);
  const labels = [source.label, second.label] as const;
  return (
    <section class="card">
      <div class="row">
        <h2>Next to {second.label}</h2>
        {isSample && <span class="sampled">Of a sample</span>}
      </div>
      <p class="muted small">
        a, the bars, is {labels[0]}; b, the line, is {labels[1]}.
      </p>
      <p>
        {differing === 0
          ? `No difference${isSample ? ' seen in the sample' : ''}.`
          : !((maxError ?? 0) > 0)
            ? `${formatPercent(differing, 1)} of the values differ: NaN in one only.`
            : `${formatPercent(differing, 1)} of the values differ, by ${shortNumber(maxError)} at most; ‖a − b‖ ÷ ‖a‖ is ${relative === null ? 'unknown, a is 0' : formatPercent(relative, 1)}.`}
      </p>
      <dl class="facts line">
        <div>
          <dt>
            Cosine of a and b{isSample && ', in the sample'}
            {!areFinite && ', of values finite in both'}
          </dt>
          <dd>
            {formatCosine(cosine)}
            {cosine === null && <small> undefined: among values finite in both, a or b is 0</small>}
          </dd>
        </div>
      </dl>
      <div class="side-by-side">
        {histograms !== null && <Histograms name={name} histograms={histograms} />}
        <ScrollBox label="Numbers of both">
          <table>
            <thead>
              <tr>
                <th>Statistic</th>
                <th class="number">a</th>
                <th class="number">b</th>
              </tr>
            </thead>
            <tbody>
              {ROWS.map(([label, key]) => (
                <tr key={key}>
                  <td>{label}</td>
                  {statistics.map((one, at) => (
                    <td key={at} class="number">
                      {shortNumber(one[key])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      </div>
    </section>
  );
}
