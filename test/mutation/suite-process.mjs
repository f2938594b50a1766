/** Runs test files of a tree in a process group that is ended as a whole. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { guard } from './guard.mjs';

const PROGRAM = fileURLToPath(new URL('run-files.mjs', import.meta.url));

/** Tests map sparse files of several gigabytes. */
const LIMIT_BYTES = 12 * 2 ** 30;

/** Process groups that run now: they end with this process. */
const groups = new Set();

function endGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

export function endAllGroups() {
  for (const pid of groups) endGroup(pid);
}

/**
 * Runs a job in a lane. `onMessage` may return a verdict, which ends the run. `limitOf` returns the milliseconds
 * from a message to the time limit, or undefined if the limit stays. Returns the verdict, or why the run has ended:
 * `done`, `time limit`, `memory limit` or `a crash`.
 */
export async function runFiles({ lane, job, env, limitOf, onMessage }) {
  mkdirSync(lane.temporary, { recursive: true });
  // The config may offer projects only if the command line selects them.
  const options = (job.projects ?? []).map((name) => `--project=${name}`);
  const child = spawn(process.execPath, [PROGRAM, ...options], {
    cwd: lane.tree,
    env: {
      ...process.env,
      // Those of a run that this one is part of.
      MUTATION_ACTIVE: undefined,
      MUTATION_RECORDS: undefined,
      MUTATION_REACHED: undefined,
      ...env,
      MUTATION_JOB: JSON.stringify(job),
      TMPDIR: lane.temporary,
      NODE_ENV: 'test',
      TEST: 'true',
      VITEST: 'true',
    },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    detached: true,
  });
  groups.add(child.pid);
  let output = '';
  child.stderr.on('data', (chunk) => {
    output = `${output}${chunk}`.slice(-4000);
  });
  let verdict;
  let due = Number.POSITIVE_INFINITY;
  const stop = guard(
    () => child.pid,
    () => Date.now() > due,
    LIMIT_BYTES,
  );
  child.on('message', (message) => {
    if (verdict !== undefined) return;
    due = Date.now() + (limitOf(message) ?? due - Date.now());
    verdict = message.done ? 'done' : onMessage(message);
    if (verdict !== undefined) endGroup(child.pid);
  });
  // The last messages may come after the end of the process.
  await Promise.all([
    once(child, 'exit').then(() => endGroup(child.pid)),
    once(child, 'disconnect'),
  ]);
  groups.delete(child.pid);
  const reason = stop();
  rmSync(lane.temporary, { recursive: true, force: true, maxRetries: 10 });
  return { ended: verdict ?? reason ?? 'a crash', output };
}
