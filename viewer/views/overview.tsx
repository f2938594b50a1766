/** The overview of a source: sizes, dtypes, metadata, files and warnings. */

import { useEffect, useState } from 'preact/hooks';
import { Bytes, Count } from '../parts/amount.js';
import { kindColour } from '../parts/colours.js';
import { formatBytes, formatInteger, formatPercent, plural } from '../parts/format.js';
import { countedNoun, type OpenSource } from '../parts/open-sources.js';
import { SaveTable } from '../parts/save.js';
import { ScrollBox } from '../parts/scroll-box.js';
import type { KindCounts, Overview as OverviewFacts } from '../worker/info.js';
import { Metadata } from './metadata.js';

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
        <SaveTable
          name="dtypes"
          columns={['dtype', 'tensors', 'elements', 'bytes']}
          rows={() => rows}
        />
      </div>
      <div class="dtype-bar" aria-hidden="true">
        {kinds.map(({ kind, byteLength }) => (
          <span
            key={kind}
            style={{ flex: `${byteLength} 0 0`, background: kindColour(kind, names) }}
          />
        ))}
      </div>
      <ScrollBox label="Dtypes">
        <table>
          <thead>
            <tr>
              <th>Dtype</th>
              <th class="number">{noun === 'weight' ? 'Weights' : 'Tensors'}</th>
              <th class="number">Elements</th>
              <th class="number">Bytes</th>
              <th class="number">Share</th>
            </tr>
          </thead>
          <tbody>
            {kinds.map(({ kind, tensors, elements, byteLength }) => (
              <tr key={kind}>
                <td>
                  <span class="swatch" style={{ background: kindColour(kind, names) }} />
                  {'\u00a0'}
                  <code>{kind}</code>
                </td>
                <td class="number">{formatInteger(tensors)}</td>
                <td class="number">{formatInteger(elements)}</td>
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

function Files({ files, noun }: Pick<OverviewFacts, 'files'> & { noun: 'tensor' | 'weight' }) {
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
                  <code>{name}</code>
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

/** The first view of a source. */
export function Overview({ source }: { source: OpenSource }) {
  const { overview } = source;
  const {
    byteLength,
    tensors,
    storedTensors,
    parameters,
    quantization,
    kinds,
    metadata,
    warnings,
    files,
    thumbnail,
  } = overview;
  const noun = countedNoun(overview);
  const title = metadata.find(([key]) => key === 'modelspec.title')?.[1];
  return (
    <div class="content">
      <header class="row">
        <div class="grow">
          <h1>{title ?? source.label}</h1>
          {title !== undefined && <p class="muted">{source.label}</p>}
        </div>
        {thumbnail !== null && <Thumbnail image={thumbnail} />}
      </header>
      {warnings.map((warning) => (
        <p key={warning} class="message">
          {warning}
        </p>
      ))}
      <dl class="facts card">
        <div>
          <dt>Bytes</dt>
          <dd>
            <Bytes byteLength={byteLength} />
          </dd>
        </div>
        <div>
          <dt>Parameters</dt>
          <dd>
            <Count count={parameters} />
          </dd>
        </div>
        <div>
          <dt>Tensors</dt>
          <dd>
            {noun === 'tensor' ? (
              formatInteger(tensors)
            ) : (
              <>
                <span class="whole">{plural(tensors, noun)}</span>{' '}
                <small class="whole">({plural(storedTensors, 'stored tensor')})</small>
              </>
            )}
          </dd>
        </div>
        <div>
          <dt>Files</dt>
          <dd>{formatInteger(files.length)}</dd>
        </div>
        {quantization !== null && (
          <div>
            <dt>Quantization</dt>
            <dd>{quantization}</dd>
          </div>
        )}
      </dl>
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
