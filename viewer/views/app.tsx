/** The page: what is open, and the view that its address names. */

import { useState } from 'preact/hooks';
import { call } from '../client.js';
import type { Overview, TensorList } from '../worker/facts.js';

export function App() {
  const [open, setOpen] = useState<{ overview: Overview; list: TensorList } | null>(null);
  const [failure, setFailure] = useState('');
  const show = async (files: readonly File[]) => {
    try {
      const { id, overview } = await call('open', { place: { kind: 'files', files }, token: null });
      setOpen({ overview, list: await call('list', { id }) });
    } catch (error) {
      setFailure((error as Error).message);
    }
  };
  return (
    <main
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void show([...(event.dataTransfer?.files ?? [])]);
      }}
    >
      <label>
        Open a file{' '}
        <input
          type="file"
          onChange={(event) => void show([...(event.currentTarget.files ?? [])])}
        />
      </label>
      <p role="alert">{failure}</p>
      {open !== null && (
        <>
          <h1>{open.overview.path}</h1>
          <ul>
            {open.list.names.slice(0, 1000).map((name, at) => (
              <li key={name}>
                {name} {open.list.kinds[open.list.kind[at] as number]} {open.list.shapes[at]}
              </li>
            ))}
          </ul>
        </>
      )}
    </main>
  );
}
