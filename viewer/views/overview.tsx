/** The overview of a source: its poster, its health, what it is made of, and its metadata. */

import { type ComponentChildren, Fragment } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { stop, workOf } from '../parts/background.js';
import { kindColour } from '../parts/colours.js';
import { Export } from '../parts/export.js';
import {
  formatBytes,
  formatInteger,
  formatPercent,
  formatShortCount,
  plural,
} from '../parts/format.js';
import { healthOf } from '../parts/measures.js';
import { Failure } from '../parts/messages.js';
import { wrapped } from '../parts/name.js';
import { countedNoun, type OpenSource } from '../parts/open-sources.js';
import { beginSample, useSample } from '../parts/sample.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { useSignal } from '../parts/signal.js';
import { viewAddress } from '../parts/use-address.js';
import { WorkRow } from '../parts/work-row.js';
import { PARTS, type Part, posterOf } from '../poster.js';
import { sliceAround } from '../selection.js';
import { dimensions, type KindCounts, type Overview as OverviewFacts } from '../worker/info.js';
import { AdapterNote } from './lora.js';
import { Metadata } from './metadata.js';
import { ModelPoster } from './model-poster.js';
import { CompareWith } from './open.js';

/** Lines of a list that are shown. */
const SHOWN = 3;
const MOST = 100;

/** Names with links; of many the first. */
function TensorLinks({
  source,
  tensors,
  sliceOf = () => undefined,
}: {
  source: OpenSource;
  tensors: readonly number[];
  sliceOf?: (at: number) => string | undefined;
}) {
  const [count, setCount] = useState(SHOWN);
  return (
    <ul class="small mono">
      {tensors.slice(0, count).map((at) => {
        const tensor = source.list.names[at] as string;
        const slice = sliceOf(at);
        return (
          <li key={at}>
            <a href={viewAddress('tensor', { tensor, ...(slice === undefined ? {} : { slice }) })}>
              {wrapped(tensor)}
            </a>
          </li>
        );
      })}
      {tensors.length > count && count < MOST && (
        <li>
          <button type="button" class="quiet" onClick={() => setCount(MOST)}>
            {count === SHOWN ? 'Show' : ''} {formatInteger(tensors.length - count)} more
          </button>
        </li>
      )}
    </ul>
  );
}

function Health({ source, isExact }: { source: OpenSource; isExact: boolean }) {
  const { result, progress, isRunning, isComplete } = useSignal(workOf('layers', source));
  const poster = useMemo(() => posterOf(source.list), [source]);
  const health = useMemo(
    () => (result === null ? null : healthOf(result, poster)),
    [result, poster],
  );
  if (health === null || result === null) return null;
  const read = result.broken.reduce((sum, count) => sum + (Number.isNaN(count) ? 0 : 1), 0);
  const soFar = `${formatInteger(read)} of ${plural(progress?.tensors ?? read, 'tensor')}`;
  const lines: readonly (readonly [
    kind: string,
    what: string,
    tensors: readonly number[],
    note?: string,
  ])[] = [
    ['broken', 'with NaN or infinities', health.broken],
    ['warning', 'with outliers', health.outliers, 'peak over 20 × RMS'],
    ['warning', 'with one value only', health.constant],
    ['warning', 'with rows of zeros', health.zeroRows],
    ...(poster.rows.some(({ part, isFolded }) => part === 'experts' && isFolded)
      ? [
          [
            'warning',
            'of unusual experts',
            health.unusual,
            'RMS 1.5 × off the median of the layer',
          ] as const,
        ]
      : []),
  ];
  return (
    <section class="card">
      <h2>Health</h2>
      {lines.map(([kind, what, tensors, note]) => (
        <div key={what} class="health">
          <span
            class={`health-mark ${tensors.length > 0 ? kind : isRunning ? 'muted' : 'fine'}`}
            aria-hidden="true"
          >
            {tensors.length > 0 ? '!' : isRunning ? '…' : '✓'}
          </span>
          <div>
            <p>
              {tensors.length > 0
                ? `${isExact ? '' : 'At least '}${plural(tensors.length, 'tensor')} ${what}`
                : isRunning
                  ? `Looking for tensors ${what}`
                  : `No tensor ${what}`}{' '}
              {tensors.length === 0 && !isExact && !isRunning && (
                <span class="muted">seen in {isComplete ? 'the sample' : soFar}</span>
              )}
              {tensors.length > 0 && note !== undefined && <span class="muted">({note})</span>}
            </p>
            <TensorLinks
              source={source}
              tensors={tensors}
              sliceOf={(at) => {
                const index = result.brokenAt.get(at);
                if (kind !== 'broken' || index === undefined) return undefined;
                return sliceAround(index, dimensions(source.list.shapes[at] as string));
              }}
            />
          </div>
        </div>
      ))}
      <p class="muted small">
        {isExact
          ? 'Counted in all values.'
          : isRunning
            ? `In progress: ${soFar} read.`
            : isComplete
              ? 'Counted in the sample; exact after “Read all”.'
              : `Stopped: ${soFar} read.`}
      </p>
    </section>
  );
}

