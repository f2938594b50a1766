/** The map of bytes: every tensor as large as it is, coloured by dtype or by a statistic. */

import { useMemo, useState } from 'preact/hooks';
import { againstMedians, layerPlace } from '../layers.js';
import { pairOf, workOf } from '../parts/background.js';
import { isDark, themeColour, useCanvas } from '../parts/canvas.js';
import { cssColour, divergingMap, sequentialMap } from '../parts/colour-maps.js';
import { kindColour } from '../parts/colours.js';
import { formatBytes, shortNumber } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import { type OpenSource, slots } from '../parts/open-sources.js';
import { SavePicture } from '../parts/save.js';
import { useSignal } from '../parts/signal.js';
import { addressWith, go, useAddress, viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import type { ByteMap } from '../worker/treemap.js';
import { STATISTICS } from './layers.js';

const HEIGHT = 560;

/** A way to colour tensors. */
interface Colouring {
  readonly key: string;
  readonly label: string;
  /** Values by position; null for dtypes, undefined while they are unknown. */
  readonly values: Float64Array | null | undefined;
  readonly isRelative: boolean;
}

/** Statistics against the median of tensors of the same role, as on the page of layers. */
function relativeValues(names: readonly string[], values: Float64Array): Float64Array {
  const roles = new Map<string, number[]>();
  for (const [at, name] of names.entries()) {
    const { role } = layerPlace(name);
    const positions = roles.get(role);
    if (positions === undefined) roles.set(role, [at]);
    else positions.push(at);
  }
  const result = new Float64Array(values.length).fill(Number.NaN);
  for (const positions of roles.values()) {
    const row = Float64Array.from(positions, (at) => values[at] as number);
    const relative = againstMedians(row, Math.max(1, row.length));
    for (const [index, at] of positions.entries()) result[at] = relative[index] as number;
  }
  return result;
}

function useColourings(source: OpenSource): readonly Colouring[] {
  const { result: statistics } = useSignal(workOf('layers', source));
  const { open: second } = useSignal(slots.second);
  // Without a second source the work of the first with itself, which never begins.
  const { result: differences } = useSignal(workOf('differ', pairOf(source, second ?? source)));
  return useMemo(
    () => [
      { key: 'dtype', label: 'Dtype', values: null, isRelative: false },
      ...STATISTICS.map(({ key, label, isRelative }) => ({
        key,
        label,
        isRelative,
        values: statistics?.[key],
      })),
      ...(second === null
        ? []
        : [
            {
              key: 'difference',
              label: 'Difference',
              values: differences?.relative,
              isRelative: false,
            },
          ]),
    ],
    [statistics, differences, second],
  );
}

/** The rectangle at a place; the smallest is what people mean. */
function tensorAt({ boxes, tensors }: ByteMap, x: number, y: number): number | null {
  for (const [index, tensor] of tensors.entries()) {
    const [x0, y0, x1, y1] = boxes.subarray(index * 4, index * 4 + 4) as unknown as [
      number,
      number,
      number,
      number,
    ];
    if (x >= x0 && x < x1 && y >= y0 && y < y1) return tensor;
  }
  return null;
}

/** Black or white, whichever is read better on a colour. */
function inkOn(colour: string): string {
  const digits = colour.startsWith('#')
    ? [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16))
    : (colour.match(/\d+/g) ?? []).map(Number);
  const [red = 0, green = 0, blue = 0] = digits;
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? '#000000' : '#ffffff';
}

function useTensorColours(
  source: OpenSource,
  { values, isRelative, key }: Colouring,
): (tensor: number) => string {
  const dark = isDark();
  return useMemo<(tensor: number) => string>(() => {
    const { list } = source;
    if (values === null)
      return (tensor) => kindColour(list.kinds[list.kind[tensor] as number] as string, list.kinds);
    const none = themeColour('raised');
    if (values === undefined) return () => none;
    const shown = isRelative ? relativeValues(list.names, values) : values;
    const most = shown.reduce((top, value) => Math.max(top, Number.isNaN(value) ? 0 : value), 0);
    const map = isRelative ? divergingMap(2, dark) : sequentialMap(0, key === 'zeros' ? 1 : most);
    return (tensor) =>
      Number.isNaN(shown[tensor]) ? none : cssColour(map(shown[tensor] as number));
  }, [source, values, isRelative, key, dark]);
}

