/** Yields to the event loop during work that would otherwise block it. */

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

/** Sets how to yield. Node's way works in tests with faked timers, too. */
export function provideYield(provider: () => Promise<void>): void {
  provided = provider;
}

/** Resolves after the event loop has run. */
export function yieldNow(): Promise<void> {
  return provided();
}

/** Work yields to the event loop after this time. */
const MAX_BLOCKED_MS = 5;

/** Items between two points at which work may yield: about 0.1 ms, 3 ms before the engine has compiled it. */
export const ITEMS_PER_YIELD = 256;

/**
 * When the work went on after the last yield, and the promise of the next one. By `Date`: the first use of
 * `performance` takes Node most of a millisecond.
 */
let resumedAt = 0;
let pending: Promise<void> | undefined;

/**
 * Returns a promise to wait for once work has run long enough; undefined if it may go on. All work waits for the same
 * promise: otherwise every task could block the event loop for that long, one after the other.
 */
export function yieldIfDue(): Promise<void> | undefined {
  const passed = Date.now() - resumedAt;
  // Negative after the clock was set back.
  if (passed >= 0 && passed < MAX_BLOCKED_MS) return undefined;
  pending ??= yieldNow().then(() => {
    pending = undefined;
    resumedAt = Date.now();
  });
  return pending;
}
