/** Two models side by side: names that differ, and how much values do, by layer. */

import { useEffect, useMemo } from 'preact/hooks';
import { pairOf, start, stop, workOf } from '../parts/background.js';
import { isDark } from '../parts/canvas.js';
import { cssColour, cssRamp, sequentialMap } from '../parts/colour-maps.js';
import { Export } from '../parts/export.js';
import {
  fixedFormat,
  fixedPercent,
  formatBytes,
  formatInteger,
  formatPercent,
  plural,
} from '../parts/format.js';
import { cellText } from '../parts/measures.js';
import { Failure } from '../parts/messages.js';
import { wrapped } from '../parts/name.js';
import { close, type OpenSource, slots } from '../parts/open-sources.js';
import { Poster } from '../parts/poster.js';
import type { PosterCell, PosterPicture } from '../parts/poster-picture.js';
import { isSmall } from '../parts/sample.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { useSignal } from '../parts/signal.js';
import { go, viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import { WorkRow } from '../parts/work-row.js';
import {
  cellValues,
  colourLimit,
  formatLayers,
  layerMeans,
  posterOf,
  strongestLayers,
} from '../poster.js';
import type { DifferingTensor, NameDifference, ValueDifferences } from '../worker/compare.js';
import { adapterChanges, adapterHeadline, Lora, useAdapter } from './lora.js';
import { Open } from './open.js';

function percentText(share: number): string {
  return formatPercent(share, 1);
}

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

/** What a poster of shares is of. */
interface SharesOf {
  /** The source with the tensors. */
  readonly source: OpenSource;
  /** By position in its list; NaN where nothing is compared. */
  readonly shares: Float64Array;
  /** Shares of values that differ, if values are compared. */
  readonly differing?: Float64Array;
  readonly title: string;
  readonly note: string;
  /** Names the file that is saved. */
  readonly name: string;
  readonly sampleNote: string;
  /** What a cell of 0 is. */
  readonly none: string;
}

/** The poster of relative differences, or of changes by an adapter. */
function SharePoster({ source, shares, differing, title, note, name, sampleNote, none }: SharesOf) {
  const { list } = source;
  const dark = isDark();
  const drawn = useMemo(() => {
    const poster = posterOf(list);
    const cells = cellValues(poster, shares);
    const tops = cells.map((row) => row.reduce((top, value) => Math.max(top, value || 0), 0));
    const { limit, isClipped } = colourLimit(cells);
    const map = sequentialMap(limit, dark);
    const picture: PosterPicture = {
      ...{ poster, cells, values: shares, isZeroEmpty: true },
      colourOf: (_, value) => cssColour(map(value)),
      text: (value) => cellText(100 * value),
      ends: tops.map((top) => (top === 0 ? '–' : percentText(top))),
      endTitle: 'row max',
      // Values of which only one is NaN have no relative difference.
      markOf: (at) => (shares[at] === 0 && (differing?.[at] as number) > 0 ? 'broken' : null),
    };
    const to = `${isClipped ? '≥ ' : ''}${percentText(limit)}`;
    return { picture, map, limit, to, means: layerMeans(cells, poster.layers.length) };
  }, [source, shares, dark]);
  const { picture, map, limit, to, means } = drawn;
  const { poster, cells } = picture;
  if (poster.rows.length === 0) return null;
  const describe = ({ row, column }: PosterCell): string => {
    const { role, cells: tensors } = poster.rows[row] as (typeof poster.rows)[number];
    const [at = 0] = tensors[column] ?? [];
    const label = tensors[column]?.length === 1 ? list.names[at] : role;
    const value = cells[row]?.[column] as number;
    return `${label}: ${Number.isNaN(value) ? 'not compared' : percentText(value)}`;
  };
  return (
    <section class="card">
      <div class="row">
        <h2>{title}</h2>
        <span class="grow muted small">{note}, in %</span>
      </div>
      <Poster
        name={name}
        picture={picture}
        frame={{
          title: name,
          info: title,
          note: sampleNote,
          scale: { title: note, from: '0', to },
          rampColour: (place) => cssColour(map(place * limit)),
        }}
        ramp={cssRamp(map, 0, limit)}
        describe={describe}
        popover={(cell) => (
          <>
            <p class="mono small strong">{describe(cell)}</p>
            <p class="muted small">
              mean of layer {poster.layers[cell.column]}:{' '}
              {percentText(means[cell.column] as number)}
            </p>
          </>
        )}
        onChoose={(at) => go(viewAddress('tensor', { tensor: list.names[at] as string }))}
        legend={
          <span class="row">
            <span class="key" /> {none}
          </span>
        }
      />
    </section>
  );
}

/** Positions of tensors with other values, the greatest relative difference first. */
function differingOf({ relative, differing }: ValueDifferences): number[] {
  return [...relative.keys()]
    .filter((at) => (differing[at] as number) > 0)
    .sort((a, b) => (relative[b] as number) - (relative[a] as number));
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
  isExact,
  note,
}: {
  source: OpenSource;
  second: OpenSource;
  result: ValueDifferences;
  isExact: boolean;
  note: string;
}) {
  const { relative, differing, maxError } = result;
  const { list } = source;
  const order = useMemo(() => differingOf(result), [relative]);
  const errorText = useMemo(() => fixedFormat(order.map((at) => maxError[at] as number)), [order]);
  const rows = () =>
    order.map((at) => [
      list.names[at] as string,
      relative[at] as number,
      differing[at] as number,
      maxError[at] as number,
    ]);
  return (
    <>
      <SharePoster
        source={source}
        shares={relative}
        differing={differing}
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
          <h2 class="grow">
            {order.length === 0 && !isExact
              ? 'No difference seen in the samples'
              : `${plural(order.length, 'tensor')} with other values`}
          </h2>
          <Export
            name="differences of values"
            table={{ columns: ['name', 'relative', 'differing', 'max_error'], rows }}
          />
        </div>
        <ScrollBox label="Other values">
          <table>
            <thead>
              <tr>
                <th>Name</th>
                <th class="number">‖a − b‖ ÷ ‖a‖</th>
                <th class="number wide">Other values</th>
                <th class="number wide">Greatest error</th>
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
                  <td class="number">{fixedPercent(relative[at] as number)}</td>
                  <td class="number wide">{fixedPercent(differing[at] as number)}</td>
                  <td class="number wide">{errorText(maxError[at] as number)}</td>
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
  const { work, begin, stop: end } = useDifferences(source, second);
  const { result, isComplete } = work;
  const bytes = useMemo(() => comparedBytes(source, second), [source, second]);
  const isExact = isComplete && (work.isWhole || bytes.sample === bytes.all);
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
                , {percentText(result?.relative[largest] as number)}
              </>
            )}
          </p>
        </div>
        <button type="button" onClick={() => close('second')}>
          Close the second
        </button>
      </header>
      {failure !== null && <Failure error={failure} />}
      {adapter !== null && changes !== null && (
        <SharePoster
          source={adapter.base}
          shares={changes}
          title="Change by role and layer"
          note="‖scale · up · down‖ ÷ ‖weight‖"
          name={`changes of ${adapter.base.label} by ${adapter.adapter.label}`}
          sampleNote="Norms of weights are those of samples"
          none="not changed"
        />
      )}
      {adapter !== null && <Lora found={adapter} source={source} />}
      {names !== null && names.comparable > 0 && (
        <>
          <WorkRow
            work={work}
            label="Comparing values"
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
              isExact={isExact}
              note={isExact ? 'Of all values' : `From a sample of ${formatBytes(bytes.sample)}`}
            />
          )}
        </>
      )}
      {adapter === null && <Base source={source} second={second} />}
      {names !== null && adapter === null && <Names names={names} />}
    </div>
  );
}

