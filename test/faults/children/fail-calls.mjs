// Repeats one operation, failing the next of its calls each time. Prints the counts and the problems as JSON.
import { mkdirSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { startHub } from '../hub.mjs';
import { Control, SHORT } from '../interposer.mjs';
import { REPOSITORIES } from '../material.mjs';
import { OPERATIONS } from '../operations.mjs';
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

/** Calls of one kind that get a fault at most. */
const MAX_ORDINAL = 500;
const QUICK_ORDINAL = 12;
const MAX_MILLISECONDS = 10_000;

const [name, folder, isQuick] = process.argv.slice(2);
const operation = OPERATIONS.find((each) => each.name === name);
const control = new Control(process.env.FAULTS_CONTROL);
const root = join(folder, 'root');
const cells = {};
const problems = [];

/** Descriptors, mappings and locks of this process below the folder, after a collection if need be. */
async function held(known = []) {
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

/** How a call ends while calls fail. */
async function attempt(fault) {
  let outcome;
  const deadline = setTimeout(() => giveUp(fault), MAX_MILLISECONDS);
  control.on(fault);
  try {
    const value = await operation.run(root);
    outcome = { value: textOf(value) };
  } catch (error) {
    outcome = { error };
  }
  clearTimeout(deadline);
  return { ...outcome, ...control.off() };
}

/** Nothing can be tried after a call that hangs. */
function giveUp(fault) {
  const { hit } = control.off();
  const found = [`it has not ended after ${MAX_MILLISECONDS} ms`];
  problems.push({ name, fault, hit: hit.replace(root, ''), found });
  print();
  process.exit();
}

function print() {
  console.log(JSON.stringify({ name, group: operation.group, cells, problems }));
}

/** Results of calls, as text that can be compared. */
function textOf(value) {
  const plain = (_key, each) => {
    if (each instanceof Map) return [...each];
    return typeof each === 'bigint' ? `${each}` : each;
  };
  return JSON.stringify(value, plain) ?? 'undefined';
}

if (operation.needs === 'hub') await startHub(REPOSITORIES);
mkdirSync(root);
await operation.make(root);
const before = stateOf(root);
// Once, for what the first call alone does.
await attempt();
putBack(root, before);
const whole = await attempt();
if (whole.error !== undefined) throw whole.error;
const after = stateOf(root);
const model = join(root, 'model');
const contentAfter = contentOf(model);
const heldAfter = await held();
if (heldAfter.length > 0) throw new Error(`${name} holds ${heldAfter}`);

/**
 * A detaching close that gets no memory to lay zeros over a mapping keeps the addresses from reuse as always, with
 * the file still behind them; its error says so.
 */
function isQuarantined({ hit }, each) {
  return hit === 'a mapping' && each.startsWith('the mapping');
}

/** Lets one call fail; whether there was one. */
async function tryFault(fault) {
  putBack(root, before);
  const known = heldNow();
  const outcome = await attempt(fault);
  if (outcome.hits === 0) return false;
  const cell = cells[fault.kind];
  cell.faults++;
  cell[outcome.error === undefined ? 'successes' : 'errors']++;
  const state = stateOf(root);
  const contents = { now: contentOf(model), after: contentAfter };
  const end = { operation, fault, outcome, state, before, after, contents, whole, root };
  const found = objections(end);
  for (const each of await held(known)) {
    if (!isQuarantined(outcome, each)) found.push(`it holds ${each}`);
  }
  const again = await attempt();
  found.push(...objectionsAfter(end, again, stateOf(root)));
  for (const each of await held(known)) {
    if (!isQuarantined(outcome, each)) found.push(`after the same call it holds ${each}`);
  }
  if (found.length > 0) {
    const { error, hit } = outcome;
    problems.push({
      name,
      fault,
      hit: hit.replace(root, ''),
      error: error && `${error.code} ${error.stack ?? error}`,
      found,
    });
  }
  return true;
}

for (const [kind, count] of Object.entries(whole.counts)) {
  cells[kind] = { count, faults: 0, errors: 0, successes: 0 };
  const faults = [...ERRNOS, ...(SHORTENED.includes(kind) ? [SHORT] : [])];
  for (let ordinal = 1; ordinal <= (isQuick ? QUICK_ORDINAL : MAX_ORDINAL); ordinal++) {
    // In a quick run the first calls get one of them.
    const some = isQuick ? [faults[ordinal % faults.length]] : faults;
    let wasHit = false;
    for (const fault of some) wasHit = (await tryFault({ kind, ordinal, fault })) || wasHit;
    for (const [lasting, fault] of LASTING) {
      if (lasting !== kind || (isQuick && ordinal > 1)) continue;
      await tryFault({ kind, ordinal, fault, isLasting: true });
    }
    if (!wasHit) break;
  }
}
print();
process.exit();
