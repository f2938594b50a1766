/** A test suite in a tree with faults. A lane is a copy of the tree in which one process at a time runs tests. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isSameFile, limitOf, recordName } from './suite-plan.mjs';
import { runFiles } from './suite-process.mjs';

/** No test file takes this long without a fault. */
const PATIENCE_MS = 600_000;

const onlyId = ({ project, path }) => ({ project, path });

/** Whether a file has failures that it had not before. */
function hasNewFailure({ failed, isBroken }, before) {
  const known = new Set(before.failed.map(({ id }) => id));
  return (isBroken && !before.isBroken) || failed.some(({ id }) => !known.has(id));
}

export class Suite {
  #selection;
  #log;

  /** `config` is the path of the Vitest config, `projects` are those that are run; all of them if empty. */
  constructor({ config, projects, log }) {
    this.#selection = { config, projects: projects.length === 0 ? undefined : projects };
    this.#log = log;
  }

  /** Runs the suite without a fault. Returns its files with the ids that each one reaches. */
  async cover(lane, records) {
    mkdirSync(records);
    const files = [];
    const { ended, output } = await runFiles({
      lane,
      job: { ...this.#selection, isRecording: true },
      env: { MUTATION_RECORDS: records },
      limitOf: () => PATIENCE_MS,
      onMessage: (message) => {
        if (message.ended !== undefined) files.push(message.ended);
        if (message.errors !== undefined) this.#log(`errors outside of tests: ${message.errors}`);
        return undefined;
      },
    });
    if (ended !== 'done') throw new Error(`the suite failed without a fault: ${ended}\n${output}`);
    for (const file of files) {
      const record = join(records, recordName(file.project, file.path));
      const ids = existsSync(record) ? readFileSync(record, 'utf8').trim().split('\n') : [];
      file.reached = new Set(ids.map(Number));
    }
    await this.#settle(lane, files);
    return files;
  }

  /** Repeats files with failures, without records. The tests that still fail don't count for any fault. */
  async #settle(lane, files) {
    for (const file of files.filter(({ failed, isBroken }) => failed.length > 0 || isBroken)) {
      const again = await this.#repeat(lane, file);
      Object.assign(file, again ?? { passed: 0, isBroken: true });
      const names = file.isBroken
        ? [file.path]
        : file.failed.map(({ name }) => `${file.path}: ${name}`);
      for (const name of names) this.#log(`fails without a fault: ${name}`);
    }
  }

  /** Runs a file without a fault, or the test of it with the id `only`. Returns undefined if it doesn't end. */
  async #repeat(lane, file, only) {
    let result;
    const { ended } = await runFiles({
      lane,
      job: { ...this.#selection, files: [{ ...onlyId(file), only }] },
      env: {},
      limitOf: () => limitOf(file),
      onMessage: (message) => {
        result = message.ended ?? result;
        return message.errors === undefined ? undefined : 'errors';
      },
    });
    return ended === 'done' ? result : undefined;
  }

  /**
   * Runs files in their order until one fails. A failure only counts if it doesn't occur without the fault: another
   * process may have caused it.
   */
  async judge(lane, id, order) {
    const began = Date.now();
    const unreliable = [];
    let killedBy;
    for (let rest = order; rest.length > 0 && killedBy === undefined; ) {
      const failure = await this.#firstFailure(lane, id, rest, unreliable);
      if (failure === undefined) break;
      const at = rest.findIndex((file) => isSameFile(file, failure));
      const again = await this.#repeat(lane, rest[at], failure.id);
      if (again?.passed > 0 && !hasNewFailure(again, rest[at])) killedBy = failure;
      else {
        unreliable.push(failure);
        this.#log(`fails without the fault, too: ${failure.path}: ${failure.name ?? failure.how}`);
        rest = rest.slice(failure.id === undefined ? at + 1 : at);
      }
    }
    const seconds = Math.round((Date.now() - began) / 1000);
    return { reachedBy: order.length, killedBy, unreliable, seconds };
  }

  async #firstFailure(lane, id, order, unreliable) {
    let current;
    const { ended, output } = await runFiles({
      lane,
      job: { ...this.#selection, files: order.map(onlyId) },
      env: { MUTATION_ACTIVE: `${id}` },
      limitOf: ({ began }) => {
        if (began === undefined) return undefined;
        current = order.find((file) => isSameFile(file, began));
        return limitOf(current);
      },
      onMessage: ({ failed, ended: file, errors }) => {
        if (current === undefined) return undefined;
        const known = [...current.failed, ...unreliable];
        if (failed !== undefined && !known.some((test) => test.id === failed.id)) {
          return { ...failed, how: 'a test' };
        }
        if (file?.isBroken && !current.isBroken) return { ...onlyId(current), how: 'a hook' };
        if (errors !== undefined) return { ...onlyId(current), how: `errors: ${errors}` };
        return undefined;
      },
    });
    if (ended === 'done') return undefined;
    if (typeof ended === 'object') return ended;
    if (current === undefined) throw new Error(`no test file starts: ${ended}\n${output}`);
    return { ...onlyId(current), how: ended };
  }
}
