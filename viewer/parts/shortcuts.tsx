/** Keys that work everywhere on the page, and the list of them. */

import { useEffect, useRef, useState } from 'preact/hooks';
import { layerPlace } from '../poster.js';
import { type OpenSource, slots } from './open-sources.js';
import { currentAddress, go, viewAddress } from './use-address.js';

const KEYS: readonly (readonly [keys: string, what: string])[] = [
  ['/ or Ctrl K', 'Search tensors'],
  ['g o, g m, g c', 'Overview, Map, Compare'],
  ['[ and ]', 'The same tensor of the layer before, or after'],
  ['Arrow keys', 'Move in posters, maps, plots and tables'],
  ['Enter', 'Open the tensor'],
  ['Backspace', 'Zoom out of the map'],
  ['+, − and 0', 'Zoom the heat map'],
  ['e', 'Export menu of the first card'],
  ['?', 'This list'],
];

const VIEWS: Readonly<Record<string, string>> = { o: 'overview', m: 'map', c: 'compare' };

/** The tensor of the same role in another layer. */
function inLayer({ list }: OpenSource, name: string, by: number): string | undefined {
  const { role, layer } = layerPlace(name);
  if (layer === null) return undefined;
  // Numbers after that of the layer, such as those of experts, stay.
  const begin = role.indexOf('*');
  const wanted = `${name.slice(0, begin)}${layer + by}${name.slice(begin + String(layer).length)}`;
  return list.names.find((one) => one === wanted);
}

function search(): void {
  const field = () => document.querySelector<HTMLInputElement>('#search');
  // On a narrow screen the list is a view.
  if (field()?.checkVisibility() !== true) go(viewAddress('tensors'));
  setTimeout(() => field()?.focus());
}

function isTyping(target: EventTarget | null): boolean {
  return (target as Element).closest('input, select, textarea, dialog') !== null;
}

/** Listens to the keys; shows the list of them for `?` and for its button. */
export function Shortcuts() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isEnabled, setEnabled] = useState(true);
  useEffect(() => {
    let before = '';
    const keyDown = (event: KeyboardEvent) => {
      const { key, ctrlKey, metaKey, altKey, target } = event;
      const source = slots.first.value.open;
      if (key === 'k' && (ctrlKey || metaKey) && source !== null) {
        event.preventDefault();
        search();
        return;
      }
      if (!isEnabled || ctrlKey || metaKey || altKey || event.defaultPrevented || isTyping(target))
        return;
      const last = before;
      before = key;
      const step = key === '[' ? -1 : key === ']' ? 1 : 0;
      if (key === '?') dialog.current?.showModal();
      else if (source === null) return;
      else if (key === '/') search();
      else if (key === 'e') document.querySelector<HTMLElement>('.view .menu > summary')?.click();
      else if (last === 'g' && VIEWS[key] !== undefined) go(viewAddress(VIEWS[key]));
      else if (step !== 0) {
        const { tensor } = currentAddress();
        const next = tensor === undefined ? undefined : inLayer(source, tensor, step);
        if (next !== undefined) go(viewAddress('tensor', { tensor: next }));
      } else return;
      event.preventDefault();
    };
    addEventListener('keydown', keyDown);
    return () => removeEventListener('keydown', keyDown);
  }, [isEnabled]);
  return (
    <>
      <button
        type="button"
        class="quiet"
        aria-label="Keyboard"
        title="Keyboard"
        onClick={() => dialog.current?.showModal()}
      >
        ?
      </button>
      <dialog ref={dialog} aria-labelledby="keyboard">
        <h2 id="keyboard">Keyboard</h2>
        <dl class="lines">
          {KEYS.map(([keys, what]) => (
            <div key={keys}>
              <dt>{what}</dt>
              <dd>{keys}</dd>
            </div>
          ))}
        </dl>
        <label class="row">
          <input
            type="checkbox"
            checked={isEnabled}
            onChange={({ currentTarget }) => setEnabled(currentTarget.checked)}
          />
          Keys of one letter
        </label>
        <form method="dialog">
          <button type="submit">Close the list</button>
        </form>
      </dialog>
    </>
  );
}
