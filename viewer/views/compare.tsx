/** Two models side by side: names that differ, and how much values do, by layer. */

import { useMemo } from 'preact/hooks';
import type { Work } from '../parts/background.js';
import { Export } from '../parts/export.js';
import {
  fixedFormat,
  fixedPercent,
  formatBytes,
  formatInteger,
  formatPercent,
  plural,
} from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import { wrapped } from '../parts/name.js';
import { formatRelative, oneSided, relativeSize } from '../parts/one-sided.js';
import { close, type OpenSource, slots } from '../parts/open-sources.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { useSignal } from '../parts/signal.js';
import { viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import { useDifferences } from '../parts/use-differences.js';
import { WorkRow } from '../parts/work-row.js';
import { cellValues, formatLayers, posterOf, strongestLayers } from '../poster.js';
import type { DifferingTensor, NameDifference, ValueDifferences } from '../worker/compare.js';
import { Base } from './compare-base.js';
import { ConfigTable } from './compare-config.js';
import { adapterChanges, adapterHeadline, changeFormula, Lora, useAdapter } from './lora.js';
import { Open } from './open.js';
import { SharePoster } from './share-poster.js';

/** Rows of a list that are shown; all are saved. */
const SHOWN = 200;

function Names({ names: { differing, comparable } }: { names: NameDifference }) {
  const countOf = (kind: DifferingTensor['difference']): number =>
    differing.filter(({ difference }) => difference === kind).length;
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">Tensors</h2>
        <Export
          name="differences of tensors"
          table={{
            columns: ['difference', 'name', 'before', 'after'],
            rows: () =>
              differing.map(({ difference, name, before, after }) => [
                difference,
                name,
                before,
                after,
              ]),
          }}
        />
      </div>
      <dl class="facts">
        {(
          [
            ['In both, same shape', comparable],
            ['Added', countOf('added')],
            ['Removed', countOf('removed')],
            ['Shape or dtype changed', countOf('changed')],
          ] as const
        ).map(([label, count]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{formatInteger(count)}</dd>
          </div>
        ))}
      </dl>
      {differing.length > 0 && (
        <ScrollBox label="Tensors that differ" height="long">
          <table>
            <thead>
              <tr>
                <th>Difference</th>
                <th>Name</th>
                <th>Before</th>
                <th>After</th>
              </tr>
            </thead>
            <tbody>
              {differing.slice(0, SHOWN).map(({ difference, name, before, after }) => (
                <tr key={difference + name}>
                  <td>{difference}</td>
                  <td class="text mono">{wrapped(name)}</td>
                  <td>{before}</td>
                  <td>{after}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      )}
      {differing.length > SHOWN && (
        <p class="muted small">
          The first {SHOWN} of {plural(differing.length, 'row')}; CSV and JSON have all.
        </p>
      )}
    </section>
  );
}

/** Positions of tensors with other values: first those without a size, then by relative difference. */
function differingOf(result: ValueDifferences): number[] {
  const { relative, differing } = result;
  const size = (at: number) => relativeSize(result, at);
  return [...relative.keys()]
    .filter((at) => (differing[at] as number) > 0)
    .sort((a, b) => (size(a) === size(b) ? a - b : size(b) - size(a)));
}

/** `30 of 75 tensors differ, most in layers 2, 3 and 7.` */
function headline({ list }: OpenSource, result: ValueDifferences, isExact: boolean): string {
  const { relative } = result;
  const compared = relative.filter((value) => !Number.isNaN(value)).length;
  const differing = differingOf(result).length;
  if (differing === 0) {
    return isExact
      ? `All ${plural(compared, 'tensor')} in both have the same values.`
      : `No difference seen in a sample of ${plural(compared, 'tensor')}.`;
  }
  const poster = posterOf(list);
  const layers = strongestLayers(poster, cellValues(poster, relative));
  const place =
    layers.length === 0 || layers.length === poster.layers.length
      ? ''
      : `, most in ${layers.length === 1 ? 'layer' : 'layers'} ${formatLayers(layers)}`;
  const count = `${formatInteger(differing)} of ${plural(compared, 'tensor')}`;
  return `${isExact ? count : `At least ${count}`} differ${place}.`;
}

function Values({
  source,
  second,
  result,
  work: { isRunning, isComplete, progress },
  isExact,
  note,
}: {
  source: OpenSource;
  second: OpenSource;
  result: ValueDifferences;
  work: Work<'differ'>;
  isExact: boolean;
  note: string;
}) {
  const { relative, differing, count, maxError } = result;
  const { list } = source;
  const order = useMemo(() => differingOf(result), [relative]);
  const errorText = useMemo(() => fixedFormat(order.map((at) => maxError[at] as number)), [order]);
  const found =
    order.length > 0
      ? `${plural(order.length, 'tensor')} with other values`
      : isComplete && isExact
        ? 'No tensor with other values'
        : `No difference ${isComplete ? 'seen in the samples' : 'found'}`;
  const soFar = `${formatBytes(progress?.done ?? 0)} of ${formatBytes(progress?.total ?? 0)}`;
  const title = isComplete
    ? found
    : isRunning
      ? `In progress: ${order.length === 0 ? 'no difference' : found} so far`
      : `Stopped: ${found.replace(/^N/, 'n')} in ${soFar}`;
  const rows = () =>
    order.map((at) => [
      list.names[at] as string,
      oneSided(result, at) === null ? (relative[at] as number) : Number.NaN,
      differing[at] as number,
      maxError[at] as number,
    ]);
  return (
    <>
      <SharePoster
        source={source}
        models={[{ shares: relative, differences: result }]}
        title="Relative difference by role and layer"
        note="‖a − b‖ ÷ ‖a‖"
        name={`relative difference of ${source.label} and ${second.label}`}
        sampleNote={note}
        none="no difference"
      />
      <p>
        <a href={viewAddress('map', { by: 'difference' })}>Show it on the map of bytes</a>
      </p>
      <section class="card">
        <div class="row">
          <h2 class="grow">{title}</h2>
          <Export
            name="differences of values"
            table={{ columns: ['name', 'relative', 'differing', 'max_error'], rows }}
          />
        </div>
        <ScrollBox label="Tensors with other values">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th class="number">‖a − b‖ ÷ ‖a‖</th>
                <th class="number wide">Values that differ</th>
                <th class="number wide">Largest difference</th>
              </tr>
            </thead>
            <tbody>
              {order.slice(0, 50).map((at) => (
                <tr key={at}>
                  <td class="text mono">
                    <a href={viewAddress('tensor', { tensor: list.names[at] as string })}>
                      {wrapped(list.names[at] as string)}
                    </a>
                  </td>
                  <td class="number">{formatRelative(result, at)}</td>
                  <td class="number wide">
                    {formatInteger(count[at] as number)}{' '}
                    <small class="muted">{fixedPercent(differing[at] as number)}</small>
                  </td>
                  <td class="number wide">
                    {oneSided(result, at) === 'NaN' ? '–' : errorText(maxError[at] as number)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      </section>
    </>
  );
}

function Both({ source, second }: { source: OpenSource; second: OpenSource }) {
  const { result: names, failure } = useCall('names', { id: source.id, other: second.id });
  const { work, begin, stop: end, bytes, isExact } = useDifferences(source, second);
  const { result, isComplete } = work;
  const adapter = useAdapter(source, second);
  const changes = useMemo(() => adapter && adapterChanges(adapter), [adapter?.pairs]);
  const largest = result === null ? undefined : differingOf(result)[0];
  return (
    <div class="content">
      <header class="row">
        <div class="grow">
          <h1>
            {adapter !== null
              ? adapterHeadline(adapter)
              : result !== null && isComplete
                ? headline(source, result, isExact)
                : work.isRunning
                  ? 'In progress: comparing two models'
                  : 'Two models'}
          </h1>
          <p class="muted">
            {source.label} and {second.label}
            {largest !== undefined && (
              <>
                . Largest:{' '}
                <a href={viewAddress('tensor', { tensor: source.list.names[largest] as string })}>
                  {wrapped(source.list.names[largest] as string)}
                </a>
                , {result && formatRelative(result, largest, (share) => formatPercent(share, 1))}
              </>
            )}
          </p>
        </div>
        <button type="button" onClick={() => close('second')}>
          Close the second
        </button>
      </header>
      {failure !== null && <Failure error={failure} />}
      {adapter === null && <Base source={source} second={second} />}
      {adapter !== null && changes !== null && (
        <SharePoster
          source={adapter.base}
          models={[{ shares: changes }]}
          title="Change by role and layer"
          note={changeFormula(adapter)}
          name={`changes of ${adapter.base.label} by ${adapter.adapter.label}`}
          sampleNote="Norms of weights are those of samples"
          none="not changed"
        />
      )}
      {adapter !== null && <Lora found={adapter} />}
      {names !== null && names.comparable > 0 && (
        <>
          <WorkRow
            work={work}
            label="Comparing values"
            exact="All values have been compared."
            verb={{ sample: 'Compare a sample,', all: 'Compare all' }}
            bytes={bytes}
            begin={begin}
            stop={end}
          />
          {work.failure !== null && <Failure error={work.failure} />}
          {result !== null && (
            <Values
              source={source}
              second={second}
              result={result}
              work={work}
              isExact={isExact}
              note={isExact ? 'Of all values' : `From a sample of ${formatBytes(bytes.sample)}`}
            />
          )}
        </>
      )}
      {adapter === null && <ConfigTable source={source} second={second} />}
      {names !== null && adapter === null && <Names names={names} />}
    </div>
  );
}

/** The view of two sources; without a second one the ways to open it. */
export function Compare({ source }: { source: OpenSource }) {
  const { open: second } = useSignal(slots.second);
  return second === null ? <Open slot="second" /> : <Both source={source} second={second} />;
}
