/** The pairs of a LoRA adapter, and its base. */

import { useMemo } from 'preact/hooks';
import type { CallError } from '../client.js';
import { Export } from '../parts/export.js';
import {
  fixedFormat,
  fixedPercent,
  formatInteger,
  formatPercent,
  plural,
} from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import { wrapped } from '../parts/name.js';
import { countedNoun, type OpenSource } from '../parts/open-sources.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import { formatLayers, inSeries, layerPlace } from '../poster.js';
import type { LoraPair, Scale } from '../worker/lora.js';

/** A name of one of the two matrices of a pair. */
export const LORA: RegExp = /\.lora_(?:A|B|down|up)\b|[._]lora\.(?:down|up)\./;

export function isAdapter({ list }: OpenSource): boolean {
  return list.names.some((name) => LORA.test(name));
}

const DOWN = /[._](?:lora_A|lora_down|lora\.down)\b.*/;

/** `q_proj and v_proj in layers 4–11`; nothing where names don't show it. */
function placesOf(targets: readonly string[]): string {
  const places = targets.map(layerPlace);
  const modules = [...new Set(places.map(({ role }) => role.split('.').at(-1) as string))];
  const layers = [...new Set(places.flatMap(({ layer }) => layer ?? []))];
  // Programs that write no dots have the whole place in one word.
  const isShort = modules.length <= 8 && modules.every((module) => !module.includes('*'));
  return [
    ...(isShort ? [inSeries(modules)] : []),
    ...(layers.length === 0
      ? []
      : [`in ${layers.length === 1 ? 'layer' : 'layers'} ${formatLayers(layers)}`]),
  ].join(' ');
}

/** `scale 2 = alpha 16 ÷ r 8`; `scales 1 to 2` of many; nothing where none is known. */
function scaleText(scales: readonly Scale[]): string {
  const known = scales.filter(({ scale }) => scale !== null);
  const number = (value: number): string => String(Number(value.toPrecision(4)));
  const texts = new Set(
    known.map(({ scale, alpha, rank }) => {
      const text = `scale ${number(scale as number)}`;
      if (alpha === null || rank === null) return text;
      const isPlain = Math.abs((scale as number) * rank - alpha) <= 1e-6 * Math.abs(alpha);
      return `${text} = alpha ${number(alpha)} ÷ ${isPlain ? 'r' : '√r, r ='} ${rank}`;
    }),
  );
  if (texts.size <= 2) return [...texts].join(', ');
  const all = known.map(({ scale }) => scale as number);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  return `scales ${number(least)} to ${number(most)}`;
}

/** The names of the two matrices of a pair, as the file has them: the product's order. */
function matricesOf({ list }: OpenSource): string {
  return list.names.some((name) => name.includes('.lora_A')) ? 'B · A' : 'up · down';
}

/** `‖scale · B · A‖ ÷ ‖weight‖` */
export function changeFormula({ adapter }: Adapter): string {
  return `‖scale · ${matricesOf(adapter)}‖ ÷ ‖weight‖`;
}

/** What an adapter changes, by its names and shapes; nothing for other models. */
export function AdapterNote({ source: { id, list } }: { source: OpenSource }) {
  const downs = useMemo(
    () => [...list.names.keys()].filter((at) => DOWN.test(list.names[at] as string)),
    [list],
  );
  const { result: facts } = useCall('adapter', downs.length === 0 ? null : { id });
  if (downs.length === 0) return null;
  const scale = scaleText(facts?.scales ?? []);
  const ranks = [...new Set(downs.map((at) => (list.shapes[at] as string).split(' ')[0]))];
  const places = placesOf(downs.map((at) => (list.names[at] as string).replace(DOWN, '')));
  return (
    <section class="card">
      <h2>LoRA adapter</h2>
      <p>
        It changes {plural(downs.length, 'tensor')} by {plural(downs.length, 'pair')} of matrices of
        rank {inSeries(ranks as string[])}
        {places === '' ? '' : `: ${places}`}
        {scale === '' ? '' : `; ${scale}`}.{' '}
        <a href={viewAddress('compare')}>Open its base to see by how much</a>
      </p>
    </section>
  );
}

/** An adapter, the other source as its base, and the call for its pairs. */
export interface Adapter {
  readonly adapter: OpenSource;
  readonly base: OpenSource;
  readonly pairs: readonly LoraPair[] | null;
  readonly failure: CallError | null;
  readonly isRunning: boolean;
}

