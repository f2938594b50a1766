/** The errors that an operation may end with; any other error fails the soak. */
import assert from 'node:assert';

/** The code of an error; of an abort, whose code is a number, its name. */
function codeOf(error) {
  return error?.name === 'AbortError' ? 'AbortError' : error?.code;
}

/** The result of `act`; undefined when it fails with one of these codes. */
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
 * Runs `act` with a signal that aborts after some milliseconds, and returns whether it completed first: otherwise it
 * must end with the abort, or one of `codes`.
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
