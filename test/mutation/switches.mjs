/** The switches of the faults in a whole tree: every process, bundle and browser of it evaluates this code. */

/**
 * Creates the switches. Stringified into each source with faults, so it refers to nothing outside.
 *
 * MUTATION_ACTIVE is the id of the active fault. Child processes and worker threads inherit it; a child with an
 * environment that a test writes from scratch runs without a fault. MUTATION_REACHED is the file for the ids that a
 * run without a fault reaches.
 */
export function createSwitches(process) {
  const { MUTATION_ACTIVE, MUTATION_REACHED } = process?.env ?? {};
  if (MUTATION_REACHED === undefined) {
    const active = Number(MUTATION_ACTIVE ?? -1);
    const isActive = (id) => id === active;
    return { at: isActive, isActive, compare: (_, value) => value };
  }
  const reached = new Set();
  const { appendFileSync } = process.getBuiltinModule('node:fs');
  const reach = (id) => {
    if (reached.has(id)) return;
    reached.add(id);
    // At once, since tests kill processes.
    appendFileSync(MUTATION_REACHED, `${id}\n`);
  };
  const differs = (value, other) => {
    if (typeof other === 'boolean') return Boolean(value) !== other;
    try {
      return !Object.is(value, other());
    } catch {
      return true;
    }
  };
  return {
    at(id) {
      reach(id);
      return false;
    },
    isActive: () => false,
    compare(id, value, other) {
      if (!reached.has(id) && differs(value, other)) reach(id);
      return value;
    },
  };
}

/** The statement that comes before all others of a source with faults. */
const PRELUDE = `globalThis.__faults ??= (${createSwitches})(globalThis.process);`.replace(
  /\n\s*(?:\/\/.*)?/g,
  ' ',
);

/** Switches narrow no types, so the compiler gets a file that it must not check. */
export function withPrelude(text) {
  const [line] = /^#!.*\n|/.exec(text);
  return `${line}// @ts-nocheck\n${PRELUDE}${text.slice(line.length)}`;
}
