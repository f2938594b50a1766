/** The map of bytes: every tensor as large as it is, coloured by dtype or by a statistic. */

import { useMemo, useRef, useState } from 'preact/hooks';
import { pairOf, workOf } from '../parts/background.js';
import { isDark, themeColour, useCanvas } from '../parts/canvas.js';
import { cssColour, cssRamp, divergingMap, inkOn, sequentialMap } from '../parts/colour-maps.js';
import { kindColour } from '../parts/colours.js';
import { Export } from '../parts/export.js';
import { formatBytes, plural, shortNumber } from '../parts/format.js';
import { MEASURES } from '../parts/measures.js';
import { Failure } from '../parts/messages.js';
import { countedNoun, type OpenSource, slots } from '../parts/open-sources.js';
import { useSample } from '../parts/sample.js';
import { useSignal } from '../parts/signal.js';
import { addressWith, go, useAddress, viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import { colourLimit, filledValues, layerPlace, median, PARTS } from '../poster.js';
import type { TensorList } from '../worker/info.js';
import type { ByteMap, MapBlock, MapGroup } from '../worker/treemap.js';

const HEIGHT = 560;

/** A way to colour tensors. */
interface Colouring {
  readonly key: string;
  readonly label: string;
  /** Values by position; null for parts and dtypes, undefined while they are unknown. */
  readonly values: Float64Array | null | undefined;
  readonly isRelative: boolean;
}

/** Statistics against the median of tensors of the same role, as powers of two. */
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
    const middle = median(positions.map((at) => values[at] as number));
    for (const at of positions) {
      const value = values[at] as number;
      result[at] = Number.isNaN(value) || middle > 0 ? Math.log2(value / middle) : 0;
    }
  }
  return result;
}

