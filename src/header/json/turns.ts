/** Turns of the event loop: for work that would otherwise keep everything else waiting. */

/** Browsers have no \`setImmediate\`; a timer takes them a few milliseconds. */
let provided = (): Promise<void> =>
  new Promise((resolve) => void (globalThis.setImmediate ?? setTimeout)(resolve));

/** Sets what waits for a turn. Node has something that tests with faked timers do not fake. */
export function provideTurns(provider: () => Promise<void>): void {
  provided = provider;
}

/** Gives the event loop a turn. */
export function nextTurn(): Promise<void> {
  return provided();
}

/** The event loop gets a turn after this much work. */
const LONGEST_TURN_MS = 5;

/** When the last turn that somebody waited for began, and the one that is waited for. */
let turnBeganAt = 0;
let waitedFor: Promise<void> | undefined;

/**
 * A turn when work in slices has gone on for long enough; undefined when it may go on. All such work waits for the
 * same turn: each could otherwise fill one of its own length.
 */
export function turnWhenDue(): Promise<void> | undefined {
  if (performance.now() - turnBeganAt < LONGEST_TURN_MS) return undefined;
  waitedFor ??= nextTurn().then(() => {
    waitedFor = undefined;
    turnBeganAt = performance.now();
  });
  return waitedFor;
}
