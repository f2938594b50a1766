/** Opening a source: files and folders, addresses, and what the page's server has. */

import { useEffect, useState } from 'preact/hooks';
import { type ChosenFile, type FileGroup, filesOfInput, groupFiles } from '../parts/choose.js';
import { FOREIGN_FILE, filesOfDrop } from '../parts/drop.js';
import { formatBytes } from '../parts/format.js';
import { Failure } from '../parts/messages.js';
import {
  close,
  isElsewhere,
  type Opening,
  type OpenSource,
  openIn,
  type Slot,
  slots,
  typedPlace,
} from '../parts/open-sources.js';
import { type ServedSource, servedSources, serverHeaders, serverToken } from '../parts/served.js';
import { signal, useSignal } from '../parts/signal.js';
import { currentAddress } from '../parts/use-address.js';
import { useCall } from '../parts/use-call.js';
import { isAdapter, LORA } from './lora.js';

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
  base: signal<Found>({ groups: [], problem: null }),
};

/** Why none of the files is a model. Those of other formats are named, with the command that shows them. */
function noModel(files: readonly ChosenFile[]): string {
  const other = files.find(({ path }) => FOREIGN_FILE.test(path));
  if (other === undefined) return 'None of these files ends in .safetensors.';
  const name = other.file.name;
  return `${name} is not a safetensors file. Show it by: npx safetensors-mmap serve "${name}"`;
}

/** Bytes at the beginning of a file that have some of its names. */
const HEAD = 2 ** 16;

/** The place for what is dropped where no place is shown: an adapter is shown next to the model that is open. */
async function placeFor(groups: readonly FileGroup[]): Promise<Slot> {
  const [group] = groups;
  if (groups.length !== 1 || group === undefined || slots.first.value.open === null) return 'first';
  for (const file of group.files.values()) {
    if (LORA.test(await file.slice(0, HEAD).text())) return 'second';
  }
  return 'first';
}

