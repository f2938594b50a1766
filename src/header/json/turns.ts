/** Gives the event loop turns during work that would otherwise block it. */

/** Browsers have no `setImmediate`, and a timer takes them a few milliseconds: there it is a message to oneself. */
let provided = (): Promise<void> =>
  new Promise((resolve) => {
    if (globalThis.setImmediate !== undefined) {
      globalThis.setImmediate(resolve);
      return;
    }
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener('message', () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(null);
  });

/** Sets how to wait for a turn. Node's way survives tests with faked timers. */
export function provideTurns(provider: () => Promise<void>): void {
  provided = provider;
}

/** Gives the event loop a turn. */
export function nextTurn(): Promise<void> {
  return provided();
}

/** The event loop gets a turn after this much work. */
const LONGEST_TURN_MS = 5;

/** When the last turn began, and the promise of the next one. */
let turnBeganAt = 0;
let waitedFor: Promise<void> | undefined;

/**
 * Returns a turn to wait for once work in slices has run long enough; undefined if it may go on. All such work waits
 * for the same turn, else each task could fill a turn of its own.
 */
export function turnWhenDue(): Promise<void> | undefined {
  if (performance.now() - turnBeganAt < LONGEST_TURN_MS) return undefined;
  waitedFor ??= nextTurn().then(() => {
    waitedFor = undefined;
    turnBeganAt = performance.now();
  });
  return waitedFor;
}
