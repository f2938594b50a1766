/** The pairs of a LoRA adapter, and its base. */

import { formatInteger, formatPercent, plural, shortNumber } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import type { OpenSource } from '../parts/open-sources.js';
import { SaveTable } from '../parts/save.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { viewAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';

/** A name of one of the two matrices of a pair. */
const ADAPTER = /\.lora_(?:A|B|down|up)\b|[._]lora\.(?:down|up)\./;

function isAdapter({ list }: OpenSource): boolean {
  return list.names.some((name) => ADAPTER.test(name));
}

/** The adapter of two sources, if one of them is one, with the other as its base. */
export function Lora({ source, second }: { source: OpenSource; second: OpenSource }) {
  const [adapter, base] = isAdapter(second)
    ? [second, source]
    : isAdapter(source)
      ? [source, second]
      : [null, null];
  const {
    result: pairs,
    failure,
    isRunning,
  } = useCall('lora', adapter === null ? null : { id: adapter.id, base: base.id });
  if (adapter === null) return null;
  const most = pairs?.reduce((top, { relative, norm }) => Math.max(top, relative ?? norm), 0) ?? 0;
  const rows = () =>
    pairs?.map(({ target, rank, alpha, scale, norm, base: found, relative }) => [
      target,
      rank,
      alpha,
      scale,
      norm,
      found,
      relative,
    ]) ?? [];
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">LoRA: {pairs === null ? adapter.label : plural(pairs.length, 'pair')}</h2>
        <SaveTable
          name="pairs"
          columns={['target', 'rank', 'alpha', 'scale', 'norm', 'base', 'relative']}
          rows={rows}
        />
      </div>
      {isRunning && <p role="status">Reading pairs …</p>}
      {failure !== null && <Failure error={failure} />}
      {pairs !== null && (
        <>
          <p class="muted small">
            The norm is ‖up · down‖ times the scale, from adapter_config.json or alpha in the file.
            The share is that of the norm of the base's weight, of which a sample is read; there is
            none where the scale is unknown.
          </p>
          <ScrollBox label="Pairs" height="tall">
            <table>
              <thead>
                <tr>
                  <th>Target</th>
                  <th class="number">Rank</th>
                  <th class="number">Norm</th>
                  <th class="number">Of the base</th>
                  <th>
                    <span class="hidden">Size</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {pairs.map(({ target, rank, norm, base: found, relative }) => (
                  <tr key={target}>
                    <td class="text mono small">
                      {found !== null && base === source ? (
                        <a href={viewAddress('tensor', { tensor: found })}>{target}</a>
                      ) : (
                        target
                      )}
                    </td>
                    <td class="number">{formatInteger(rank)}</td>
                    <td class="number">{shortNumber(norm)}</td>
                    <td class="number">{relative === null ? '–' : formatPercent(relative, 1)}</td>
                    <td class="share">
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
