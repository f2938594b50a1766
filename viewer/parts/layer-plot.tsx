/** A statistic over the layers, as a line for each of some roles. */

import { useMemo, useState } from 'preact/hooks';
import type { LayerTable } from '../layers.js';
import { lineStyle } from './colours.js';
import type { OpenSource } from './open-sources.js';
import { Plot } from './plot.js';
import { linearScale, needsLog, type Scale } from './scale.js';
import { go, viewAddress } from './use-address.js';

/** Lines at first: the roles with the most bytes that differ between layers. */
const FIRST = 5;

/** Most lines: colours and dashes are told apart. */
const MAX_LINES = 8;

/** Shows lines of roles that people choose. */
export function LayerPlot({
  name,
  table,
  values,
  constants,
  isShare,
  source,
}: {
  name: string;
  table: LayerTable;
  values: Float64Array;
  /** Rows that are the same in every layer, which are not shown at first. */
  constants: ReadonlySet<number>;
  isShare: boolean;
  source: OpenSource;
}) {
  const { roles, layers, cells } = table;
  const largest = useMemo(() => {
    const bytes = new Float64Array(roles.length);
    for (const [cell, tensors] of cells) {
      const row = Math.floor(cell / layers.length);
      for (const at of tensors)
        bytes[row] = (bytes[row] as number) + (source.list.byteLength[at] as number);
    }
    const shown = [...roles.keys()].filter((row) => !constants.has(row));
    return (shown.length > 0 ? shown : [...roles.keys()])
      .sort((a, b) => (bytes[b] as number) - (bytes[a] as number))
      .slice(0, FIRST);
  }, [table, constants]);
  const [choice, setChosen] = useState<readonly number[] | null>(null);
  const chosen = choice ?? largest;
  const [scale, setScale] = useState<'log' | 'linear' | null>(null);
  const series = useMemo(
    () =>
      chosen.map((row, at) => ({
        name: roles[row] as string,
        values: values.subarray(row * layers.length, (row + 1) * layers.length),
        ...lineStyle(at),
      })),
    [chosen, values, table],
  );
  const isLog =
    scale === null
      ? !isShare && needsLog(series.flatMap((one) => Array.from(one.values)))
      : scale === 'log';
  const toggle = (row: number) =>
    setChosen(
      chosen.includes(row)
        ? chosen.filter((one) => one !== row)
        : [...chosen, row].slice(-MAX_LINES),
    );
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">{name} over the layers</h2>
        <button
          type="button"
          aria-pressed={isLog}
          onClick={() => setScale(isLog ? 'linear' : 'log')}
        >
          Log
        </button>
      </div>
      <Plot
        name={`${name} over the layers`}
        series={series}
        kind="lines"
        isLog={isLog}
        isShare={isShare}
        xScale={layerScale(layers)}
        xTitle="layer"
        xText={(at) => `layer ${layers[at]}`}
        height={260}
        onChoose={(at) => {
          const [tensor] = cells.get((chosen[0] ?? 0) * layers.length + at) ?? [];
          if (tensor !== undefined)
            go(viewAddress('tensor', { tensor: source.list.names[tensor] as string }));
        }}
      />
      <fieldset class="legend-list">
        <legend class="hidden">Roles</legend>
        {roles.map((role, row) => (
          <label key={role} class="row small">
            <input type="checkbox" checked={chosen.includes(row)} onChange={() => toggle(row)} />
            <span
              class="line-mark"
              style={{
                borderTop: chosen.includes(row)
                  ? lineMark(chosen.indexOf(row))
                  : '3px solid transparent',
              }}
            />
            <span class="mono">{role}</span>
          </label>
        ))}
      </fieldset>
    </section>
  );
}

/** Places are positions; what stands there is the number of the layer. */
function layerScale(layers: readonly number[]): Scale {
  const scale = linearScale(0, Math.max(1, layers.length - 1), 6);
  const ticks = scale.ticks
    .filter(({ value }) => Number.isInteger(value) && value < layers.length)
    .map(({ value }) => ({ value, label: String(layers[value]) }));
  return { ...scale, ticks };
}

function lineMark(at: number): string {
  const { colour, dash } = lineStyle(at);
  return `3px ${dash.length === 0 ? 'solid' : dash[0] === 2 ? 'dotted' : 'dashed'} ${colour}`;
}