/** Opens the checkpoint among files, or lets people choose when there are several. */
async function take(
  wanted: Slot | null,
  chosen: readonly ChosenFile[] | Promise<readonly ChosenFile[]>,
): Promise<void> {
  let slot = wanted ?? 'first';
  try {
    const files = await chosen;
    const groups = await groupFiles(files);
    slot = wanted ?? (await placeFor(groups));
    const problem = groups.length === 0 ? noModel(files) : null;
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
      const slot = (event.target as Element).closest('[data-slot]')?.getAttribute('data-slot');
      if (event.dataTransfer === null) return;
      void take((slot ?? null) as Slot | null, filesOfDrop(event.dataTransfer));
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
        {...(folder
          ? { webkitdirectory: true }
          : { accept: '.safetensors,.json,.pt,.pth,.bin,.ckpt,.gguf,.npz,.npy,.dduf' })}
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

/** How far opening is, or why it failed: where it was asked for. */
function OpeningState({ slot, opening }: { slot: Slot; opening: Opening }) {
  const { label, failure, progress } = opening;
  if (failure === null) {
    return (
      <p class="row" role="status">
        {progress === null
          ? `Reading headers of ${label} …`
          : `Reading headers of ${label}, ${progress.done} of ${progress.total}`}{' '}
        <button type="button" onClick={() => close(slot)}>
          Cancel
        </button>
      </p>
    );
  }
  return (
    <>
      <Failure error={failure} />
      {failure.needsToken && <TokenField slot={slot} opening={opening} />}
    </>
  );
}

/** The last part of a path, without the ending of a file. */
function modelName(path: string): string {
  const last = path.split(/[/\\]/).findLast((part) => part !== '') ?? '';
  return last.replace(/\.(?:safetensors|gguf|bin|pth?|ckpt)$/, '');
}

/** The only source of a server is opened at first; who closes it sees the list. */
let isFirstList = true;

function Served({ slot, opening }: { slot: Slot; opening: Opening | null }) {
  const [served, setServed] = useState<readonly ServedSource[]>([]);
  const [failure, setFailure] = useState<Error | null>(null);
  const { open: first } = useSignal(slots.first);
  const { result: adapter } = useCall(
    'adapter',
    slot === 'second' && first !== null && isAdapter(first) ? { id: first.id } : null,
  );
  const wanted = modelName(adapter?.baseModel ?? '');
  const base = served.find(({ name }) => wanted !== '' && modelName(name) === wanted)?.name;
  useEffect(() => {
    if (serverToken === null) return;
    servedSources().then((all) => {
      setServed(all);
      const isOnly = slot === 'first' && all.length === 1 && currentAddress().open === undefined;
      if (isOnly && isFirstList) openServed(slot, all[0] as ServedSource);
      isFirstList = false;
    }, setFailure);
  }, []);
  if (failure !== null) return <Failure error={failure} />;
  const choices = served
    .filter(({ name }) => !isElsewhere(slot, name))
    .toSorted((a, b) => Number(b.name === base) - Number(a.name === base));
  if (choices.length === 0) return null;
  return (
    <section class="card">
      <h2>From this server</h2>
      <ul class="choices">
        {choices.map((one) => (
          <li key={one.name}>
            <button type="button" class="quiet" onClick={() => openServed(slot, one)}>
              <span>{one.name}</span> <span class="muted">{formatBytes(one.byteLength)}</span>
            </button>
            {one.name === base && <span class="muted small">The adapter names it as its base</span>}
            {opening?.place.kind === 'served' && opening.place.url === one.url && (
              <OpeningState slot={slot} opening={opening} />
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Served models that the overview offers to compare with; more are in the view for two. */
const MOST_OFFERED = 5;

/** The other models of the server, one click away from a comparison. */
export function CompareWith({ source: { place } }: { source: OpenSource }) {
  const [served, setServed] = useState<readonly ServedSource[]>([]);
  useEffect(() => {
    // Without the list there is nothing to offer.
    if (place.kind === 'served') servedSources().then(setServed, () => {});
  }, [place]);
  const others = served.filter(({ url }) => place.kind === 'served' && url !== place.url);
  if (others.length === 0 || others.length > MOST_OFFERED) return null;
  return (
    <p class="row">
      <span class="muted">Compare with</span>
      {others.map((other) => (
        <button key={other.name} type="button" onClick={() => openServed('second', other)}>
          {other.name}
        </button>
      ))}
    </p>
  );
}

const TITLES: Readonly<Record<Slot, string>> = {
  first: 'Open a checkpoint',
  second: 'Compare with a second model',
  base: 'The base of both models',
};

/** The ways to open a source in a place. */
export function Open({ slot }: { slot: Slot }) {
  const { opening } = useSignal(slots[slot]);
  const { groups, problem } = useSignal(found[slot]);
  const [text, setText] = useState('');
  const ofFiles = opening?.place.kind === 'files' && groups.length === 0 ? opening : null;
  const Heading = slot === 'base' ? 'h3' : 'h2';
  return (
    <div class="start" data-slot={slot}>
      {slot === 'base' ? <h2>{TITLES.base}</h2> : <h1>{TITLES[slot]}</h1>}
      <Served slot={slot} opening={opening} />
      <section class="drop">
        <Heading>
          {slot === 'first' ? 'Drop a checkpoint here' : `Drop the ${slot} checkpoint here`}
        </Heading>
        <p class="muted">
          A .safetensors file, or a folder with an index and its shards. Nothing is uploaded.
        </p>
        <div class="row">
          <Chooser label="Choose files" take={(chosen) => void take(slot, chosen)} />
          <Chooser label="Choose a folder" folder take={(chosen) => void take(slot, chosen)} />
        </div>
        {ofFiles !== null && <OpeningState slot={slot} opening={ofFiles} />}
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
                {opening?.place.kind === 'files' && opening.place.files === group.files && (
                  <OpeningState slot={slot} opening={opening} />
                )}
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
          placeholder="org/name on the Hub, or https://…"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class="main" disabled={text.trim() === ''}>
          Open
        </button>
      </form>
      {opening?.place.kind === 'url' && <OpeningState slot={slot} opening={opening} />}
    </div>
  );
}
