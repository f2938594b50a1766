/** What is open: up to three sources, each from its address or from files, with its state for the page. */

import { formatAddress, sourceAddress } from '../address.js';
import { CallError, call } from '../client.js';
import type { Overview, TensorList } from '../worker/info.js';
import type { OpenProgress, Place, SourceId } from '../worker/sources.js';
import { beginFreeSample } from './sample.js';
import { signal } from './signal.js';
import { addressWith, currentAddress, go, viewAddress } from './use-address.js';

/** The place of a source: the first, the one to compare it with, or the base of both. */
export type Slot = 'first' | 'second' | 'base';

/** An open source. */
export interface OpenSource {
  readonly id: SourceId;
  /** What people call it. */
  readonly label: string;
  readonly place: Place;
  /** What it is in an address; null for files, which no address can name. */
  readonly address: string | null;
  readonly overview: Overview;
  readonly list: TensorList;
  /** Positions in the list. */
  readonly at: ReadonlyMap<string, number>;
}

/** A source that is being opened, or failed to open. */
export interface Opening {
  readonly label: string;
  readonly place: Place;
  readonly address: string | null;
  readonly failure: CallError | null;
  /** Headers that have arrived; null before the first. */
  readonly progress: OpenProgress | null;
}

/** A source that can be opened. */
export type Source = Omit<Opening, 'failure' | 'progress'>;

/** What the list of a source counts: weights, where several stored tensors make up one. */
export function countedNoun({ tensors, storedTensors }: Overview): 'tensor' | 'weight' {
  return tensors === storedTensors ? 'tensor' : 'weight';
}

/** The state of a place. */
interface SlotState {
  readonly open: OpenSource | null;
  readonly opening: Opening | null;
}

export const slots = {
  first: signal<SlotState>({ open: null, opening: null }),
  second: signal<SlotState>({ open: null, opening: null }),
  base: signal<SlotState>({ open: null, opening: null }),
};

const SLOTS = ['first', 'second', 'base'] as const;
const ADDRESS_NAMES = { first: 'open', second: 'with', base: 'base' } as const;

const controllers: Partial<Record<Slot, AbortController>> = {};

/** The address of what is in a place, or being opened there; null for files and for nothing. */
function addressIn(slot: Slot): string | null {
  const { open, opening } = slots[slot].value;
  return (open ?? opening)?.address ?? null;
}

/** Whether an address is open in another place: no model is compared with itself. */
export function isElsewhere(slot: Slot, address: string | null): boolean {
  return address !== null && SLOTS.some((other) => other !== slot && addressIn(other) === address);
}

/** What opening a source changes in the address, unless the address names it already. */
function openedAddress(slot: Slot, address: string | undefined): string {
  const name = ADDRESS_NAMES[slot];
  if (address !== undefined && currentAddress()[name] === address) return location.hash;
  if (slot === 'first') return addressWith({ open: address, with: undefined, base: undefined });
  // One step in the browser's history, from whichever view.
  return slot === 'second'
    ? viewAddress('compare', { with: address })
    : addressWith({ base: address });
}

/** Opens a source in a place, instead of what is there. The token is for the Hub, and is not kept. */
export async function openIn(slot: Slot, what: Source, token: string | null = null): Promise<void> {
  const state = slots[slot];
  end(slot);
  const controller = new AbortController();
  controllers[slot] = controller;
  const opening = { ...what, failure: null, progress: null };
  if (isElsewhere(slot, what.address)) {
    const message = `${what.label} is open already. Choose another model.`;
    const failure = new CallError({ code: null, message, advice: null, needsToken: false });
    state.value = { open: null, opening: { ...opening, failure } };
    return;
  }
  state.value = { open: null, opening };
  // Back leads to what was open before; an address that opened by itself is no step.
  go(openedAddress(slot, what.address ?? undefined));
  try {
    const { signal: own } = controller;
    const args = { place: what.place, token };
    const { id, overview, list } = await call('open', args, {
      signal: own,
      onProgress: (progress) => {
        state.value = { open: null, opening: { ...opening, progress } };
      },
    });
    let at: ReadonlyMap<string, number> | undefined;
    const open: OpenSource = {
      ...{ id, ...what, overview, list },
      get at() {
        at ??= new Map(list.names.map((name, position) => [name, position]));
        return at;
      },
    };
    // Before the page is drawn: the worker requests the sample meanwhile.
    const { tensor, view = 'overview' } = currentAddress();
    if (slot === 'first' && tensor === undefined && view === 'overview') beginFreeSample(open);
    state.value = { open, opening: null };
  } catch (error) {
    if (controller.signal.aborted) return;
    state.value = { open: null, opening: { ...opening, failure: error as CallError } };
  }
}

/** Closes what is in a place, or gives up opening it, and takes it from the address. */
export function close(slot: Slot): void {
  end(slot);
  // A base is that of two models.
  if (slot === 'second') end('base');
  const { sort } = currentAddress();
  const hash =
    slot === 'first'
      ? formatAddress(sort === undefined ? {} : { sort })
      : addressWith({ base: undefined, ...(slot === 'second' && { with: undefined }) });
  go(hash, { replace: true });
}

/** Closes what is in a place, and with the first what it is compared with. */
function end(slot: Slot): void {
  if (slot === 'first') for (const other of ['second', 'base'] as const) end(other);
  controllers[slot]?.abort();
  const { open } = slots[slot].value;
  if (open !== null) void call('close', { id: open.id });
  slots[slot].value = { open: null, opening: null };
}

/** Opens and closes sources until they are those of the address, which Back and Forward change. */
export function followAddress(openNamed: (slot: Slot, name: string) => void): void {
  for (const slot of SLOTS) {
    const name = currentAddress()[ADDRESS_NAMES[slot]];
    if (name === (addressIn(slot) ?? undefined)) continue;
    if (name === undefined) end(slot);
    else openNamed(slot, name);
  }
}

/** What an address of people means as a source. */
export function typedPlace(text: string): Source {
  const url = sourceAddress(text);
  return { label: url, address: url, place: { kind: 'url', url } };
}