function Lines({ lines }: { lines: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="lines">
      {lines.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Architecture({ architecture }: Pick<OverviewFacts, 'architecture'>) {
  if (architecture.length === 0) return null;
  return (
    <section class="card">
      <h2>Architecture</h2>
      <Lines lines={architecture.map(([label, value]) => [label, wrapped(value)] as const)} />
    </section>
  );
}

/** `22.8 %`; all have one decimal. */
function shareText(share: number): string {
  return share > 0 && share < 0.0005 ? '< 0.1 %' : `${(100 * share).toFixed(1)} %`;
}

function Parameters({ source, counts }: { source: OpenSource; counts: ReadonlyMap<Part, number> }) {
  const buffers = counts.get('buffers') ?? 0;
  const total = [...counts.values()].reduce((sum, one) => sum + one, 0) - buffers;
  const shown = PARTS.filter(([part]) => part !== 'buffers' && (counts.get(part) ?? 0) > 0);
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">Parameters</h2>
        <Export
          name={`parameters of ${source.label}`}
          table={{
            columns: ['part', 'parameters'],
            rows: () => PARTS.map(([part]) => [part, counts.get(part) ?? 0]),
          }}
        />
      </div>
      <div class="dtype-bar" aria-hidden="true">
        {shown.map(([part]) => (
          <span
            key={part}
            style={{ flex: `${counts.get(part)} 0 0`, background: `var(--${part})` }}
          />
        ))}
      </div>
      <table>
        <thead class="hidden">
          <tr>
            <th>Part</th>
            <th>Parameters</th>
            <th>Share</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(([part, label]) => (
            <tr key={part}>
              <td>
                <span class="whole">
                  <span class="swatch" style={{ background: `var(--${part})` }} /> {label}
                </span>
              </td>
              <td class="number">{formatShortCount(counts.get(part) ?? 0)}</td>
              <td class="number muted">{shareText((counts.get(part) ?? 0) / total)}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">All</th>
            <td class="number">
              <b>{formatShortCount(total)}</b>
            </td>
            <td />
          </tr>
        </tbody>
      </table>
      {buffers > 0 && (
        <p class="muted small">
          {formatShortCount(buffers)} values of buffers, such as causal masks, are not counted.
        </p>
      )}
    </section>
  );
}

/** Bits of a parameter, by the dtypes of that width. */
const WIDTHS: readonly (readonly [label: string, bits: number])[] = [
  ['F32', 32],
  ['BF16, F16', 16],
  ['8 bits', 8],
  ['4 bits', 4],
];

function Storage({ source, parameters }: { source: OpenSource; parameters: number }) {
  const { overview } = source;
  const { files, byteLength, quantization, tensors, storedTensors } = overview;
  const stored = plural(storedTensors, 'stored tensor');
  return (
    <section class="card">
      <h2>Storage</h2>
      <Lines
        lines={[
          ['Files', formatInteger(files.length)],
          ['Bytes', formatInteger(byteLength)],
          [
            'Tensors',
            countedNoun(overview) === 'tensor'
              ? formatInteger(tensors)
              : `${plural(tensors, 'weight')} (${stored})`,
          ],
          ['Parameters', formatInteger(parameters)],
          ['Quantization', quantization ?? 'none'],
        ]}
      />
      <h3>Memory as</h3>
      <Lines lines={WIDTHS.map(([label, bits]) => [label, formatBytes((parameters * bits) / 8)])} />
      {overview.notes.map((note) => (
        <p key={note} class="muted small">
          {note}
        </p>
      ))}
    </section>
  );
}

function Dtypes({
  kinds,
  noun,
  total,
}: {
  kinds: readonly KindCounts[];
  noun: 'tensor' | 'weight';
  total: number;
}) {
  const names = kinds.map(({ kind }) => kind);
  const rows = kinds.map(({ kind, tensors, elements, byteLength }) => [
    kind,
    tensors,
    elements,
    byteLength,
  ]);
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">Dtypes</h2>
        <Export
          name="dtypes"
          table={{ columns: ['dtype', 'tensors', 'elements', 'bytes'], rows: () => rows }}
        />
      </div>
      <ScrollBox label="Dtypes">
        <table>
          <thead>
            <tr>
              <th>Dtype</th>
              <th class="number">{noun === 'weight' ? 'Weights' : 'Tensors'}</th>
              <th class="number wide">Elements</th>
              <th class="number">Bytes</th>
              <th class="number">Share</th>
            </tr>
          </thead>
          <tbody>
            {kinds.map(({ kind, tensors, elements, byteLength }) => (
              <tr key={kind}>
                <td class="kind">
                  <span class="swatch" style={{ background: kindColour(kind, names) }} />
                  {'\u00a0'}
                  <code>{kind}</code>
                </td>
                <td class="number">{formatInteger(tensors)}</td>
                <td class="number wide">{formatInteger(elements)}</td>
                <td class="number">{formatBytes(byteLength)}</td>
                <td class="number">{formatPercent(byteLength, total)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  );
}

export function Files({
  files,
  noun,
}: Pick<OverviewFacts, 'files'> & { noun: 'tensor' | 'weight' }) {
  return (
    <section class="card">
      <h2>{plural(files.length, 'file')}</h2>
      <ScrollBox label="Files" height="long">
        <table>
          <thead>
            <tr>
              <th>Name</th>
              <th class="number">{noun === 'weight' ? 'Stored tensors' : 'Tensors'}</th>
              <th class="number">Bytes</th>
            </tr>
          </thead>
          <tbody>
            {files.map(({ name, tensors, byteLength }) => (
              <tr key={name}>
                <td class="text">
                  <code>{wrapped(name)}</code>
                </td>
                <td class="number">{formatInteger(tensors)}</td>
                <td class="number">{formatBytes(byteLength)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollBox>
    </section>
  );
}

/** An image of the metadata, as a blob: it is decoded as an image or not shown. */
function Thumbnail({ image: { type, bytes } }: { image: { type: string; bytes: Uint8Array } }) {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([bytes as Uint8Array<ArrayBuffer>], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [bytes]);
  return url === null ? null : <img class="thumbnail" src={url} alt="Thumbnail of the model" />;
}

/** The name of a model, and two lines of facts. */
export function Heading({
  title,
  info,
  children,
}: {
  title: string;
  info: readonly string[];
  children?: ComponentChildren;
}) {
  return (
    <div class="grow">
      <h1>{title}</h1>
      <p class="muted">
        {info.map((one, at) => (
          <Fragment key={one}>
            {at > 0 && ' · '}
            <span class="whole">{one}</span>
          </Fragment>
        ))}
      </p>
      <p class="muted">{children ?? '\u00a0'}</p>
    </div>
  );
}

/** The largest tensor of a list. */
function Largest({ list: { names, byteLength } }: Pick<OpenSource, 'list'>) {
  const most = byteLength.reduce((top, one) => Math.max(top, one), 0);
  const tensor = names[byteLength.indexOf(most)];
  if (tensor === undefined) return null;
  return (
    <>
      Largest tensor: <a href={viewAddress('tensor', { tensor })}>{wrapped(tensor)}</a>,{' '}
      <span class="whole">{formatBytes(most)}</span>
    </>
  );
}

/** The first view of a source. */
export function Overview({ source }: { source: OpenSource }) {
  const { overview, list } = source;
  const { byteLength, tensors, storedTensors, quantization, kinds, metadata, warnings, files } =
    overview;
  const work = useSample(source);
  const noun = countedNoun(overview);
  const title = metadata.find(([key]) => key === 'modelspec.title')?.[1] ?? source.label;
  const [model] = overview.architecture.filter(([label]) => label === 'Model');
  const counts = useMemo(() => {
    const sums = new Map<Part, number>();
    for (const [at, number] of list.part.entries()) {
      const part = PARTS[number]?.[0] as Part;
      sums.set(part, (sums.get(part) ?? 0) + (list.elements[at] as number));
    }
    return sums;
  }, [source]);
  const parameters =
    quantization === null
      ? overview.parameters - (counts.get('buffers') ?? 0)
      : overview.parameters;
  const { all, files: ofFiles, requests } = overview.sample;
  const bytes = { sample: source.place.kind === 'files' ? ofFiles : requests, all };
  const isExact = work.isComplete && (work.isWhole || bytes.sample === bytes.all);
  const info = [
    ...(model === undefined ? [] : [model[1]]),
    `${formatShortCount(parameters)} parameters`,
    quantization ??
      kinds
        .map(({ kind }) => kind)
        .slice(0, 3)
        .join(', '),
    formatBytes(byteLength),
    plural(files.length, 'file'),
    noun === 'tensor'
      ? plural(tensors, 'tensor')
      : `${plural(tensors, noun)} (${plural(storedTensors, 'stored tensor')})`,
  ].filter((one) => one !== '');
  return (
    <div class="content">
      <header class="row">
        <Heading title={title} info={info}>
          <Largest list={list} />
        </Heading>
        {overview.thumbnail !== null && <Thumbnail image={overview.thumbnail} />}
      </header>
      <CompareWith source={source} />
      {warnings.map((warning) => (
        <p key={warning} class="message">
          {warning}
        </p>
      ))}
      {tensors > 0 && (
        <WorkRow
          work={work}
          label="Reading values"
          verb={{ sample: 'Read a sample,', all: 'Read all' }}
          bytes={bytes}
          begin={(whole) => beginSample(source, whole)}
          stop={() => stop('layers', source)}
        />
      )}
      {work.failure !== null && <Failure error={work.failure} />}
      <AdapterNote source={source} />
      <ModelPoster
        source={source}
        title={title}
        info={info.join(' · ')}
        note={isExact ? 'Of all values' : `From a sample of ${formatBytes(bytes.sample)}`}
      />
      <div class="cards">
        <Health source={source} isExact={isExact} />
        <Architecture architecture={overview.architecture} />
        <Parameters source={source} counts={counts} />
        <Storage source={source} parameters={parameters} />
      </div>
      <Dtypes
        kinds={kinds}
        noun={noun}
        total={kinds.reduce((sum, one) => sum + one.byteLength, 0)}
      />
      <Metadata overview={overview} />
      <Files files={files} noun={noun} />
    </div>
  );
}
