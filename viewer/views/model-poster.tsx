/** The poster of a model: a measure of all tensors by role and layer. */

import { useMemo } from 'preact/hooks';
import { workOf } from '../parts/background.js';
import { useDark } from '../parts/canvas.js';
import { cssColour, cssRamp, divergingMap, sequentialMap } from '../parts/colour-maps.js';
import { formatBytes, formatInteger, plural, shortNumber } from '../parts/format.js';
import {
  cellText,
  formatMeasure,
  healthOf,
  MEASURES,
  type Measure,
  measureOf,
} from '../parts/measures.js';
import type { OpenSource } from '../parts/open-sources.js';
import { Poster } from '../parts/poster.js';
import type { Mark, PosterCell, PosterFrame, PosterPicture } from '../parts/poster-picture.js';
import { useSignal } from '../parts/signal.js';
import { Sparkline } from '../parts/sparkline.js';
import { addressWith, go, useAddress, viewAddress } from '../parts/use-address.js';
import {
  cellValues,
  colourLimit,
  factorRange,
  median,
  posterOf,
  relativeTo,
  type Poster as Table,
} from '../poster.js';
import type { LayerStatistics } from '../worker/layers.js';

/** Three digits, so that decimal points are below each other. */
function rowEnd(value: number): string {
  return Number.isNaN(value) ? '' : value === 0 ? '0' : value.toPrecision(3);
}

/** The picture of a measure, its colours, and what they are. */
function picture(
  poster: Table,
  measure: Measure,
  statistics: LayerStatistics | null,
  dark: boolean,
): {
  picture: PosterPicture;
  scale: PosterFrame['scale'];
  ramp: string;
  rampColour: (place: number) => string;
} {
  const values = statistics?.[measure.key] ?? new Float64Array();
  const cells = cellValues(poster, values);
  const medians = cells.map(median);
  const health = statistics === null ? null : healthOf(statistics, poster);
  const marks = new Map<number, Mark>([
    ...(health?.outliers ?? []).map((at) => [at, 'outlier'] as const),
    ...(health?.constant ?? []).map((at) => [at, 'constant'] as const),
    ...(health?.broken ?? []).map((at) => [at, 'broken'] as const),
  ]);
  const { isRelative, key, label, note } = measure;
  const title = `${label}: ${note.charAt(0).toLowerCase()}${note.slice(1)}`;
  const { limit, isClipped } =
    key === 'zeros' ? { limit: 1, isClipped: false } : colourLimit(cells);
  const factor = factorRange(poster, cells);
  const map = isRelative ? divergingMap(1, dark) : sequentialMap(limit, dark);
  const placed = (row: number, value: number): number =>
    isRelative ? relativeTo(medians[row] as number, factor, value) : value;
  const [from, to] = isRelative ? [-1, 1] : [0, limit];
  return {
    picture: {
      ...{ poster, cells, values, isZeroEmpty: false },
      colourOf: (row, value) => cssColour(map(placed(row, value))),
      text: cellText,
      ends: medians.map(rowEnd),
      endTitle: 'row median',
      markOf: (at) => marks.get(at) ?? null,
    },
    scale: isRelative
      ? { title, from: `÷ ${factor}`, to: `× ${factor}` }
      : { title, from: '0', to: `${isClipped ? '≥ ' : ''}${formatMeasure(measure, limit)}` },
    ramp: cssRamp(map, from, to),
    rampColour: (place) => cssColour(map(from + (to - from) * place)),
  };
}

/** The legend of marks in saved pictures; on the page it is separate. */
const MARKS = 'outlined: NaN or Inf · hatched: constant · corner: peak over 20 × RMS';