/** The adapter of two sources; null when none of them is one. */
export function useAdapter(source: OpenSource, second: OpenSource): Adapter | null {
  const [adapter, base] = isAdapter(second)
    ? [second, source]
    : isAdapter(source)
      ? [source, second]
      : [null, null];
  const { result, failure, isRunning } = useCall(
    'lora',
    adapter === null ? null : { id: adapter.id, base: base.id },
  );
  return adapter === null ? null : { adapter, base, pairs: result, failure, isRunning };
}

/** `pirate changes 16 of 75 tensors, by 69 % at most.` */
export function adapterHeadline({ adapter, base, pairs }: Adapter): string {
  if (pairs === null) return `${adapter.label} on ${base.label}`;
  const changed = new Set(pairs.flatMap((pair) => pair.base ?? [])).size;
  if (changed === 0)
    return `${adapter.label} changes no ${countedNoun(base.overview)} of ${base.label}.`;
  const most = pairs.reduce((top, { relative }) => Math.max(top, relative ?? 0), 0);
  const extent = most === 0 ? '' : `, by ${formatPercent(most, 1)} at most`;
  const all = plural(base.list.names.length, countedNoun(base.overview));
  return `${adapter.label} changes ${formatInteger(changed)} of ${all}${extent}.`;
}

/** By position in the list of the base, how much each weight is changed: 0 for those that no pair is for. */
export function adapterChanges({ base, pairs }: Adapter): Float64Array | null {
  if (pairs === null || pairs.every(({ relative }) => relative === null)) return null;
  const changes = new Float64Array(base.list.names.length);
  for (const { base: name, relative } of pairs) {
    const at = name === null ? undefined : base.at.get(name);
    if (at !== undefined) changes[at] = relative ?? Number.NaN;
  }
  return changes;
}

/** The pairs of an adapter. */
export function Lora({ found: { adapter, pairs, failure, isRunning } }: { found: Adapter }) {
  const most = pairs?.reduce((top, { relative, norm }) => Math.max(top, relative ?? norm), 0) ?? 0;
  const normText = fixedFormat(pairs?.map(({ norm }) => norm) ?? []);
  const scale = scaleText(pairs ?? []);
  const rows = () =>
    pairs?.map(({ target, rank, alpha, scale, norm, base: weight, relative }) => [
      target,
      rank,
      alpha,
      scale,
      norm,
      weight,
      relative,
    ]) ?? [];
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">LoRA: {pairs === null ? adapter.label : plural(pairs.length, 'pair')}</h2>
        <Export
          name="pairs"
          table={{
            columns: ['target', 'rank', 'alpha', 'scale', 'norm', 'base', 'relative'],
            rows,
          }}
        />
      </div>
      {isRunning && <p role="status">Reading pairs …</p>}
      {failure !== null && <Failure error={failure} />}
      {pairs !== null && (
        <>
          <p class="muted small">
            The norm is ‖{matricesOf(adapter)}‖ times the scale, from adapter_config.json or alpha
            in the file{scale === '' ? '' : `: ${scale}`}. The share is that of the norm of the
            base's weight, of which a sample is read; there is none where the scale is unknown.
          </p>
          <ScrollBox label="Pairs" height="tall">
            <table>
              <thead>
                <tr>
                  <th>Target</th>
                  <th class="number wide">Rank</th>
                  <th class="number">Norm</th>
                  <th class="number">Of the base</th>
                  <th class="wide">
                    <span class="hidden">Size</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {pairs.map(({ target, rank, norm, base: weight, relative }) => (
                  <tr key={target}>
                    <td class="text mono small">
                      {weight !== null ? (
                        <a href={viewAddress('tensor', { tensor: weight })}>{wrapped(target)}</a>
                      ) : (
                        wrapped(target)
                      )}
                    </td>
                    <td class="number wide">{formatInteger(rank)}</td>
                    <td class="number">{normText(norm)}</td>
                    <td class="number">{relative === null ? '–' : fixedPercent(relative)}</td>
                    <td class="share wide">
                      <span style={{ width: `${(100 * (relative ?? norm)) / (most || 1)}%` }} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </ScrollBox>
        </>
      )}
    </section>
  );
}