/** The view of a model by bytes. */
export function ByteMapView({ source }: { source: OpenSource }) {
  const { list } = source;
  const { by } = useAddress();
  const [prefix, setPrefix] = useState('');
  const [active, setActive] = useState<number | null>(null);
  const colourings = useColourings(source);
  const colouring = colourings.find(({ key }) => key === by) ?? (colourings[0] as Colouring);
  const colourOf = useTensorColours(source, colouring);
  const [size, setSize] = useState(0);
  const { result: map, failure } = useCall(
    'map',
    size === 0 ? null : { id: source.id, map: { width: size, height: HEIGHT, prefix } },
    { keep: true },
  );
  const draw = (context: CanvasRenderingContext2D, width: number) => {
    if (width !== size) setSize(width);
    if (map === null) return;
    for (const [index, tensor] of map.tensors.entries()) {
      const [x0, y0, x1, y1] = map.boxes.subarray(index * 4) as unknown as [
        number,
        number,
        number,
        number,
      ];
      const colour = colourOf(tensor);
      context.fillStyle = colour;
      context.fillRect(x0, y0, Math.max(0.5, x1 - x0), Math.max(0.5, y1 - y0));
      if (x1 - x0 < 50 || y1 - y0 < 16) continue;
      context.save();
      context.beginPath();
      context.rect(x0, y0, x1 - x0 - 2, y1 - y0);
      context.clip();
      context.fillStyle = inkOn(colour);
      context.textBaseline = 'top';
      const label = (list.names[tensor] as string).split(/[./]/).slice(-2).join('.');
      context.fillText(label, x0 + 4, y0 + 3);
      context.restore();
    }
    context.textBaseline = 'middle';
    for (const { label, box } of map.groups) {
      const [x0, y0, x1] = box;
      context.save();
      context.beginPath();
      context.rect(x0, y0, x1 - x0 - 2, 18);
      context.clip();
      context.fillStyle = themeColour('text');
      context.fillText(label, x0 + 4, y0 + 9);
      context.restore();
    }
    const at = active === null ? -1 : map.tensors.indexOf(active);
    if (at < 0) return;
    const [x0, y0, x1, y1] = map.boxes.subarray(at * 4) as unknown as [
      number,
      number,
      number,
      number,
    ];
    context.strokeStyle = themeColour('text');
    context.lineWidth = 3;
    context.strokeRect(x0, y0, Math.max(3, x1 - x0), Math.max(3, y1 - y0));
  };
  const { ref } = useCanvas(draw, HEIGHT, [map, colourOf, active, size]);
  const open = (tensor: number) =>
    go(viewAddress('tensor', { tensor: list.names[tensor] as string }));
  const groupAt = (x: number, y: number) =>
    map?.groups.findLast(({ box: [x0, y0, x1] }) => x >= x0 && x < x1 && y >= y0 && y < y0 + 18);
  const step = (by: number) => {
    const { tensors } = map as ByteMap;
    const at = active === null ? -1 : tensors.indexOf(active);
    setActive(tensors[(at + by + tensors.length) % tensors.length] ?? null);
  };
  const outer = () => setPrefix(prefix.replace(/[^./]*[./]?$/, ''));
  const keys: Readonly<Record<string, () => void>> = {
    ArrowRight: () => step(1),
    ArrowDown: () => step(1),
    ArrowLeft: () => step(-1),
    ArrowUp: () => step(-1),
    Enter: () => active !== null && open(active),
    Backspace: outer,
    Escape: () => setPrefix(''),
  };
  const said = () => {
    if (active === null)
      return 'Point at a tensor, or move with the arrow keys. A click opens it; a heading comes closer.';
    const value = colouring.values?.[active];
    const number = Number.isNaN(value) ? 'not known' : shortNumber(value ?? null);
    const shown = value === undefined ? '' : `, ${colouring.label.toLowerCase()} ${number}`;
    return `${list.names[active]}: ${list.kinds[list.kind[active] as number]} ${list.shapes[active]}, ${formatBytes(list.byteLength[active] as number)}${shown}`;
  };
  return (
    <div class="content">
      <header class="row">
        <h1 class="grow">Map of bytes</h1>
        <fieldset class="tabs">
          <legend class="hidden">Colours</legend>
          {colourings.map(({ key, label }) => (
            <button
              key={key}
              type="button"
              aria-pressed={key === colouring.key}
              onClick={() => go(addressWith({ by: key }), { replace: true })}
            >
              {label}
            </button>
          ))}
        </fieldset>
      </header>
      {colouring.values === undefined && (
        <p class="message">
          This is not computed yet.{' '}
          <a
            href={viewAddress(colouring.key === 'difference' ? 'compare' : 'layers', {
              by: colouring.key,
            })}
          >
            Compute it
          </a>
          , and come back.
        </p>
      )}
      {failure !== null && <Failure error={failure} />}
      <section class="card">
        <div class="row">
          <span class="grow mono small">{prefix === '' ? 'All tensors' : prefix}</span>
          {prefix !== '' && (
            <button type="button" onClick={outer}>
              Out
            </button>
          )}
          <SavePicture name="map of bytes" canvas={() => ref.current} />
        </div>
        <div>
          <canvas
            ref={ref}
            role="application"
            tabIndex={0}
            aria-label={`Map of ${list.names.length} tensors by bytes. Arrow keys move, Enter opens a tensor, Backspace goes out.`}
            onPointerMove={({ offsetX, offsetY }) =>
              setActive(map === null ? null : tensorAt(map, offsetX, offsetY))
            }
            onPointerLeave={() => setActive(null)}
            onClick={({ offsetX, offsetY }) => {
              const group = groupAt(offsetX, offsetY);
              if (group !== undefined) setPrefix(group.prefix);
              else if (active !== null) open(active);
            }}
            onKeyDown={(event) => {
              const act = keys[event.key];
              if (act === undefined || map === null) return;
              event.preventDefault();
              act();
            }}
          />
        </div>
        <p class="mono small" role="status">
          {said()}
        </p>
        {colouring.values === null ? (
          <div class="row small">
            {list.kinds.map((kind) => (
              <span key={kind} class="row">
                <span class="swatch" style={{ background: kindColour(kind, list.kinds) }} /> {kind}
              </span>
            ))}
          </div>
        ) : (
          <p class="muted small">
            {colouring.isRelative
              ? 'Against the median of tensors of the same role: blue is less, orange is more.'
              : 'From dark blue, the least, to yellow, the most.'}
          </p>
        )}
      </section>
    </div>
  );
}