function useColourings(source: OpenSource): readonly Colouring[] {
  const { result: statistics } = useSample(source);
  const { open: second } = useSignal(slots.second);
  // Without a second source the work of the first with itself, which never begins.
  const { result: differences } = useSignal(workOf('differ', pairOf(source, second ?? source)));
  return useMemo(
    () => [
      { key: 'part', label: 'Part', values: null, isRelative: false },
      { key: 'dtype', label: 'Dtype', values: null, isRelative: false },
      ...MEASURES.map(({ key, label, isRelative }) => ({
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

/** The block at a place. */
function blockAt({ blocks }: ByteMap, left: number, top: number): MapBlock | null {
  const isThere = ({ x, y, w, h }: MapBlock): boolean =>
    left >= x && left < x + w && top >= y && top < y + h;
  return blocks.find(isThere) ?? null;
}

const LABEL = { height: 15, padding: 4 };

/** A label over areas. */
interface Label {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly text: string;
  readonly of: MapGroup | MapBlock;
}

/** Puts labels where they fit whole, and no other is, outer parts first: each goes down by up to two lines. */
function placeLabels(
  wanted: readonly { readonly of: MapGroup | MapBlock; readonly texts: readonly string[] }[],
  measure: (text: string) => number,
): Label[] {
  const placed: Label[] = [];
  const isFree = (x: number, y: number, w: number): boolean =>
    placed.every(
      (one) => x >= one.x + one.w || one.x >= x + w || Math.abs(y - one.y) >= LABEL.height,
    );
  const place = (of: MapGroup | MapBlock, text: string): boolean => {
    const w = measure(text) + 2 * LABEL.padding;
    if (w > of.w - 2) return false;
    const x = of.x + 1;
    const y = [0, 1, 2]
      .map((lines) => of.y + 1 + lines * LABEL.height)
      .find((at) => at + LABEL.height <= of.y + of.h && isFree(x, at, w));
    if (y === undefined) return false;
    placed.push({ x, y, w, text, of });
    return true;
  };
  for (const { of, texts } of wanted) {
    if (of.w >= 20 && of.h >= LABEL.height) texts.some((text) => place(of, text));
  }
  return placed;
}

/** The mean of what is known of tensors, by their bytes; NaN when nothing is. */
function meanOf(
  { byteLength }: TensorList,
  values: Float64Array,
  tensors: readonly number[],
): number {
  let [sum, bytes] = [0, 0];
  for (const at of tensors) {
    const value = values[at] as number;
    if (Number.isNaN(value)) continue;
    sum += value * (byteLength[at] as number);
    bytes += byteLength[at] as number;
  }
  return bytes === 0 ? Number.NaN : sum / bytes;
}

/** Groups of tensors with a colour each, and the group of each tensor. */
interface Grouping {
  readonly groups: readonly { readonly label: string; readonly colour: string }[];
  readonly of: ArrayLike<number>;
}

function groupingOf({ kinds, kind, part }: TensorList, key: string): Grouping {
  if (key === 'dtype') {
    return {
      of: kind,
      groups: kinds.map((one) => ({ label: one, colour: kindColour(one, kinds) })),
    };
  }
  // Colours of variables differ by theme.
  return { of: part, groups: PARTS.map(([one, label]) => ({ label, colour: themeColour(one) })) };
}

/** Bytes of tensors by group. */
function groupBytes(
  { byteLength }: TensorList,
  { groups, of }: Grouping,
  tensors: Iterable<number>,
): Float64Array {
  const bytes = new Float64Array(groups.length);
  for (const at of tensors) {
    const group = of[at] as number;
    bytes[group] = (bytes[group] as number) + (byteLength[at] as number);
  }
  return bytes;
}

const maxOf = (numbers: Float64Array): number =>
  numbers.reduce((most, one) => Math.max(most, Number.isNaN(one) ? 0 : one), 0);

/** Colours of blocks, and of the bar that explains them; none for groups. */
interface BlockColours {
  colourOf(tensors: readonly number[]): string;
  readonly ramp: string | null;
  /** The value at the end of a bar that begins with 0. */
  readonly most: string;
}

function useBlockColours(
  source: OpenSource,
  { values, isRelative, key }: Colouring,
  dark: boolean,
): BlockColours {
  return useMemo<BlockColours>(() => {
    const { list } = source;
    if (values === null) {
      const grouping = groupingOf(list, key);
      const colourOf = (tensors: readonly number[]): string => {
        const bytes = groupBytes(list, grouping, tensors);
        return grouping.groups[bytes.indexOf(maxOf(bytes))]?.colour ?? '';
      };
      return { colourOf, ramp: null, most: '' };
    }
    const none = themeColour('raised');
    if (values === undefined) return { colourOf: () => none, ramp: null, most: '' };
    const shown = isRelative
      ? relativeValues(list.names, filledValues(list.names, values))
      : values;
    const { limit: most, isClipped } =
      isRelative || key === 'zeros' ? { limit: 1, isClipped: false } : colourLimit([shown]);
    const map = isRelative ? divergingMap(2, dark) : sequentialMap(most, dark);
    return {
      colourOf: (tensors) => {
        const value = meanOf(list, shown, tensors);
        return Number.isNaN(value) ? none : cssColour(map(value));
      },
      ramp: isRelative ? cssRamp(map, -2, 2) : cssRamp(map, 0, most),
      most: `${isClipped ? '≥ ' : ''}${shortNumber(most)}`,
    };
  }, [source, values, isRelative, key, dark]);
}

/** The colours at first: where one part has nearly all bytes, or one role, there is nothing else to see. */
function firstColouring({ list }: OpenSource, colourings: readonly Colouring[]): Colouring {
  const bytes = groupBytes(list, groupingOf(list, 'part'), list.names.keys());
  const total = bytes.reduce((sum, one) => sum + one, 0);
  const [part, , norm] = colourings as readonly [Colouring, Colouring, Colouring];
  return norm.values != null && maxOf(bytes) > 0.9 * total ? norm : part;
}

/** The groups with bytes. */
function shownGroups(list: TensorList, key: string): Grouping['groups'] {
  const grouping = groupingOf(list, key);
  const bytes = groupBytes(list, grouping, list.names.keys());
  return grouping.groups.filter((_, at) => (bytes[at] as number) > 0);
}

/** The view of a model by bytes. */
export function ByteMapView({ source }: { source: OpenSource }) {
  const { list } = source;
  const { by } = useAddress();
  const [prefix, setPrefix] = useState('');
  const [active, setActive] = useState<MapBlock | null>(null);
  const labels = useRef<readonly Label[]>([]);
  const colourings = useColourings(source);
  const first = useMemo(() => firstColouring(source, colourings), [source, colourings]);
  const colouring = colourings.find(({ key }) => key === by) ?? first;
  const dark = isDark();
  const { colourOf, ramp, most } = useBlockColours(source, colouring, dark);
  const [size, setSize] = useState(0);
  const { result: map, failure } = useCall(
    'map',
    size === 0 ? null : { id: source.id, map: { width: size, height: HEIGHT, prefix } },
    { keep: true },
  );
  const nameOf = ({ tensors, group }: MapBlock): string =>
    group === null ? (list.names[tensors[0] as number] as string) : group.prefix;
  const outline = (
    context: CanvasRenderingContext2D,
    { x, y, w, h }: Omit<MapBlock, 'tensors' | 'group' | 'isNamed'>,
    thickest: number,
  ) => {
    // An outline covers its area, and takes at most an eighth of it on each side.
    context.lineWidth = Math.min(thickest, Math.min(w, h) / 8);
    context.strokeRect(x, y, w, h);
  };
  const draw = (context: CanvasRenderingContext2D, width: number) => {
    if (width !== size) setSize(width);
    if (map === null) return;
    for (const block of map.blocks) {
      context.fillStyle = colourOf(block.tensors);
      context.fillRect(block.x, block.y, block.w, block.h);
    }
    context.strokeStyle = themeColour('surface');
    for (const block of map.blocks) outline(context, block, 1);
    for (const group of map.groups) outline(context, group, Math.max(1, 4 - group.level));
    const ends = (name: string) => [
      name.split(/[./]/).slice(-2).join('.'),
      name.split(/[./]/).at(-1) ?? '',
    ];
    labels.current = placeLabels(
      [
        ...map.groups
          .toSorted((a, b) => a.level - b.level)
          .map((of) => ({ of, texts: [`${of.label} · ${formatBytes(of.byteLength)}`, of.label] })),
        ...map.blocks
          .filter(({ isNamed }) => !isNamed)
          .map((of) => ({ of, texts: ends(nameOf(of).replace(/(?:\.weight|[./])$/, '')) })),
      ],
      (text) => context.measureText(text).width,
    );
    context.textBaseline = 'middle';
    for (const { x, y, w, text, of } of labels.current) {
      if ('level' in of) {
        context.fillStyle = themeColour('surface');
        context.fillRect(x, y, w, LABEL.height);
        context.fillStyle = themeColour('text');
      } else context.fillStyle = inkOn(colourOf(of.tensors));
      context.fillText(text, x + LABEL.padding, y + LABEL.height / 2 + 0.5);
    }
    if (active === null) return;
    context.strokeStyle = themeColour('text');
    context.lineWidth = 2;
    context.strokeRect(
      active.x + 1,
      active.y + 1,
      Math.max(2, active.w - 2),
      Math.max(2, active.h - 2),
    );
  };
  const { ref } = useCanvas(draw, HEIGHT, [map, colourOf, active, size]);
  const zoom = (to: string) => {
    setActive(null);
    setPrefix(to);
  };
  const open = (block: MapBlock) => {
    if (block.group !== null) zoom(block.group.prefix);
    else go(viewAddress('tensor', { tensor: nameOf(block) }));
  };
  const groupAt = (left: number, top: number): MapGroup | null => {
    const label = labels.current.find(
      ({ x, y, w }) => left >= x && left < x + w && top >= y && top < y + LABEL.height,
    );
    return label !== undefined && 'level' in label.of ? label.of : null;
  };
  const step = (by: number) => {
    const { blocks } = map as ByteMap;
    const at = active === null ? (by > 0 ? -1 : 0) : blocks.indexOf(active);
    setActive(blocks[(at + by + blocks.length) % blocks.length] ?? null);
  };
  const outer = () => zoom(prefix.replace(/[^./]*[./]?$/, ''));
  const keys: Readonly<Record<string, () => void>> = {
    ArrowRight: () => step(1),
    ArrowDown: () => step(1),
    ArrowLeft: () => step(-1),
    ArrowUp: () => step(-1),
    Enter: () => active !== null && open(active),
    Backspace: outer,
    Escape: () => zoom(''),
  };
  const said = () => {
    if (active === null)
      return 'Point at a block, or move with the arrow keys. Click a tensor to open it, a label to zoom in.';
    const { tensors, group } = active;
    const value = colouring.values && meanOf(list, colouring.values, tensors);
    const number = Number.isNaN(value) ? 'not known' : shortNumber(value ?? null);
    const shown =
      value == null
        ? ''
        : `, ${colouring.key === 'difference' ? 'difference' : colouring.label} ${number}`;
    const [at] = tensors as [number];
    const what =
      group === null
        ? `${list.kinds[list.kind[at] as number]} ${list.shapes[at]}, ${formatBytes(list.byteLength[at] as number)}`
        : `${plural(tensors.length, countedNoun(source.overview))}, ${formatBytes(group.byteLength)}, zoom in to see each`;
    return `${nameOf(active)}: ${what}${shown}`;
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
            href={viewAddress(colouring.key === 'difference' ? 'compare' : 'overview', {
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
          <div class="grow mono small">{prefix === '' ? 'All tensors' : prefix}</div>
          {prefix !== '' && (
            <button type="button" onClick={outer}>
              Out
            </button>
          )}
          <Export name="map of bytes" picture={() => ref.current} />
        </div>
        <div>
          <canvas
            ref={ref}
            role="application"
            tabIndex={0}
            aria-label={`Map of ${list.names.length} tensors by bytes. Arrow keys move, Enter opens a tensor, Backspace goes out.`}
            onPointerMove={({ offsetX, offsetY }) =>
              setActive(map === null ? null : blockAt(map, offsetX, offsetY))
            }
            onPointerLeave={() => setActive(null)}
            onClick={({ offsetX, offsetY }) => {
              const group = groupAt(offsetX, offsetY);
              if (group !== null) zoom(group.prefix);
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
        {ramp === null ? (
          <div class="row small outside">
            {colouring.values === null &&
              shownGroups(source.list, colouring.key).map(({ label, colour }) => (
                <span key={label} class="row">
                  <span class="swatch" style={{ background: colour }} /> {label}
                </span>
              ))}
          </div>
        ) : (
          <p class="row muted small">
            <span class="ramp" style={{ background: ramp }} />
            {colouring.isRelative
              ? 'A quarter to four times the median of tensors of the same role.'
              : `From 0 to ${most}.`}
            {colouring.isRelative &&
              colouring.values?.some(Number.isNaN) &&
              ' Tensors that were not read have the median of their role and layer.'}
          </p>
        )}
      </section>
    </div>
  );
}
