/** The keys of `config.json` that differ between two models. */

import { Export } from '../parts/export.js';
import { formatInteger, plural } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import { wrapped } from '../parts/name.js';
import type { OpenSource } from '../parts/open-sources.js';
import { ScrollBox } from '../parts/scroll-box.js';
import { useCall } from '../parts/use-call.js';
import type { ConfigValue } from '../worker/config.js';

function Value({ value }: { value: ConfigValue | null }) {
  return (
    <td class="value mono">
      {value === null ? <span class="muted">not set</span> : wrapped(value.excerpt)}
    </td>
  );
}

/** Shows the table; nothing unless both models have a configuration. */
export function ConfigTable({ source, second }: { source: OpenSource; second: OpenSource }) {
  const { result, failure } = useCall('config', { id: source.id, other: second.id });
  if (failure !== null) {
    return (
      <section class="card">
        <h2>Configuration</h2>
        <Failure error={failure} />
      </section>
    );
  }
  if (result === null) return null;
  const { rows, differing, same } = result;
  return (
    <section class="card">
      <div class="row">
        <h2 class="grow">Configuration</h2>
        {rows.length > 0 && (
          <Export
            name="differences of config.json"
            table={{
              columns: ['key', 'a', 'b'],
              rows: () =>
                rows.map(({ key, before, after }) => [key, before?.json ?? '', after?.json ?? '']),
            }}
          />
        )}
      </div>
      {rows.length === 0 ? (
        <p class="muted">{plural(same, 'key')}, all with the same values.</p>
      ) : (
        <>
          <ScrollBox label="Keys that differ" height="tall">
            <table>
              <thead>
                <tr>
                  <th>config.json</th>
                  <th>a</th>
                  <th>b</th>
                </tr>
              </thead>
              <tbody>
                {rows.map(({ key, before, after }, at) => (
                  <tr key={at}>
                    <td class="text mono">{wrapped(key)}</td>
                    <Value value={before} />
                    <Value value={after} />
                  </tr>
                ))}
              </tbody>
            </table>
          </ScrollBox>
          <p class="muted small">
            {rows.length < differing &&
              `The first ${rows.length} of ${formatInteger(differing)} keys that differ. `}
            {plural(same, 'other key')} with the same {same === 1 ? 'value' : 'values'}. a is{' '}
            {source.label}, b is {second.label}.
          </p>
        </>
      )}
    </section>
  );
}
