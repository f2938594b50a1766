/** Waits for promises that must settle. */
import { Problem } from './target.js';

/** A promise that takes longer is one that never settles. */
const MAX_SECONDS = 20;

/**
 * The promise's result; throws when it never settles. Seconds are counted, since the process may be stopped for a
 * while.
 */
export async function settled<Value>(promise: Promise<Value>, about: string): Promise<Value> {
  let watch: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    let seconds = 0;
    watch = setInterval(() => {
      if (++seconds > MAX_SECONDS) reject(new Problem(`${about} never settles`));
    }, 1000);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearInterval(watch);
  }
}
