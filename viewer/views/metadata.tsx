/** The metadata of a source, ModelSpec and trainers' data in separate groups. */

import { useState } from 'preact/hooks';
import { Export } from '../parts/export.js';
import { plural } from '../parts/format.js';
import { metadataGroups } from '../parts/format-metadata.js';
import { ScrollBox } from '../parts/scroll-box.js';
import type { Overview } from '../worker/info.js';

/** Rows that are shown before people ask for the others: metadata may have 100 000 keys. */
const FIRST_ROWS = 100;

function Entries({
  title,
  entries,
}: {
  title: string;
  entries: readonly (readonly [string, string])[];
}) {
  const [count, setCount] = useState(FIRST_ROWS);
  return (
    <>
      <ScrollBox label={title}>
        <table class="pairs">
          <thead class="hidden">
            <tr>
              <th>Key</th>
              <th>Value</th>
            </tr>
          </thead>
          <tbody>
            {entries.slice(0, count).map(([key, value]) => (
              <tr key={key}>
                <th scope="row" class="text">
                  {key}
                </th>
                <td class="text">
                  {/* Long values scroll, so people who have no mouse must be able to go there. */}
                  <div class="long" tabIndex={value.length > 600 ? 0 : undefined}>
                    {value}
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollBox>
      {entries.length > count && (
        <button type="button" onClick={() => setCount(count * 10)}>
          Show more of {plural(entries.length, 'key')}
        </button>
      )}
    </>
  );
}

/** All metadata of a source. */
export function Metadata({ overview: { metadata, modelspecProblems } }: { overview: Overview }) {
  const groups = metadataGroups(metadata);
  if (groups.length === 0) return null;
  return (
    <>
      {groups.map(({ title, entries }) => (
        <section key={title} class="card">
          <div class="row">
            <h2 class="grow">{title}</h2>
            <Export name={title} table={{ columns: ['key', 'value'], rows: () => entries }} />
          </div>
          <Entries title={title} entries={entries} />
          {title === 'ModelSpec' && modelspecProblems.length > 0 && (
            <details>
              <summary>{plural(modelspecProblems.length, 'remark')} by the specification</summary>
              <ul class="muted">
                {modelspecProblems.map(({ key, message }) => (
                  <li key={key + message}>
                    <code>{key}</code> {message}
                  </li>
                ))}
              </ul>
            </details>
          )}
        </section>
      ))}
    </>
  );
}
