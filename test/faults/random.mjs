// Random numbers that are the same in every run.
import process from 'node:process';

/** Another seed samples other calls and states. */
const SEED = process.env.SAFETENSORS_SEED ?? '';

/** Returns a generator of numbers from 0 to 1 for an operation. */
export function makeRandom({ name }) {
  let state = 1;
  for (const byte of Buffer.from(`${SEED}${name}`)) state = next(state ^ byte);
  return () => {
    state = next(state);
    return state / 2 ** 32;
  };
}

function next(state) {
  return (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
}
