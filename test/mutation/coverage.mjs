/** Which tests can notice a mutant, and in which order they are asked. */

/** Tests that take longer are left out. */
const SLOW_MS = 1000;

/** All tests of one mutant together. */
const BUDGET_MS = 2000;

/** Fast tests of all files come first. */
const QUICK_MS = 30;

/** Reads the runner's record of a run without a fault. */
export function coverageOf(entries) {
  const files = new Map();
  const fileOf = (path) => {
    if (!files.has(path))
      files.set(path, { path, tests: [], shared: new Map(), loading: new Set() });
    return files.get(path);
  };
  for (const { path, loading, hooks, isBroken, ...test } of entries) {
    const file = fileOf(path);
    if (isBroken) throw new Error(`${path} cannot be loaded`);
    if (loading !== undefined) for (const [id] of loading) file.loading.add(id);
    else if (hooks !== undefined) for (const [id, times] of hooks) add(file.shared, id, times);
    else file.tests.push({ ...test, path, reached: new Map(test.reached) });
  }
  return [...files.values()];
}

function add(counts, id, times) {
  counts.set(id, (counts.get(id) ?? 0) + times);
}

export const isUsable = ({ state, ms }) => state === 'pass' && ms <= SLOW_MS;

/** The tests that can notice a mutant, the fastest first. */
function testsFor(ids, files) {
  const tests = files.flatMap(({ shared, tests: own }) => {
    const isShared = ids.some((id) => shared.has(id));
    return own.filter(
      (test) => isUsable(test) && (isShared || ids.some((id) => test.reached.has(id))),
    );
  });
  tests.sort((a, b) => a.ms - b.ms);
  let sum = 0;
  const end = tests.findIndex(({ ms }) => {
    sum += ms;
    return sum > BUDGET_MS;
  });
  return end === -1 ? tests : tests.slice(0, end);
}

function timesOf(id, { shared, tests }) {
  const own = tests.map(({ reached }) => reached.get(id) ?? 0);
  return own.reduce((sum, times) => sum + times, shared.get(id) ?? 0);
}

/** Tests by file, in the order in which they are run. */
function roundsOf(tests) {
  const rounds = new Map();
  for (const { path, index, ms } of tests) {
    const key = `${ms <= QUICK_MS} ${path}`;
    if (!rounds.has(key)) rounds.set(key, { path, indexes: [] });
    rounds.get(key).indexes.push(index);
  }
  return [...rounds.values()];
}

/**
 * How a mutant is run: `rounds` of tests, and `limit`, how often it may be reached. Code that runs while modules load
 * has run without the fault: then `alone` are the rounds of a separate process, with all tests that come to its
 * file, for which `siblings` are the ids of all mutants there.
 */
export function planOf(id, files, siblings) {
  const isBefore = files.some(({ loading, shared }) => loading.has(id) || shared.has(id));
  const times = files.reduce((sum, file) => sum + timesOf(id, file), 0);
  return {
    id,
    limit: 10 * times + 100_000,
    rounds: roundsOf(testsFor([id], files)),
    alone: isBefore ? roundsOf(testsFor(siblings, files)) : undefined,
  };
}
