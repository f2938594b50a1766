/** A large model whose headers have arrived: what they show, until the weights are known. */

import { useMemo, useState } from 'preact/hooks';
import { useCanvas } from '../parts/canvas.js';
import { formatBytes, plural } from '../parts/format.js';
import { close, type Opening } from '../parts/open-sources.js';
import { drawPoster, type PosterPicture, posterLayout } from '../parts/poster-picture.js';
import type { Poster } from '../poster.js';
import type { EarlyInfo } from '../worker/early.js';
import { Architecture, Files, Heading } from './overview.js';

/** The cells of a poster without colours, as large as they will be. */
function Outline({ poster }: { poster: Poster }) {
  const [width, setWidth] = useState(0);
  const layout = useMemo(() => posterLayout(poster, width), [poster, width]);
  const picture: PosterPicture = {
    ...{ poster, values: [Number.NaN], isZeroEmpty: false, endTitle: 'row median' },
    cells: poster.rows.map(({ cells }) => new Float64Array(cells.length).fill(Number.NaN)),
    ends: poster.rows.map(() => ''),
    colourOf: () => '',
    text: () => '',
    markOf: () => null,
  };
  const { ref } = useCanvas(
    (context, now) => {
      if (now === width) drawPoster(context, picture, layout, null);
      else setWidth(now);
    },
    layout.height,
    [layout],
  );
  const size = `${plural(poster.rows.length, 'role')} in ${plural(poster.layers.length, 'layer')}`;
  return (
    <div class="poster">
      <canvas ref={ref} role="img" aria-label={`${size}; no values are read yet`} />
    </div>
  );
}

/** The overview as far as it is known. */
export function EarlyOverview({ opening, early }: { opening: Opening; early: EarlyInfo }) {
  const { title, architecture, files, poster } = early;
  const sum = (of: 'byteLength' | 'tensors') => files.reduce((all, one) => all + one[of], 0);
  const [model] = architecture.filter(([label]) => label === 'Model');
  const info = [
    ...(model === undefined ? [] : [model[1]]),
    formatBytes(sum('byteLength')),
    plural(files.length, 'file'),
    plural(sum('tensors'), 'stored tensor'),
  ];
  return (
    <div class="content">
      <header class="row">
        <Heading title={title ?? opening.label} info={info} />
      </header>
      <p class="row" role="status">
        Finding the weights …{' '}
        <button type="button" onClick={() => close('first')}>
          Cancel
        </button>
      </p>
      {poster !== null && poster.rows.length > 0 && (
        <section class="card">
          <div class="row poster-head">
            <h2>Weights by role and layer</h2>
          </div>
          <Outline poster={poster} />
        </section>
      )}
      <div class="cards">
        <Architecture architecture={architecture} />
      </div>
      <Files files={files} noun="weight" />
    </div>
  );
}
