// Every operation on files while calls of the system fail: a table of operations and calls, and the problems found.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { buildHub } from './hub.mjs';
import { buildLibrary, Control, KINDS } from './interposer.mjs';
import { inLanes, temporaryFolder } from './lanes.mjs';

const CHILD = fileURLToPath(new URL('children/fail-calls.mjs', import.meta.url));

/** A process that spends this long on one fault repeats a call, and its own timer cannot fire. */
const MAX_MILLISECONDS = 30_000;

/** Kills the process when it hangs. Returns a function that stops the watch and names the fault at which it hung. */
function watch(child, control) {
  let last;
  let since = Date.now();
  let hungAt;
  const timer = setInterval(() => {
    const current = control.current();
    if (current === undefined || current !== last) since = Date.now();
    last = current;
    if (Date.now() - since < MAX_MILLISECONDS) return;
    hungAt = current;
    child.kill('SIGKILL');
  }, 100);
  return () => {
    clearInterval(timer);
    control.close();
    return hungAt;
  };
}

/** Runs operations in one process, one after the other; returns the output of those that ended, and how it ended. */
async function runOnce(operations, library, isQuick) {
  const folder = temporaryFolder();
  const path = join(folder, 'control');
  const control = new Control(path, join(folder, 'root'));
  const names = operations.map(({ name }) => name);
  const args = ['--expose-gc', CHILD, folder, isQuick ? 'quick' : 'all', ...names];
  const child = spawn(process.execPath, args, {
    env: { ...process.env, LD_PRELOAD: library, FAULTS_CONTROL: path, UV_THREADPOOL_SIZE: '2' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const stopWatching = watch(child, control);
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  const hungAt = stopWatching();
  rmSync(folder, { recursive: true, force: true });
  const rows = stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  if (code === 0 && rows.length > 0) return { rows };
  const end = hungAt === undefined ? `ended with ${signal ?? code}` : `did not end: ${hungAt}`;
  return { rows, found: [`it ${end}`, stderr] };
}

/** Runs operations in one process, or in several when one of them ends it; returns their output. */
async function run(operations, library, isQuick) {
  const rows = [];
  while (rows.length < operations.length) {
    const { rows: done, found } = await runOnce(operations.slice(rows.length), library, isQuick);
    rows.push(...done);
    if (found === undefined) continue;
    const { name } = operations[rows.length] ?? operations.at(-1);
    rows.push({ name, cells: {}, problems: [{ name, found }] });
  }
  return rows;
}

function sumOf(rows, key) {
  return rows
    .flatMap(({ cells }) => Object.values(cells))
    .reduce((sum, cell) => sum + cell[key], 0);
}

/** A table of Markdown: for every operation, the number of each call and the results of the faults. */
function tableOf(rows) {
  const kinds = KINDS.filter((kind) => rows.some(({ cells }) => cells[kind] !== undefined));
  const lines = [
    `| operation | ${kinds.join(' | ')} | faults | errors | no error |`,
    `|---|${'---:|'.repeat(kinds.length + 3)}`,
  ];
  for (const row of rows) {
    const counts = kinds.map((kind) => row.cells[kind]?.count ?? '');
    const sums = ['faults', 'errors', 'successes'].map((key) => sumOf([row], key));
    lines.push(`| ${[row.name, ...counts, ...sums].join(' | ')} |`);
  }
  return lines.join('\n');
}

function print({ name, fault, hit, error, found }) {
  const what = fault === undefined ? '' : `: ${fault.fault} at ${fault.kind} ${fault.ordinal}`;
  const lasting = fault?.isLasting ? ' and all later ones' : '';
  console.log(`\n${name}${what}${lasting}${hit ? ` of ${hit}` : ''}`);
  if (error) console.log(`  ${error.split('\n')[0]}`);
  for (const each of found) console.log(`  ${each}`);
}

function byGroup(operations) {
  const groups = new Map(operations.map(({ group }) => [group, []]));
  for (const operation of operations) groups.get(operation.group).push(operation);
  return [...groups.values()];
}

/** Fails every call of the operations and prints the results; returns the numbers of faults and problems. */
export async function failCalls(operations, isQuick) {
  const library = buildLibrary('interposer');
  await buildHub();
  // A new process starts in tens of milliseconds, and nothing of an earlier operation is left in it.
  const parts = isQuick ? byGroup(operations) : operations.map((each) => [each]);
  const rows = (await inLanes(parts, (part) => run(part, library, isQuick))).flat();
  console.log(tableOf(rows));
  const problems = rows.flatMap((row) => row.problems);
  for (const problem of problems) print(problem);
  const [faults, errors, successes] = ['faults', 'errors', 'successes'].map((key) =>
    sumOf(rows, key),
  );
  console.log(
    `\n${faults} calls failed in ${rows.length} operations: ${errors} errors, ${successes} successes, ${problems.length} problems`,
  );
  return { tries: faults, problems: problems.length };
}
