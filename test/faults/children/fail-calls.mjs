// Repeats operations and fails another of their calls each time. Prints a line of JSON for each operation: the counts
// and the problems.
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { startHub } from '../hub.mjs';
import { Control, SHORT } from '../interposer.mjs';
import { REPOSITORIES } from '../material.mjs';
import { OPERATIONS } from '../operations.mjs';
import { makeRandom } from '../random.mjs';
import { contentOf } from '../readers.mjs';
import { putBack, stateOf } from '../states.mjs';
import { objections, objectionsAfter } from '../verdicts.mjs';

const ERRNOS = [
  'EIO',
  'ENOSPC',
  'EINTR',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'EACCES',
  'EROFS',
  'EXDEV',
  'ESTALE',
];
const SHORTENED = ['read', 'write', 'copy_file_range', 'sendfile'];

/** Conditions that stay: a full disk, no descriptor left, no memory, a broken disk. */
const LASTING = [
  ['write', 'ENOSPC'],
  ['copy_file_range', 'ENOSPC'],
  ['fallocate', 'ENOSPC'],
  ['open', 'EMFILE'],
  ['open', 'ENFILE'],
  ['dup', 'EMFILE'],
  ['mmap', 'ENOMEM'],
  ['read', 'EIO'],
  ['fsync', 'EIO'],
];

/** Maximum number of calls of one kind that get faults; a quick run samples them. */
const MAX_CALLS = 500;
const QUICK_CALLS = 2;
const MAX_MILLISECONDS = 10_000;

const [folder, mode, ...names] = process.argv.slice(2);
const isQuick = mode === 'quick';
const control = new Control(process.env.FAULTS_CONTROL);
const root = join(folder, 'root');
const model = join(root, 'model');

/** Descriptors, mappings and locks of this process below the folder, after a collection if need be. */
async function held(known) {
  for (let tries = 1; ; tries++) {
    const found = heldNow().filter((each) => !known.includes(each));
    if (found.length === 0 || tries === 5) return found;
    globalThis.gc();
    await setImmediate();
  }
}

function heldNow() {
  const found = [];
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      if (path.startsWith(root)) found.push(`the descriptor of ${path}`);
    } catch {
      // The descriptor of the listing itself.
    }
  }
  for (const line of readFileSync('/proc/self/maps', 'latin1').split('\n')) {
    if (line.includes(root)) found.push(`the mapping of ${line.slice(line.indexOf(root))}`);
  }
  for (const line of readFileSync('/proc/locks', 'latin1').split('\n')) {
    if (line.split(/\s+/)[4] === `${process.pid}`) found.push(`the lock ${line}`);
  }
  return found;
}

/** Results of calls, as text that can be compared. */
function textOf(value) {
  const plain = (_key, each) => {
    if (each instanceof Map) return [...each];
    return typeof each === 'bigint' ? `${each}` : each;
  };
  return JSON.stringify(value, plain) ?? 'undefined';
}

/**
 * A detaching close that gets no memory to lay zeros over a mapping keeps the addresses from reuse as always, with
 * the file still after them; its error says so.
 */
function isQuarantined({ hit }, each) {
  return hit === 'a mapping' && each.startsWith('the mapping');
}

/** One operation: what it does when no call fails, and the results when calls fail. */
class Trial {
  #operation;
  #random;
  #cells = {};
  #problems = [];
  #before;
  #whole;
  #after;
  #contentAfter;
  /** Held before the next fault, from earlier ones. */
  #known;

  constructor(operation) {
    this.#operation = operation;
    this.#random = makeRandom(operation);
  }

