/** A tensor: how it is stored, and its values. */

import type { ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { call } from '../client.js';
import { Bytes, Count } from '../parts/amount.js';
import { Export } from '../parts/export.js';
import { formatInteger } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import { wrapped } from '../parts/name.js';
import { type OpenSource, slots } from '../parts/open-sources.js';
import { type Plane, planeTable } from '../parts/plane.js';
import { saveBlob } from '../parts/save.js';
import { useSignal } from '../parts/signal.js';
import { addressWith, go, useAddress, viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import {
  type Axis,
  formatSelection,
  placeOf,
  remainingAxes,
  shownPart,
  sliceAround,
} from '../selection.js';
import { formatShape } from '../worker/info.js';
import type { NamedTensorSpec } from '../worker/values.js';
import { Grid, type PlaneCell } from './grid.js';
import { HeatMap } from './heat-map.js';
import { SelectionField } from './selection-field.js';
import { Statistics } from './statistics.js';
import { TensorPair } from './tensor-pair.js';

/** `Zero point` of `zeroPoint`. */
function inWords(identifier: string): string {
  const words = identifier.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1).replaceAll('_', ' ');
}

function Facts({ facts }: { facts: NamedTensorSpec }) {
  const { kind, shape, elements, byteLength, offset, file, quantization } = facts;
  return (
    <dl class="facts line">
      <div>
        <dt>{quantization === null ? 'Dtype' : 'Scheme'}</dt>
        <dd>
          {kind}{' '}
          {quantization !== null && (
            <small>
              {quantization.bits} bits
              {quantization.block !== null && `, blocks of ${quantization.block.join(' × ')}`}
            </small>
          )}
        </dd>
      </div>
      <div>
        <dt>Shape</dt>
        <dd>{formatShape(shape)}</dd>
      </div>
      <div>
        <dt>Elements</dt>
        <dd>
          <Count count={elements} />
        </dd>
      </div>
      <div>
        <dt>Bytes</dt>
        <dd>
          <Bytes byteLength={byteLength} />
        </dd>
      </div>
      <div>
        <dt>Offset</dt>
        <dd>
          {formatInteger(offset)} <small>in {wrapped(file)}</small>
        </dd>
      </div>
      {Object.entries(quantization?.storedAs ?? {}).map(([part, name]) => (
        <div key={part}>
          <dt>{inWords(part)}</dt>
          <dd>
            <small>{wrapped(name)}</small>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Values({
  id,
  facts,
  axes,
  plane,
  start,
  children,
}: {
  id: number;
  facts: NamedTensorSpec;
  axes: readonly Axis[];
  plane: Plane;
  start: PlaneCell | null;
  children: ComponentChildren;
}) {
  const { name, kind, shape, bits, quantization } = facts;
  const [form, setForm] = useState<'values' | 'bits'>('values');
  const [note, setNote] = useState<{ message: string } | null>(null);
  const [copied, setCopied] = useState('');
  const one = { id, tensor: name };
  const table = async (
    wanted: 'csv' | 'text',
    use: (text: string) => Promise<void> | void,
    done: string,
  ) => {
    try {
      await use(await call('table', { ...one, axes, form: wanted }));
      setNote(null);
      setCopied(done);
    } catch (error) {
      setNote(error as Error);
    }
  };
  const copy = (text: string) => navigator.clipboard.writeText(text);
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">Values</h2>
        <span class="muted small" role="status">
          {copied}
        </span>
        {quantization === null && (
          <button
            type="button"
            aria-pressed={form === 'bits'}
            onClick={() => setForm(form === 'bits' ? 'values' : 'bits')}
          >
            Bits
          </button>
        )}
        <Export name="values">
          <button
            type="button"
            class="quiet"
            onClick={() => void table('text', copy, 'Copied as text')}
          >
            Copy
          </button>
          <button
            type="button"
            class="quiet"
            onClick={() => void table('csv', copy, 'Copied as CSV')}
          >
            Copy CSV
          </button>
          <button
            type="button"
            class="quiet"
            aria-label="Save values as CSV"
            onClick={() =>
              void table(
                'csv',
                (text) => saveBlob(`${name}.csv`, new Blob([text], { type: 'text/csv' })),
                'Saved',
              )
            }
          >
            CSV
          </button>
        </Export>
      </div>
      {children}
      {note !== null && <Failure error={note} />}
      <Grid
        key={`${name}${formatSelection(axes, shape)}`}
        one={one}
        plane={plane}
        start={start}
        kind={kind}
        bits={bits}
        form={form}
      />
    </section>
  );
}

function Shown({ source, facts }: { source: OpenSource; facts: NamedTensorSpec }) {
  const { slice = '' } = useAddress();
  const { name, shape } = facts;
  const { axes, problem } = useMemo(() => shownPart(slice, shape), [slice, name]);
  const plane = useMemo(() => planeTable(axes), [axes]);
  const [brokenAt, setBrokenAt] = useState<readonly number[] | null>(null);
  const broken = useMemo(() => {
    const [row, column] = (brokenAt && placeOf(brokenAt, axes)) ?? [];
    return row === undefined || column === undefined ? null : { row, column };
  }, [brokenAt, axes]);
  const place = useRef<HTMLDivElement>(null);
  const [visits, setVisits] = useState(0);
  const around = brokenAt === null ? null : sliceAround(brokenAt, shape);
  // Another visit leads there again.
  const start = useMemo(
    () => (slice === around ? broken && { ...broken } : null),
    [broken, visits],
  );
  const goToBroken = () => {
    go(addressWith({ view: 'tensor', tensor: name, slice: around ?? '' }));
    setVisits(visits + 1);
    // Once the part is on the page.
    setTimeout(() => {
      const grid = place.current?.querySelector<HTMLElement>('.grid');
      grid?.focus({ preventScroll: true });
      grid?.scrollIntoView({ block: 'center' });
    });
  };
  const { open } = useSignal(slots.second);
  const second = open === source ? null : open;
  const at = second?.at.get(name);
  const hasPair = at !== undefined && second?.list.shapes[at] === formatShape(shape);
  return (
    <>
      <Facts facts={facts} />
      <Statistics id={source.id} facts={facts} findBroken={setBrokenAt} goToBroken={goToBroken}>
        {hasPair && second !== null && <TensorPair source={source} second={second} name={name} />}
        {problem !== null && <Failure error={problem} />}
        <div ref={place} class="side-by-side">
          {remainingAxes(axes).length === 2 && plane.rows * plane.columns > 0 && (
            <HeatMap
              key={`${second?.id} ${formatSelection(axes, shape)}`}
              id={source.id}
              other={hasPair ? (second?.id ?? null) : null}
              tensor={name}
              axes={axes}
              plane={plane}
              broken={broken}
            />
          )}
          <Values id={source.id} facts={facts} axes={axes} plane={plane} start={start}>
            <SelectionField
              text={slice}
              axes={axes}
              shape={shape}
              choose={(text) =>
                go(addressWith({ view: 'tensor', tensor: name, slice: text }), { replace: true })
              }
            />
          </Values>
        </div>
      </Statistics>
    </>
  );
}

/** The view of the tensor that the address names: of the first source, or of the second where only that has it. */
export function Tensor({ source: first, name }: { source: OpenSource; name: string }) {
  const { open: second, opening } = useSignal(slots.second);
  const isInFirst = useMemo(() => first.list.names.includes(name), [first, name]);
  const source = !isInFirst && second?.at.has(name) ? second : first;
  const isWaiting = !isInFirst && opening !== null && opening.failure === null;
  const { result: facts, failure } = useCall(
    'tensor',
    isWaiting ? null : { id: source.id, tensor: name },
  );
  return (
    <div class="content">
      <header>
        <h1>{wrapped(name)}</h1>
        {source !== first && <p class="muted">{source.label}</p>}
      </header>
      {isWaiting && <p role="status">Reading headers of {opening.label} …</p>}
      {failure !== null && (
        <>
          <Failure error={failure} />
          <a href={viewAddress('tensors', { find: name.split('.').at(-1) ?? '' })}>
            Search for its last word
          </a>
        </>
      )}
      {facts !== null && <Shown key={name} source={source} facts={facts} />}
    </div>
  );
}