/** What is known of the tensors of a cell. */
function CellInfo({
  source,
  poster,
  cell: { row, column },
  measure,
  values,
  middle,
  broken,
}: {
  source: OpenSource;
  poster: Table;
  cell: PosterCell;
  measure: Measure;
  values: ArrayLike<number>;
  middle: number;
  /** Counts of values that are NaN or infinite, and whether of all values. */
  broken: { readonly counts: ArrayLike<number>; readonly isExact: boolean };
}) {
  const { list, place } = source;
  const { role } = poster.rows[row] as Table['rows'][number];
  const tensors = poster.rows[row]?.cells[column] as readonly number[];
  const [first] = tensors as [number];
  const known = tensors.map((at) => values[at] as number).filter((value) => !Number.isNaN(value));
  const value = median(known);
  const bytes = tensors.reduce((sum, at) => sum + (list.byteLength[at] as number), 0);
  const isMany = tensors.length > 1;
  const brokenCount = tensors.reduce((sum, at) => sum + (broken.counts[at] || 0), 0);
  const ratio = value / middle;
  return (
    <>
      <p class="mono small strong">
        {isMany ? role.replace('*', String(poster.layers[column])) : list.names[first]}
      </p>
      <p class="muted small">
        {list.kinds[list.kind[first] as number]} · {isMany && `${formatInteger(tensors.length)} × `}
        {list.shapes[first]} · {formatBytes(bytes)}
      </p>
      {!isMany && place.kind !== 'url' && (
        <Sparkline id={source.id} tensor={list.names[first] as string} />
      )}
      <dl class="lines small">
        {brokenCount > 0 && (
          <div>
            <dt>NaN or Inf</dt>
            <dd>
              {!broken.isExact && 'at least '}
              {plural(brokenCount, 'value')}
            </dd>
          </div>
        )}
        <div>
          <dt>{isMany ? `Median ${measure.label}` : measure.label}</dt>
          <dd>
            {known.length === 0 ? 'not known' : formatMeasure(measure, value)}
            {measure.isRelative && middle > 0 && known.length > 0 && (
              <span class="muted">
                {' '}
                {ratio >= 0.01 && ratio < 1000 ? ratio.toPrecision(3) : shortNumber(ratio)} × the
                row’s median
              </span>
            )}
          </dd>
        </div>
        {isMany &&
          known.length > 0 &&
          (['least', 'greatest'] as const).map((end) => (
            <div key={end}>
              <dt>{end === 'least' ? 'Least' : 'Greatest'}</dt>
              <dd>{formatMeasure(measure, (end === 'least' ? Math.min : Math.max)(...known))}</dd>
            </div>
          ))}
      </dl>
    </>
  );
}

/** The card with the poster; a sentence where no name has the number of a layer. */
export function ModelPoster({
  source,
  title,
  info,
  note,
}: {
  source: OpenSource;
  title: string;
  info: string;
  note: string;
}) {
  const { by } = useAddress();
  const measure = measureOf(by);
  const { result, isWhole } = useSignal(workOf('layers', source));
  const poster = useMemo(() => posterOf(source.list), [source]);
  const dark = useDark();
  const drawn = useMemo(
    () => picture(poster, measure, result, dark),
    [poster, measure, result, dark],
  );
  const { cells, values } = drawn.picture;
  const nameOf = (at: number): string => source.list.names[at] as string;
  const valueText = (value: number): string =>
    Number.isNaN(value) ? 'not known' : formatMeasure(measure, value);
  const describe = ({ row, column }: PosterCell): string => {
    const { role, cells: tensors } = poster.rows[row] as Table['rows'][number];
    const all = tensors[column] as readonly number[];
    const label =
      all.length === 1
        ? nameOf(all[0] as number)
        : `${plural(all.length, 'tensor')} ${role.replace('*', String(poster.layers[column]))}`;
    const hasBroken = all.some((at) => (result?.broken[at] as number) > 0);
    return `${label}: ${valueText(cells[row]?.[column] as number)}${hasBroken ? ', with NaN or Inf' : ''}`;
  };
  return (
    <section class="card">
      <div class="row poster-head">
        <h2>Weights by role and layer</h2>
        <span class="grow muted small">{measure.note}</span>
        <fieldset class="tabs">
          <legend class="hidden">Measure</legend>
          {MEASURES.map(({ key, label }) => (
            <button
              key={key}
              type="button"
              aria-pressed={key === measure.key}
              onClick={() => go(addressWith({ by: key }), { replace: true })}
            >
              {label}
            </button>
          ))}
        </fieldset>
      </div>
      {poster.rows.length === 0 ? (
        <p class="muted">No name of a tensor has the number of a layer.</p>
      ) : (
        <Poster
          name={`${measure.label} by role and layer of ${source.label}`}
          picture={drawn.picture}
          frame={{
            title,
            info,
            note: `${note} · ${MARKS}`,
            scale: drawn.scale,
            rampColour: drawn.rampColour,
          }}
          ramp={drawn.ramp}
          describe={describe}
          popover={(cell) => (
            <CellInfo
              source={source}
              poster={poster}
              cell={cell}
              measure={measure}
              values={values}
              middle={median(cells[cell.row] as Float64Array)}
              broken={{ counts: result?.broken ?? [], isExact: isWhole }}
            />
          )}
          onChoose={(at) => go(viewAddress('tensor', { tensor: nameOf(at) }))}
          legend={
            <>
              <span class="row">
                <span class="key broken" /> NaN or Inf
              </span>
              <span class="row">
                <span class="key constant" /> constant
              </span>
              <span class="row">
                <span class="key outlier" /> peak over 20 × RMS
              </span>
            </>
          }
        />
      )}
      {poster.outside.length > 0 && poster.rows.length > 0 && (
        <p class="row small outside">
          <span class="muted">Outside layers</span>
          {poster.outside.slice(0, 12).map((at) => (
            <a key={at} class="row" href={viewAddress('tensor', { tensor: nameOf(at) })}>
              {nameOf(at)}{' '}
              <span class="muted">{result === null ? '' : valueText(values[at] as number)}</span>
            </a>
          ))}
        </p>
      )}
    </section>
  );
}
