/** The poster of relative differences, or of changes by an adapter. Cells of two models are split. */

import { useMemo } from 'preact/hooks';
import { useDark } from '../parts/canvas.js';
import { cssColour, cssRamp, divergingMap, sequentialMap } from '../parts/colour-maps.js';
import { fixedPercent, formatPercent } from '../parts/format.js';
import { cellText } from '../parts/measures.js';
import { wrapped } from '../parts/name.js';
import { isBroken, oneSided } from '../parts/one-sided.js';
import type { OpenSource } from '../parts/open-sources.js';
import { Poster } from '../parts/poster.js';
import type { PosterCell, PosterPicture } from '../parts/poster-picture.js';
import { go, viewAddress } from '../parts/use-address.js';
import {
  cellMaxima,
  cellValues,
  colourLimit,
  layerMeans,
  posterOf,
  type Poster as Table,
} from '../poster.js';
import type { ValueDifferences } from '../worker/compare.js';

function percentText(share: number): string {
  return formatPercent(share, 1);
}

/** Shares of one model, by position in the list of the source. */
export interface ModelShares {
  /** NaN where nothing is compared. */
  readonly shares: Float64Array;
  /** All that is known, if values are compared. */
  readonly differences?: ValueDifferences;
}

/** Names of the models in a split cell, from its top. */
const LETTERS = ['a', 'b'] as const;

/** What a poster of shares is of. */
interface SharesOf {
  /** The source with the tensors. */
  readonly source: OpenSource;
  /** One model, or the two that split every cell. */
  readonly models: readonly [ModelShares] | readonly [ModelShares, ModelShares];
  readonly title: string;
  readonly note: string;
  /** Names the file that is saved. */
  readonly name: string;
  readonly sampleNote: string;
  /** What a cell of 0 is. */
  readonly none: string;
}

/** How many tensors of each row differ in both models; empty while one model is unknown. */
function countsInBoth({ rows }: Table, models: readonly ModelShares[]): string[] {
  return rows.map(({ cells }) => {
    const all = cells.flat();
    if (!models.every(({ shares }) => all.some((at) => !Number.isNaN(shares[at])))) return '';
    const differs = ({ shares, differences }: ModelShares, at: number): boolean =>
      ((differences?.differing ?? shares)[at] as number) > 0;
    const inBoth = all.filter((at) => models.every((model) => differs(model, at)));
    return inBoth.length === 0 ? '–' : String(inBoth.length);
  });
}

function picturesOf({ list }: OpenSource, models: SharesOf['models'], dark: boolean) {
  const poster = posterOf(list);
  // A change of one expert is a change of their cell.
  const cells = models.map(({ shares }) => cellMaxima(poster, shares));
  const { limit, isClipped } = colourLimit(cells.flat());
  const isSplit = models.length === 2;
  // Of two models the first has the colours below 0 of a map with two sides.
  const [least, map] = isSplit
    ? [-limit, divergingMap(limit, dark)]
    : [0, sequentialMap(limit, dark)];
  const tops = (cells[0] as Float64Array[]).map((row) =>
    row.reduce((top, value) => Math.max(top, value || 0), 0),
  );
  const pictures = models.map(
    ({ shares, differences }, at): PosterPicture => ({
      ...{ poster, cells: cells[at] as Float64Array[], values: shares, isZeroEmpty: true },
      colourOf: (_, value) => cssColour(map(isSplit && at === 0 ? -value : value)),
      text: (value) => (isSplit ? '' : cellText(100 * value)),
      ends: isSplit
        ? countsInBoth(poster, models)
        : tops.map((top, row) => {
            const tensors = poster.rows[row]?.cells.flat() ?? [];
            return top > 0
              ? fixedPercent(top)
              : (tensors.map((one) => differences && oneSided(differences, one)).find(Boolean) ??
                  '–');
          }),
      endTitle: isSplit ? 'in both' : 'row max',
      markOf: (one) => (differences && isBroken(differences, one) ? 'broken' : null),
    }),
  );
  const [picture, lower] = pictures as [PosterPicture, PosterPicture?];
  const end = `${isClipped ? '≥ ' : ''}${percentText(limit)}`;
  return {
    pictures,
    picture: lower === undefined ? picture : { ...picture, lower },
    colourAt: (place: number) => cssColour(map(least + place * (limit - least))),
    ramp: cssRamp(map, least, limit),
    scale: isSplit ? { from: `a ${end}`, to: `b ${end}` } : { from: '0', to: end },
    means: models.map(({ shares }) => layerMeans(cellValues(poster, shares), poster.layers.length)),
  };
}

/** Shows the poster; nothing where no name has the number of a layer. */
export function SharePoster({ source, models, title, note, name, sampleNote, none }: SharesOf) {
  const { list } = source;
  const dark = useDark();
  const drawn = useMemo(
    () => picturesOf(source, models, dark),
    [source, dark, ...models.map(({ shares }) => shares)],
  );
  const { picture, means } = drawn;
  const { poster } = picture;
  if (poster.rows.length === 0) return null;
  const isSplit = models.length === 2;
  const hasBroken = drawn.pictures.some(({ markOf }) =>
    poster.rows.some(({ cells }) => cells.flat().some(markOf)),
  );
  const inModels = (textOf: (model: number) => string): string =>
    models.map((_, at) => (isSplit ? `${LETTERS[at]} ${textOf(at)}` : textOf(at))).join(', ');
  const describe = ({ row, column }: PosterCell): string => {
    const { role, cells: tensors } = poster.rows[row] as (typeof poster.rows)[number];
    const all = tensors[column] ?? [];
    const [at = 0] = all;
    const label = all.length === 1 ? list.names[at] : role;
    const text = inModels((model) => {
      const { differences } = models[model] as ModelShares;
      const share = drawn.pictures[model]?.cells[row]?.[column] as number;
      if (Number.isNaN(share)) return 'not compared';
      const kind = all.map((one) => differences && oneSided(differences, one)).find(Boolean);
      if (share === 0 && kind) return `${kind} in one only`;
      return `${all.length > 1 && share > 0 ? 'up to ' : ''}${percentText(share)}`;
    });
    return `${label}: ${text}`;
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
          scale: { title: note, ...drawn.scale },
          rampColour: drawn.colourAt,
        }}
        ramp={drawn.ramp}
        describe={describe}
        popover={(cell) => (
          <>
            <p class="mono small strong">{wrapped(describe(cell))}</p>
            <p class="muted small">
              mean of layer {poster.layers[cell.column]}:{' '}
              {inModels((model) => percentText(means[model]?.[cell.column] as number))}
            </p>
          </>
        )}
        onChoose={(at) => go(viewAddress('tensor', { tensor: list.names[at] as string }))}
        legend={
          <>
            <span class="row">
              <span class="key" /> {none}
            </span>
            {hasBroken && (
              <span class="row">
                <span class="key broken" /> NaN or Inf
              </span>
            )}
            {isSplit && (
              <span class="row">
                <span class="key split" /> a above, b below
              </span>
            )}
          </>
        }
      />
    </section>
  );
}
