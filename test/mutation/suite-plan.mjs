/** Plans which test files run with a fault, in which order, and for how long. */

/** Files in the test folder of the source find a fault more often: they run before files that take a tenth as long. */
const OWN_DISCOUNT = 10;

/** A file may take five times as long as without a fault, plus half a minute to start its process on a busy machine. */
const LIMIT_FACTOR = 5;
const START_MS = 30_000;

/** Returns the name of the record with the ids that a test file reaches. */
export function recordName(project, path) {
  return encodeURIComponent(`${project} ${path}`);
}

export function isSameFile(a, b) {
  return a.project === b.project && a.path === b.path;
}

export function limitOf({ ms }) {
  return START_MS + LIMIT_FACTOR * ms;
}

/** Whether a test file is in the test folder of a source. `test/header` is also the folder of `src/header/json`. */
function isOwn(testPath, sourcePath) {
  const folder = testPath.slice('test/'.length, testPath.lastIndexOf('/') + 1);
  return folder !== '' && sourcePath.startsWith(`src/${folder}`);
}

/**
 * Returns the test files that reach a fault, in the order of the projects. Within a project, files of the source's
 * folder and short files come first. The order only affects how soon a failure ends the run.
 */
export function orderFor({ id, path }, files, projects) {
  const rankOf = ({ project }) => projects.indexOf(project);
  const costOf = (file) => file.ms / (isOwn(file.path, path) ? OWN_DISCOUNT : 1);
  return files
    .filter(({ reached, passed }) => passed > 0 && reached.has(id))
    .sort((a, b) => rankOf(a) - rankOf(b) || costOf(a) - costOf(b));
}

/** Sorts faults by the time that they take if nothing fails, so that all lanes finish at the same time. */
export function longestFirst(mutants, files) {
  const costs = new Map(
    mutants.map((mutant) => {
      const order = orderFor(mutant, files, []);
      return [mutant, order.reduce((sum, { ms }) => sum + ms, 0)];
    }),
  );
  return mutants.toSorted((a, b) => costs.get(b) - costs.get(a));
}
