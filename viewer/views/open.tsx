/** Opening a source: files and folders, addresses, and what the page's server has. */

import { useEffect, useState } from 'preact/hooks';
import { type ChosenFile, type FileGroup, filesOfInput, groupFiles } from '../parts/choose.js';
import { filesOfDrop } from '../parts/drop.js';
import { formatBytes } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import {
  close,
  type Opening,
  openIn,
  type Slot,
  slots,
  typedPlace,
} from '../parts/open-sources.js';
import { type ServedSource, servedSources, serverHeaders, serverToken } from '../parts/served.js';
import { signal, useSignal } from '../parts/signal.js';

function openGroup(slot: Slot, { label, files }: FileGroup): void {
  void openIn(slot, { label, address: null, place: { kind: 'files', files } });
}

/** Opens a source of the page's server. */
export function openServed(slot: Slot, { name, url }: ServedSource): void {
  void openIn(slot, {
    label: name,
    address: name,
    place: { kind: 'served', url, headers: serverHeaders },
  });
}

/** What was found among files that people dropped or chose. */
interface Found {
  /** Checkpoints to choose from, when there are several. */
  readonly groups: readonly FileGroup[];
  readonly problem: string | null;
}

const found = {
  first: signal<Found>({ groups: [], problem: null }),
  second: signal<Found>({ groups: [], problem: null }),
};

/** Opens the checkpoint among files, or lets people choose when there are several. */
async function take(
  slot: Slot,
  chosen: readonly ChosenFile[] | Promise<readonly ChosenFile[]>,
): Promise<void> {
  try {
    const groups = await groupFiles(await chosen);
    const problem = groups.length === 0 ? 'None of these files ends in .safetensors.' : null;
    found[slot].value = { groups: groups.length > 1 ? groups : [], problem };
    if (groups.length === 1) openGroup(slot, groups[0] as FileGroup);
    else close(slot);
  } catch (error) {
    close(slot);
    found[slot].value = { groups: [], problem: `The browser refuses to read this: ${error}` };
  }
}

/** Takes what is dropped anywhere on the page: as the second source on parts that are for it. */
export function useDrop(): void {
  useEffect(() => {
    const mark = (isOver: boolean) => document.body.classList.toggle('dropping', isOver);
    const over = (event: DragEvent) => {
      event.preventDefault();
      mark(true);
    };
    const leave = ({ relatedTarget }: DragEvent) => relatedTarget === null && mark(false);
    const drop = (event: DragEvent) => {
      event.preventDefault();
      mark(false);
      const isSecond = (event.target as Element).closest('[data-slot=second]') !== null;
      if (event.dataTransfer === null) return;
      void take(isSecond ? 'second' : 'first', filesOfDrop(event.dataTransfer));
    };
    addEventListener('dragover', over);
    addEventListener('dragleave', leave);
    addEventListener('drop', drop);
    return () => {
      removeEventListener('dragover', over);
      removeEventListener('dragleave', leave);
      removeEventListener('drop', drop);
    };
  }, []);
}

function Chooser({
  label,
  folder,
  take,
}: {
  label: string;
  folder?: boolean;
  take: (chosen: ChosenFile[]) => void;
}) {
  return (
    <label class="button chooser">
      {label}
      <input
        type="file"
        class="hidden"
        multiple
        {...(folder ? { webkitdirectory: true } : { accept: '.safetensors,.json' })}
        onChange={(event) => take(filesOfInput(event.currentTarget))}
      />
    </label>
  );
}

function TokenField({ slot, opening }: { slot: Slot; opening: Opening }) {
  const [token, setToken] = useState('');
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        void openIn(slot, opening, token.trim());
      }}
    >
      <input
        type="password"
        autocomplete="off"
        aria-label="Token of the Hub"
        placeholder="Token of the Hub: hf_…"
        value={token}
        onInput={(event) => setToken(event.currentTarget.value)}
      />
      <button type="submit" disabled={token.trim() === ''}>
        Try again
      </button>
    </form>
  );
}

function Served({ slot }: { slot: Slot }) {
  const [served, setServed] = useState<readonly ServedSource[]>([]);
  const [failure, setFailure] = useState<Error | null>(null);
  useEffect(() => {
    if (serverToken !== null) servedSources().then(setServed, setFailure);
  }, []);
  if (failure !== null) return <Failure error={failure} />;
  if (served.length === 0) return null;
  return (
    <section class="card">
      <h2>From this server</h2>
      <ul class="choices">
        {served.map((one) => (
          <li key={one.name}>
            <button type="button" class="quiet" onClick={() => openServed(slot, one)}>
              <span>{one.name}</span> <span class="muted">{formatBytes(one.byteLength)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The ways to open a source in a place. */
export function Open({ slot }: { slot: Slot }) {
  const { opening } = useSignal(slots[slot]);
  const { groups, problem } = useSignal(found[slot]);
  const [text, setText] = useState('');
  const isOpening = opening !== null && opening.failure === null;
  return (
    <div class="start" data-slot={slot}>
      <h1>{slot === 'first' ? 'Look at a checkpoint' : 'Compare with a second model'}</h1>
      <Served slot={slot} />
      <section class="drop">
        <h2>{slot === 'first' ? 'Drop a checkpoint here' : 'Drop the second checkpoint here'}</h2>
        <p class="muted">
          A .safetensors file, or a folder with an index and its shards. Nothing is uploaded.
        </p>
        <div class="row">
          <Chooser label="Choose files" take={(chosen) => void take(slot, chosen)} />
          <Chooser label="Choose a folder" folder take={(chosen) => void take(slot, chosen)} />
        </div>
      </section>
      {problem !== null && <Failure error={{ message: problem }} />}
      {groups.length > 0 && (
        <section class="card">
          <h2>Which one?</h2>
          <ul class="choices">
            {groups.map((group) => (
              <li key={group.label}>
                <button type="button" class="quiet" onClick={() => openGroup(slot, group)}>
                  <span>{group.label}</span>{' '}
                  <span class="muted">{formatBytes(group.byteLength)}</span>
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      <form
        class="field"
        onSubmit={(event) => {
          event.preventDefault();
          void openIn(slot, typedPlace(text));
        }}
      >
        <input
          type="text"
          inputMode="url"
          aria-label="Address of a checkpoint"
          placeholder="hf://org/name or https://…/model.safetensors"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class="main" disabled={text.trim() === ''}>
          Open
        </button>
      </form>
      {isOpening && <p role="status">Opening {opening.label} …</p>}
      {opening?.failure && (
        <>
          <Failure error={opening.failure} />
          {opening.failure.needsToken && <TokenField slot={slot} opening={opening} />}
        </>
      )}
    </div>
  );
}
