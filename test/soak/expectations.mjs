/** Which errors are the right answer to what was done; every other one fails the soak. */
import assert from 'node:assert';

/** The code of an error; of an abort, whose code is a number, its name. */
function codeOf(error) {
  return error?.name === 'AbortError' ? 'AbortError' : error?.code;
}

/** What `act` gives; undefined when it fails with one of these codes. */
export async function mayFail(codes, act) {
  try {
    return await act();
  } catch (error) {
    if (!codes.includes(codeOf(error))) throw error;
    return undefined;
  }
}

/** Fails unless `act` fails with one of these codes. */
export async function mustFail(codes, act) {
  try {
    await act();
  } catch (error) {
    if (codes.includes(codeOf(error))) return;
    throw error;
  }
  assert.fail(`no error, where ${codes.join(' or ')} was expected`);
}

/**
 * Runs `act` with a signal that aborts after some milliseconds, and says whether it came to its end first:
 * the only other end is the abort, or one of `codes`.
 */
export async function aborted(ms, act, codes = []) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), ms);
  try {
    await act(controller.signal);
    return false;
  } catch (error) {
    if (codeOf(error) !== 'AbortError' && !codes.includes(codeOf(error))) throw error;
    assert(controller.signal.aborted || codes.includes(codeOf(error)), 'an abort of nobody');
    return true;
  } finally {
    clearTimeout(timer);
  }
}
