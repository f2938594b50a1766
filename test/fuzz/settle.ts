/** Waits for promises that must settle. */
import { setTimeout as after } from 'node:timers/promises';
import { Problem } from './target.js';

/** A promise that takes longer, in milliseconds, is one that never settles. */
const MAX_MILLISECONDS = 20_000;

/** What the promise gives; throws when it never does. */
export async function settled<Value>(promise: Promise<Value>, about: string): Promise<Value> {
  const alarm = new AbortController();
  const late = after(MAX_MILLISECONDS, undefined, { signal: alarm.signal }).then(() => {
    throw new Problem(`${about} never settles`);
  });
  late.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    alarm.abort();
  }
}
