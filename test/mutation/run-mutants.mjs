/**
 * A runner for vitest, in the process of the tests. Without mutants it writes which test reaches which; with mutants
 * it runs those tests for one after the other, without loading anything again. MUTATION_JOB is the path of the job, a
 * JSON file.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { TestRunner } from 'vitest';

/** Tests leave memory behind; beyond this the process makes directory for a new one. */
const FULL_BYTES = 1.5 * 2 ** 30;

/** Without a fault, the tests of a file are left out after this time. */
const FILE_MS = 60_000;

const job = JSON.parse(readFileSync(process.env.MUTATION_JOB, 'utf8'));

function note(entry) {
  appendFileSync(job.log, `${JSON.stringify(entry)}\n`);
}

note({ pid: process.pid });

/** The switches of the mutants. */
const faults = {
  active: job.alone ?? -1,
  reached: new Uint32Array(job.mutantCount),
  limit: job.alone === undefined ? Infinity : job.mutants[0].limit,
  isNoticed: false,

  at(id) {
    const times = ++this.reached[id];
    if (id !== this.active) return false;
    if (times > this.limit) {
      this.isNoticed = true;
      throw new Error('a fault makes this run forever');
    }
    return true;
  },

  set(id, limit) {
    this.active = id;
    this.limit = limit;
    this.isNoticed = false;
    this.reached.fill(0);
  },

  /** Which were reached since the last call, and how often. */
  take() {
    const pairs = [...this.reached.entries()].filter(([, times]) => times > 0);
    this.reached.fill(0);
    return pairs;
  },
};
globalThis.__faults = faults;

const noticed = () => {
  faults.isNoticed = true;
};
process.on('unhandledRejection', noticed);
process.on('uncaughtException', noticed);

function* tasksOf(suite) {
  for (const task of suite.tasks) {
    yield task;
    if (task.type === 'suite') yield* tasksOf(task);
  }
}

const testsOf = (file) => [...tasksOf(file)].filter(({ type }) => type === 'test');

/** The files of tests so far, with all of their tasks: vitest makes a runner for each file. */
const loaded = new Map();
const modes = new Map();

export default class MutationRunner extends TestRunner {
  #began = 0;
  #testBegan = 0;
  #cpu;

  /** Helpers of tests are loaded for each file: their hooks are for the file that loads them. */
  importFile(path, source) {
    const { evaluatedModules } = this.workerState;
    for (const module of evaluatedModules.idToModuleMap.values()) {
      if (module.id.includes('/test/')) evaluatedModules.invalidateModule(module);
    }
    return super.importFile(path, source);
  }

  async onBeforeRunFiles(files) {
    this.#began = performance.now();
    const [file] = files;
    const path = file.filepath;
    loaded.set(path, file);
    // Nobody looks at them.
    this.onTaskUpdate = () => Promise.resolve();
    for (const task of tasksOf(file)) {
      // Reached mutants are attributed to one test at a time.
      delete task.concurrent;
      modes.set(task, task.mode);
    }
    modes.set(file, file.mode);
    if (job.mutants === undefined) {
      note({ path, loading: faults.take(), isBroken: file.result?.state === 'fail' });
    } else {
      note({ path });
      const isLast = loaded.size === job.files;
      files[Symbol.iterator] = isLast ? () => this.#rounds() : [][Symbol.iterator];
    }
  }

  /** Time of the test: that of the processor, or a part of all where it waits. A busy machine changes little of it. */
  #milliseconds() {
    const { user, system } = process.cpuUsage(this.#cpu);
    return Math.max((user + system) / 1000, (performance.now() - this.#testBegan) / 5);
  }

  onBeforeRunTask(test) {
    this.#cpu = process.cpuUsage();
    this.#testBegan = performance.now();
    if (job.mutants === undefined) {
      note({ path: test.file.filepath, hooks: faults.take() });
      if (performance.now() - this.#began > FILE_MS) test.mode = 'skip';
    }
    return super.onBeforeRunTask(test);
  }

  onAfterRunTask(test) {
    super.onAfterRunTask(test);
    const { state } = test.result;
    const path = test.file.filepath;
    if (job.mutants === undefined) {
      const index = testsOf(test.file).indexOf(test);
      note({
        path,
        index,
        name: test.name,
        ms: this.#milliseconds(),
        state,
        reached: faults.take(),
      });
    } else if (state === 'fail' || faults.isNoticed) {
      for (const task of tasksOf(test.file)) {
        if (task.result === undefined) task.mode = 'skip';
      }
    }
  }

  /** Yields files whose tests are to be run next; vitest comes back when it has run them. */
  *#rounds() {
    if (job.alone === undefined) yield* this.#setUp();
    for (const { id, limit, rounds } of job.mutants) {
      note({ id, began: true });
      const failed = yield* this.#run(id, limit, rounds);
      const isClean =
        failed === undefined || job.alone !== undefined || (yield* this.#isClean(failed));
      note({ id, failed: failed?.name, isNoticed: failed !== undefined, isClean });
      if (!isClean || process.memoryUsage.rss() > FULL_BYTES) return;
    }
  }

  /** Sets the files up for many runs: shared fixtures are made once. */
  *#setUp() {
    for (const file of loaded.values()) {
      TestRunner.getSuiteHooks(file).afterAll.length = 0;
      for (const test of testsOf(file)) test.mode = 'skip';
      yield file;
      note({ path: file.filepath });
      TestRunner.getSuiteHooks(file).beforeAll.length = 0;
    }
  }

  /** The test that notices the mutant. */
  *#run(id, limit, rounds) {
    faults.set(id, limit);
    const broken = [...loaded.values()].find(({ result }) => result?.state === 'fail');
    if (broken !== undefined) return { name: broken.name, file: broken, indexes: [] };
    for (const { path, indexes } of rounds) {
      const file = loaded.get(path);
      const tests = this.#select(file, indexes);
      yield file;
      const failed = tests.find(({ result }) => result?.state === 'fail');
      if (failed !== undefined || file.result.state === 'fail' || faults.isNoticed) {
        const last = failed ?? tests.findLast(({ result }) => result?.state === 'pass') ?? tests[0];
        return {
          name: `${file.name} > ${last.name}`,
          file,
          indexes: [testsOf(file).indexOf(last)],
        };
      }
    }
    return undefined;
  }

  /** Whether the test that has failed passes without the fault: else the fault has broken the process for the next ones. */
  *#isClean({ file, indexes }) {
    faults.set(-1, Infinity);
    this.#select(file, indexes);
    yield file;
    return file.result.state === 'pass' && !faults.isNoticed;
  }

  /** Selects exactly these tests of a file. */
  #select(file, indexes) {
    const all = testsOf(file);
    const chosen = indexes.map((index) => all[index]);
    const suites = new Set();
    for (const { suite } of chosen) {
      for (let outer = suite; outer !== undefined; outer = outer.suite) suites.add(outer);
    }
    for (const task of [file, ...tasksOf(file)]) {
      delete task.result;
      const isChosen = task === file || suites.has(task) || chosen.includes(task);
      task.mode = isChosen ? modes.get(task) : 'skip';
    }
    return chosen;
  }
}
