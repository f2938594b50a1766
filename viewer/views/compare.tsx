/** Two models side by side: names that differ, and how much values do, by layer. */

import { useEffect, useMemo } from 'preact/hooks';
import { constantRows, layerTable, tableValues } from '../layers.js';
import { pairOf, start, stop, workOf } from '../parts/background.js';
import { sequentialMap } from '../parts/colour-maps.js';
import { formatInteger, formatPercent, plural, shortNumber } from '../parts/format.js';
import { LayerPlot } from '../parts/layer-plot.js';
import { Matrix } from '../parts/matrix.js';
import { Failure } from '../parts/messages.js';
import { close, type OpenSource, slots } from '../parts/open-sources.js';
import { SaveTable } from '../parts/save.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { useSignal } from '../parts/signal.js';
import { go, viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import { WorkRow } from '../parts/work-row.js';
import type { DifferingTensor, NameDifference, ValueDifferences } from '../worker/compare.js';
import { Lora } from './lora.js';
import { Open } from './open.js';

/** Rows of a list that are shown; all are saved. */
const SHOWN = 200;

function Names({ names: { differing, comparable } }: { names: NameDifference }) {
  const countOf = (kind: DifferingTensor['difference']): number =>
    differing.filter(({ difference }) => difference === kind).length;
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">Tensors</h2>
        <SaveTable
          name="differences of tensors"
          columns={['difference', 'name', 'before', 'after']}
          rows={() =>
            differing.map(({ difference, name, before, after }) => [
              difference,
              name,
              before,
              after,
            ])
          }
        />
      </div>
      <dl class="facts">
        {(
          [
            ['In both, of one shape', comparable],
            ['Added', countOf('added')],
            ['Removed', countOf('removed')],
            ['Other shape or dtype', countOf('changed')],
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
                  <td class="text mono">{name}</td>
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

function Values({
  source,
  result,
  isWhole,
}: {
  source: OpenSource;
  result: ValueDifferences;
  isWhole: boolean;
}) {
  const { relative, differing, maxError } = result;
  const { list } = source;
  const table = useMemo(() => layerTable(list.names), [source]);
  const values = useMemo(() => tableValues(table, relative), [table, relative]);
  const constants = useMemo(() => constantRows(table, [relative]), [table, relative]);
  const most = values.reduce((top, value) => Math.max(top, Number.isNaN(value) ? 0 : value), 0);
  const colourOf = useMemo(() => sequentialMap(0, most), [most]);
  const order = useMemo(
    () =>
      [...list.names.keys()]
        .filter((at) => (relative[at] as number) > 0)
        .sort((a, b) => (relative[b] as number) - (relative[a] as number)),
    [relative],
  );
  const rows = () =>
    order.map((at) => [
      list.names[at] as string,
      relative[at] as number,
      differing[at] as number,
      maxError[at] as number,
    ]);
  return (
    <>
      {table.roles.length > 0 && (
        <section class="card">
          <h2>Relative difference by role and layer</h2>
          <p class="muted small">
            ‖a − b‖ / ‖a‖, from 0 in dark blue to {shortNumber(most)} in yellow.
          </p>
          <Matrix
            name="relative difference by layer"
            table={table}
            values={values}
            shown={values}
            colourOf={colourOf}
            text={shortNumber}
            onChoose={(at) => go(viewAddress('tensor', { tensor: list.names[at] as string }))}
          />
          <p>
            <a href={viewAddress('map', { by: 'difference' })}>Show it on the map of bytes</a>
          </p>
        </section>
      )}
      {table.roles.length > 0 && (
        <LayerPlot
          name="Relative difference"
          table={table}
          values={values}
          constants={constants}
          isShare
          source={source}
        />
      )}
      <section class="card">
        <div class="row">
          <h2 class="grow">
            {order.length === 0 && !isWhole
              ? 'No difference seen in the samples'
              : `${plural(order.length, 'tensor')} with other values`}
          </h2>
          <SaveTable
            name="differences of values"
            columns={['name', 'relative', 'differing', 'max_error']}
            rows={rows}
          />
        </div>
        <ScrollBox label="Other values">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th class="number">‖a − b‖ / ‖a‖</th>
                <th class="number">Other values</th>
                <th class="number">Greatest error</th>
              </tr>
            </thead>
            <tbody>
              {order.slice(0, 50).map((at) => (
                <tr key={at}>
                  <td class="text mono">
                    <a href={viewAddress('tensor', { tensor: list.names[at] as string })}>
                      {list.names[at]}
                    </a>
                  </td>
                  <td class="number">{shortNumber(relative[at] as number)}</td>
                  <td class="number">{formatPercent(differing[at] as number, 1)}</td>
                  <td class="number">{shortNumber(maxError[at] as number)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollBox>
      </section>
    </>
  );
}

function Differences({
  source,
  second,
  bytes,
}: {
  source: OpenSource;
  second: OpenSource;
  bytes: number;
}) {
  const pair = pairOf(source, second);
  const work = useSignal(workOf('differ', pair));
  const { result, isRunning, failure } = work;
  const isFiles = source.place.kind === 'files' && second.place.kind === 'files';
  const begin = (whole: boolean) =>
    void start('differ', pair, { id: source.id, other: second.id, whole });
  useEffect(() => {
    if (result === null && !isRunning && isFiles) begin(false);
  }, [pair]);
  return (
    <>
      <WorkRow
        work={work}
        label="Comparing values"
        verb={{ samples: 'Compare samples', all: 'Compare all' }}
        bytes={bytes}
        begin={begin}
        stop={() => stop('differ', pair)}
      />
      {failure !== null && <Failure error={failure} />}
      {result !== null && <Values source={source} result={result} isWhole={work.isWhole} />}
    </>
  );
}

function Both({ source, second }: { source: OpenSource; second: OpenSource }) {
  const { result: names, failure } = useCall('names', { id: source.id, other: second.id });
  const bytes = source.list.byteLength.reduce((sum, one) => sum + one, 0);
  return (
    <div class="content">
      <header class="row">
        <div class="grow">
          <h1>Two models</h1>
          <p class="muted">
            {source.label} and {second.label}
          </p>
        </div>
        <button type="button" onClick={() => close('second')}>
          Close the second
        </button>
      </header>
      {failure !== null && <Failure error={failure} />}
      <Lora source={source} second={second} />
      {names !== null && <Names names={names} />}
      {names !== null && names.comparable > 0 && (
        <Differences source={source} second={second} bytes={bytes} />
      )}
    </div>
  );
}

/** The view of two sources; without a second one the ways to open it. */
export function Compare({ source }: { source: OpenSource }) {
  const { open: second } = useSignal(slots.second);
  return second === null ? <Open slot="second" /> : <Both source={source} second={second} />;
}
