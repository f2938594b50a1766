/** Statistics by layer for a whole model: what is dead, what explodes, is seen at a glance. */

import { useEffect, useMemo } from 'preact/hooks';
import { againstMedians, constantRows, layerTable, tableValues } from '../layers.js';
import { start, stop, workOf } from '../parts/background.js';
import { isDark } from '../parts/canvas.js';
import { divergingMap, sequentialMap } from '../parts/colour-maps.js';
import { formatPercent, plural, shortNumber } from '../parts/format.js';
import { LayerPlot } from '../parts/layer-plot.js';
import { Matrix } from '../parts/matrix.js';
import { Failure } from '../parts/messages.js';
import type { OpenSource } from '../parts/open-sources.js';
import { useSignal } from '../parts/signal.js';
import { addressWith, go, useAddress, viewAddress } from '../parts/use-address.js';
import { WorkRow } from '../parts/work-row.js';
import type { LayerStatistics } from '../worker/layers.js';

/** What is shown of a tensor. */
export const STATISTICS: readonly {
  key: keyof LayerStatistics;
  label: string;
  note: string;
  /** Whether a cell is compared with its row: sizes of weights differ by role. */
  isRelative: boolean;
}[] = [
  {
    key: 'norm',
    label: 'Norm',
    note: 'Root mean square of the values, against the median of its row.',
    isRelative: true,
  },
  {
    key: 'spread',
    label: 'Spread',
    note: 'Standard deviation, against the median of its row.',
    isRelative: true,
  },
  {
    key: 'outliers',
    label: 'Outliers',
    note: 'The greatest size, in root mean squares.',
    isRelative: false,
  },
  { key: 'zeros', label: 'Zeros', note: 'Share of values that are zero.', isRelative: false },
];

/** The statistic that an address names. */
function statisticOf(by: string | undefined) {
  return STATISTICS.find(({ key }) => key === by) ?? (STATISTICS[0] as (typeof STATISTICS)[number]);
}

function Shown({
  source,
  statistics,
  by,
}: {
  source: OpenSource;
  statistics: LayerStatistics;
  by: string | undefined;
}) {
  const { key, label, note, isRelative } = statisticOf(by);
  const table = useMemo(() => layerTable(source.list.names), [source]);
  const values = useMemo(() => tableValues(table, statistics[key]), [table, statistics, key]);
  const constants = useMemo(
    () => constantRows(table, [statistics.norm, statistics.spread, statistics.zeros]),
    [table, statistics],
  );
  const shown = useMemo(
    () => (isRelative ? againstMedians(values, table.layers.length) : values),
    [values, isRelative, table],
  );
  const dark = isDark();
  const colourOf = useMemo(() => {
    if (isRelative) return divergingMap(2, dark);
    const known = shown.filter((value) => !Number.isNaN(value));
    return sequentialMap(
      0,
      key === 'zeros' ? 1 : known.reduce((most, value) => Math.max(most, value), 0),
    );
  }, [shown, isRelative, key, dark]);
  const text = (value: number) => (key === 'zeros' ? formatPercent(value, 1) : shortNumber(value));
  const broken = source.list.names.filter((_, at) => (statistics.broken[at] as number) > 0);
  if (table.roles.length === 0)
    return <p class="muted">No name of a tensor has the number of a layer.</p>;
  return (
    <>
      {broken.length > 0 && (
        <div class="message">
          {plural(broken.length, 'tensor')} with NaN or infinities:{' '}
          {broken.slice(0, 5).map((name) => (
            <a key={name} href={viewAddress('tensor', { tensor: name })}>
              {name}{' '}
            </a>
          ))}
        </div>
      )}
      <section class="card">
        <h2>{label} by role and layer</h2>
        <p class="muted small">
          {note}{' '}
          {isRelative &&
            'Blue is less, orange is more; the strongest colours are a quarter and four times.'}
        </p>
        <Matrix
          name={`${label} by layer`}
          table={table}
          values={values}
          shown={shown}
          colourOf={colourOf}
          text={text}
          onChoose={(at) => go(viewAddress('tensor', { tensor: source.list.names[at] as string }))}
        />
      </section>
      <LayerPlot
        name={label}
        table={table}
        values={values}
        constants={constants}
        isShare={key === 'zeros'}
        source={source}
      />
    </>
  );
}

/** The view of a model by layer. */
export function Layers({ source }: { source: OpenSource }) {
  const work = useSignal(workOf('layers', source));
  const { by } = useAddress();
  const { result: statistics, isRunning, failure } = work;
  const begin = (whole: boolean) => void start('layers', source, { id: source.id, whole });
  const isFiles = source.place.kind === 'files';
  useEffect(() => {
    // Files are at hand; of a server people decide what is fetched.
    if (statistics === null && !isRunning && isFiles) begin(false);
  }, [source]);
  const total = source.list.byteLength.reduce((sum, one) => sum + one, 0);
  return (
    <div class="content">
      <header class="row">
        <h1 class="grow">Layers</h1>
        <fieldset class="tabs">
          <legend class="hidden">Statistic</legend>
          {STATISTICS.map(({ key, label }) => (
            <button
              key={key}
              type="button"
              aria-pressed={key === statisticOf(by).key}
              onClick={() => go(addressWith({ by: key }), { replace: true })}
            >
              {label}
            </button>
          ))}
        </fieldset>
      </header>
      <WorkRow
        work={work}
        label="Computing"
        verb={{ samples: 'Compute from samples', all: 'Compute from all' }}
        bytes={total}
        begin={begin}
        stop={() => stop('layers', source)}
      />
      {failure !== null && <Failure error={failure} />}
      {statistics !== null && <Shown source={source} statistics={statistics} by={by} />}
    </div>
  );
}