/** Layers in which a tensor differs from the base. */
function touchedLayers(base: OpenSource, { differing }: ValueDifferences): number[] {
  const poster = posterOf(base.list);
  const cells = cellValues(poster, differing);
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

/** The differences of two sources, which begin by themselves where bytes are local. */
function useDifferences(base: OpenSource, other: OpenSource) {
  const pair = pairOf(base, other);
  const work = useSignal(workOf('differ', pair));
  const begin = (whole: boolean) =>
    void start('differ', pair, { id: base.id, other: other.id, whole });
  useEffect(() => {
    const isLocal = base.place.kind !== 'url' && other.place.kind !== 'url';
    if (work.result === null && !work.isRunning && isLocal) begin(isSmall(base) && isSmall(other));
  }, [pair]);
  return { work, begin, stop: () => stop('differ', pair) };
}

/** Two models and the one that both were made from. */
function WithBase({
  base,
  source,
  second,
}: {
  base: OpenSource;
  source: OpenSource;
  second: OpenSource;
}) {
  const a = useDifferences(base, source);
  const b = useDifferences(base, second);
  const isKnown = a.work.isComplete && b.work.isComplete;
  return (
    <section class="card" data-slot="base">
      <div class="row">
        <h2 class="grow">
          {isKnown && a.work.result !== null && b.work.result !== null
            ? threeWay(base, a.work.result, b.work.result)
            : `Next to ${base.label}`}
        </h2>
        <button type="button" onClick={() => close('base')}>
          Close the base
        </button>
      </div>
      {(
        [
          ['a', source, a],
          ['b', second, b],
        ] as const
      ).map(([letter, other, { work, begin, stop: end }]) => (
        <div key={letter}>
          <WorkRow
            work={work}
            label={`Comparing ${letter} with the base`}
            verb={{ sample: `Compare a sample of ${letter},`, all: `Compare all of ${letter}` }}
            bytes={comparedBytes(base, other)}
            begin={begin}
            stop={end}
          />
          {work.failure !== null && <Failure error={work.failure} />}
          {work.result !== null && (
            <SharePoster
              source={base}
              shares={work.result.relative}
              differing={work.result.differing}
              title={`${letter}: ${other.label}`}
              note="‖base − model‖ ÷ ‖base‖"
              name={`relative difference of ${base.label} and ${other.label}`}
              sampleNote={work.isWhole ? 'Of all values' : 'From a sample'}
              none="no difference"
            />
          )}
        </div>
      ))}
    </section>
  );
}

/** The base of two models, or the ways to open it. */
function Base({ source, second }: { source: OpenSource; second: OpenSource }) {
  const { open: base, opening } = useSignal(slots.base);
  if (base !== null) return <WithBase base={base} source={source} second={second} />;
  return (
    <details class="card" open={opening !== null}>
      <summary>Add the model that both were made from</summary>
      <Open slot="base" />
    </details>
  );
}

/** Bytes of the first that are read to compare all, and a sample. */
function comparedBytes(
  { overview: { sample }, place }: OpenSource,
  second: OpenSource,
): { sample: number; all: number } {
  const isRequested = place.kind !== 'files' || second.place.kind !== 'files';
  return { sample: isRequested ? sample.requests : sample.files, all: sample.all };
}

/** The view of two sources; without a second one the ways to open it. */
export function Compare({ source }: { source: OpenSource }) {
  const { open: second } = useSignal(slots.second);
  return second === null ? <Open slot="second" /> : <Both source={source} second={second} />;
}
