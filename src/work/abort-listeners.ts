/** Listens to an abort signal once for all waiters, because Node 20 warns of more than ten listeners. */

interface Listening {
  readonly callbacks: Set<() => void>;
  readonly listener: () => void;
}

const listenings = new WeakMap<AbortSignal, Listening>();

function listenTo(signal: AbortSignal): Listening {
  const callbacks = new Set<() => void>();
  const listener = (): void => {
    for (const callback of [...callbacks]) callback();
  };
  signal.addEventListener('abort', listener);
  const listening = { callbacks, listener };
  listenings.set(signal, listening);
  return listening;
}

/**
 * Calls back when the signal is aborted. The returned function cancels that; after the last one the signal has no
 * listener.
 */
export function whenAborted(signal: AbortSignal, callback: () => void): () => void {
  const { callbacks } = listenings.get(signal) ?? listenTo(signal);
  // The same function may be given twice.
  const own = (): void => callback();
  callbacks.add(own);
  return () => {
    const listening = listenings.get(signal);
    if (!callbacks.delete(own) || callbacks.size > 0 || listening === undefined) return;
    signal.removeEventListener('abort', listening.listener);
    listenings.delete(signal);
  };
}
