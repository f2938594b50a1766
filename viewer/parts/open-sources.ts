/** What is open: up to three sources, each from its address or from files, with its state for the page. */

import { sourceAddress } from '../address.js';
import { type CallError, call } from '../client.js';
import type { Overview, TensorList } from '../worker/info.js';
import type { OpenProgress, Place, SourceId } from '../worker/sources.js';
import { beginFreeSample } from './sample.js';
import { signal } from './signal.js';
import { addressWith, currentAddress, go } from './use-address.js';

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

const ADDRESS_NAMES = { first: 'open', second: 'with', base: 'base' } as const;

const controllers: Partial<Record<Slot, AbortController>> = {};

/** Opens a source in a place, instead of what is there. The token is for the Hub, and is not kept. */
export async function openIn(slot: Slot, what: Source, token: string | null = null): Promise<void> {
  const state = slots[slot];
  end(slot);
  const controller = new AbortController();
  controllers[slot] = controller;
  const opening = { ...what, failure: null, progress: null };
  state.value = { open: null, opening };
  // Back leads to what was open before; an address that opened by itself is no step.
  const name = ADDRESS_NAMES[slot];
  const replace = currentAddress()[name] === (what.address ?? undefined);
  go(addressWith({ [name]: what.address ?? undefined }), { replace });
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
  const gone = { tensor: undefined, slice: undefined, find: undefined, view: undefined };
  const changes = { [ADDRESS_NAMES[slot]]: undefined, ...(slot === 'first' ? gone : {}) };
  go(addressWith(changes), { replace: true });
}

/** Closes what is in a place, whose address is gone already. */
export function end(slot: Slot): void {
  controllers[slot]?.abort();
  const { open } = slots[slot].value;
  if (open !== null) void call('close', { id: open.id });
  slots[slot].value = { open: null, opening: null };
}

/** What an address of people means as a source. */
export function typedPlace(text: string): Source {
  const url = sourceAddress(text);
  return { label: url, address: url, place: { kind: 'url', url } };
}