  async prepare() {
    rmSync(root, { recursive: true, force: true });
    mkdirSync(root);
    await this.#operation.make(root);
    this.#before = stateOf(root);
    this.#known = heldNow();
    // Once, for what the first call alone does.
    await this.#attempt();
    putBack(root, this.#before);
    this.#whole = await this.#attempt();
    if (this.#whole.error !== undefined) throw this.#whole.error;
    this.#after = stateOf(root);
    this.#contentAfter = contentOf(model);
    const heldAfter = await held(this.#known);
    if (heldAfter.length > 0) throw new Error(`${this.#operation.name} holds ${heldAfter}`);
  }

  /** How a call ends while calls fail. */
  async #attempt(fault) {
    let outcome;
    const deadline = setTimeout(() => this.#giveUp(fault), MAX_MILLISECONDS);
    control.on(fault);
    try {
      const value = await this.#operation.run(root);
      outcome = { value: textOf(value) };
    } catch (error) {
      outcome = { error };
    }
    clearTimeout(deadline);
    return { ...outcome, ...control.off() };
  }

  /** Nothing can be tried after a call that hangs. */
  #giveUp(fault) {
    const { hit } = control.off();
    const found = [`it has not ended after ${MAX_MILLISECONDS} ms`];
    const { name } = this.#operation;
    this.#problems.push({ name, fault, hit: hit.replace(root, ''), found });
    this.print();
    process.exit();
  }

  print() {
    const { name, group } = this.#operation;
    console.log(JSON.stringify({ name, group, cells: this.#cells, problems: this.#problems }));
  }

  /** Lets one call fail; whether there was one. */
  async #tryFault(fault) {
    putBack(root, this.#before);
    const known = this.#known;
    const outcome = await this.#attempt(fault);
    if (outcome.hits === 0) return false;
    const cell = this.#cells[fault.kind];
    cell.faults++;
    cell[outcome.error === undefined ? 'successes' : 'errors']++;
    const end = {
      operation: this.#operation,
      fault,
      outcome,
      state: stateOf(root),
      before: this.#before,
      after: this.#after,
      contents: { now: contentOf(model), after: this.#contentAfter },
      whole: this.#whole,
      root,
    };
    const found = objections(end);
    for (const each of await held(known)) {
      if (!isQuarantined(outcome, each)) found.push(`it holds ${each}`);
    }
    const again = await this.#attempt();
    found.push(...objectionsAfter(end, again, stateOf(root)));
    const heldAfter = await held(known);
    for (const each of heldAfter) {
      if (!isQuarantined(outcome, each)) found.push(`after the same call it holds ${each}`);
    }
    if (known.length > 0 || heldAfter.length > 0) this.#known = heldNow();
    if (found.length > 0) {
      const { error, hit } = outcome;
      this.#problems.push({
        name: this.#operation.name,
        fault,
        hit: hit.replace(root, ''),
        error: error && `${error.code} ${error.stack ?? error}`,
        found,
      });
    }
    return true;
  }

  /** A lasting fault from the first call on, and random faults of random calls. */
  *#sample(count, faults, lasting) {
    if (lasting.length > 0) yield { ordinal: 1, faults: [], lasting };
    const below = (limit) => Math.floor(this.#random() * limit);
    const ordinals = Array.from({ length: count }, (_, i) => i + 1);
    for (let calls = Math.min(QUICK_CALLS, count); calls > 0; calls--) {
      const [ordinal] = ordinals.splice(below(ordinals.length), 1);
      yield { ordinal, faults: [faults[below(faults.length)]], lasting: [] };
    }
  }

  /** Every call with every fault. A fault may cause more calls than were counted. */
  *#all(faults, lasting) {
    for (let ordinal = 1; ordinal <= MAX_CALLS; ordinal++) yield { ordinal, faults, lasting };
  }

  async tryAll() {
    for (const [kind, count] of Object.entries(this.#whole.counts)) {
      this.#cells[kind] = { count, faults: 0, errors: 0, successes: 0 };
      const all = [...ERRNOS, ...(SHORTENED.includes(kind) ? [SHORT] : [])];
      const allLasting = LASTING.filter(([each]) => each === kind).map(([, fault]) => fault);
      const calls = isQuick ? this.#sample(count, all, allLasting) : this.#all(all, allLasting);
      for (const { ordinal, faults, lasting } of calls) {
        let wasHit = false;
        for (const fault of faults) {
          wasHit = (await this.#tryFault({ kind, ordinal, fault })) || wasHit;
        }
        for (const fault of lasting) {
          await this.#tryFault({ kind, ordinal, fault, isLasting: true });
        }
        if (!wasHit && !isQuick) break;
      }
    }
  }
}

const operations = names.map((name) => OPERATIONS.find((each) => each.name === name));
if (operations.some(({ needs }) => needs === 'hub')) await startHub(REPOSITORIES);
for (const operation of operations) {
  const trial = new Trial(operation);
  await trial.prepare();
  await trial.tryAll();
  trial.print();
}
process.exit();
