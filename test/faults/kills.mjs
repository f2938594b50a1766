// Every operation that writes, in two processes at the same time that work on the same target, which are killed at
// random moments: a reader finds the old file or a new one, and the next call succeeds.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildHub, startHub } from './hub.mjs';
import { inLanes, temporaryFolder } from './lanes.mjs';
import { NEW_STATES, REPOSITORIES } from './material.mjs';
import { readerOf } from './readers.mjs';
import { putBack, stateOf } from './states.mjs';
import { isLeftOver } from './verdicts.mjs';

const CHILD = fileURLToPath(new URL('children/run-on-message.mjs', import.meta.url));

const KILLS = 10_000;
const QUICK_KILLS = 48;

/** Operations of a quick run: one of each group. */
const QUICK = [
  'saveFile with digests',
  'saveCheckpoint, shards to shards',
  'editMetadata with digests',
  'reshard into itself, dequantized',
  'saveCheckpoint of merged models',
  'convert to a folder',
  'convert of GGUF, dequantized',
  'convert of a pipeline in an archive',
  'download of a folder',
  'download of a folder, repaired',
  'download into the Hub cache, repaired',
];

/** Errors that one process may get because of the other. */
const EXPECTED = ['SAFETENSORS_EDIT_INTERRUPTED', 'SAFETENSORS_FILE_CHANGED'];

/** Longest that a process takes to start, or to do its work, in milliseconds. */
const PATIENCE = 60_000;

/** Most problems that are printed of one operation. */
const SHOWN = 3;

/** The result of a process that had not ended. */
const KILLED = { killed: true };

/** The next message of a process. */
async function messageOf(child) {
  const [message] = await once(child, 'message', { signal: AbortSignal.timeout(PATIENCE) });
  return message;
}

/** Processes of one state that are ready: starting one takes longer than the operation. */
class Ready {
  #waiting = [];
  #name;
  #state;

  constructor(name, state) {
    this.#name = name;
    this.#state = state;
    this.add();
  }

  /** Starts another process. */
  add() {
    const child = fork(CHILD, [this.#name], {
      env: { ...process.env, FAULTS_STATE: `${this.#state}` },
    });
    this.#waiting.push(messageOf(child).then(() => child));
  }

  /** The next process. */
  async take() {
    return await this.#waiting.shift();
  }

  /** Runs the whole operation in the next process, which stays; returns its time. */
  async run(message) {
    const child = await this.#waiting[0];
    const answered = messageOf(child);
    child.send(message);
    const { error, milliseconds } = await answered;
    if (error !== undefined) throw new Error(error);
    return milliseconds;
  }

  async end() {
    for (const child of await Promise.all(this.#waiting)) child.kill('SIGKILL');
  }
}

/** Starts the operation in a process and kills it after some milliseconds; returns whether it was still at work. */
async function killAfter(child, message, milliseconds) {
  const ended = once(child, 'exit');
  const done = messageOf(child);
  child.send(message);
  const answer = await Promise.race([done, setTimeout(milliseconds, KILLED)]);
  // The other process never started.
  done.catch(() => {});
  child.kill('SIGKILL');
  await ended;
  return answer;
}

/** Restores a header after a killed edit in place, as docs/errors.md says. */
function putHeaderBack(root) {
  const backup = join(root, 'model.safetensors.header-backup');
  let start;
  try {
    start = readFileSync(backup);
  } catch {
    return;
  }
  const file = join(root, 'model.safetensors');
  const bytes = readFileSync(file);
  start.copy(bytes);
  writeFileSync(file, bytes);
  rmSync(backup);
}

async function killIn(operation, rounds) {
  const folder = temporaryFolder();
  const root = join(folder, 'root');
  const { name } = operation;
  const read = readerOf(operation);
  const pools = NEW_STATES.map((state) => new Ready(name, state));
  const row = { name, kills: 0, inside: 0, old: 0, problems: [] };
  try {
    mkdirSync(root);
    await operation.make(root);
    const before = stateOf(root);
    const old = read(root);
    const news = [];
    const paths = new Set(before.keys());
    let longest = 0;
    for (const pool of pools) {
      putBack(root, before);
      longest = Math.max(longest, await pool.run({ root }));
      news.push(read(root));
      for (const path of stateOf(root).keys()) paths.add(path);
    }
    for (let round = 0; round < rounds; round++) {
      putBack(root, before);
      const children = await Promise.all(pools.map((pool) => pool.take()));
      for (const pool of pools) pool.add();
      const answers = await Promise.all(
        children.map((child) => killAfter(child, { name, root }, Math.random() * 1.3 * longest)),
      );
      row.kills += answers.length;
      row.inside += answers.filter((answer) => answer === KILLED).length;
      const errors = answers.filter(
        ({ code, error }) => error !== undefined && !EXPECTED.includes(code),
      );
      for (const { error } of errors) row.problems.push(`one of the two failed: ${error}`);
      const found = read(root);
      if (found === old) row.old++;
      else if (!news.includes(found))
        row.problems.push(`found ${found.length > 200 ? 'another content' : found}`);
      for (const path of stateOf(root).keys()) {
        if (!paths.has(path) && !isLeftOver(path)) row.problems.push(`${path} is left`);
      }
      putHeaderBack(root);
      if (round % 10 === 0) {
        await pools[0].run({ root });
        if (read(root) !== news[0]) row.problems.push('the next call leaves something else');
      }
    }
  } catch (error) {
    row.problems.push(String(error.stack));
  } finally {
    await Promise.all(pools.map((pool) => pool.end()));
    rmSync(folder, { recursive: true, force: true });
  }
  return row;
}

/** Kills processes during the writing operations; returns the numbers of kills and problems. */
export async function kill(operations, isQuick) {
  await buildHub();
  const hub = await startHub(REPOSITORIES);
  const writing = operations.filter(
    ({ name, isWriting }) => isWriting && (!isQuick || QUICK.includes(name)),
  );
  const kills = isQuick ? QUICK_KILLS : KILLS;
  const rounds = Math.ceil(kills / 2 / writing.length);
  console.log('| operation | kills | before the end | the old file stayed |\n|---|---:|---:|---:|');
  const rows = await inLanes(writing, async (operation) => {
    const row = await killIn(operation, rounds);
    console.log(`| ${row.name} | ${row.kills} | ${row.inside} | ${row.old} |`);
    return row;
  });
  await hub.close();
  for (const { name, problems } of rows) {
    if (problems.length > 0) console.log(`\n${name}: ${problems.length} problems`);
    for (const problem of problems.slice(0, SHOWN)) console.log(`  ${problem}`);
  }
  const tries = rows.reduce((sum, row) => sum + row.kills, 0);
  const problems = rows.reduce((sum, row) => sum + row.problems.length, 0);
  console.log(`\n${tries} kills in ${rows.length} operations: ${problems} problems`);
  return { tries, problems };
}
