/** Processes that run one operation for every message, in parallel. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { afterEach } from 'vitest';
import { nightly } from './nightly.js';
import { childPath } from './run-child.js';

const children: ChildProcess[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** Starts `test/<script>`, which sends one message when it is ready. It is killed after the test. */
export async function startChild(script: string, ...args: string[]): Promise<ChildProcess> {
  const child = fork(childPath(script), args, { stdio: 'inherit' });
  children.push(child);
  await answerOf(child);
  return child;
}

/** The next message of the child; throws when it ends before. */
export async function answerOf(child: ChildProcess): Promise<unknown> {
  const controller = new AbortController();
  const { signal } = controller;
  const ended = async (): Promise<never> => {
    const [code, killedBy] = await once(child, 'exit', { signal });
    throw new Error(`the child ended with ${killedBy ?? code}`);
  };
  try {
    const [answer] = await Promise.race([once(child, 'message', { signal }), ended()]);
    return answer;
  } finally {
    controller.abort();
  }
}

/** Sends each child its message, all at the same time; resolves with their answers. */
export async function ask(
  requests: readonly (readonly [ChildProcess, object])[],
): Promise<unknown[]> {
  const answers = requests.map(([child]) => answerOf(child));
  for (const [child, message] of requests) child.send(message);
  return Promise.all(answers);
}

/** Repeats of a test of a rare race: a few, or `full` in a nightly run, or a multiple of `full`. */
export function rounds(full: number, short: number): number {
  const times = process.env['SAFETENSORS_MMAP_ROUNDS'];
  return times === undefined ? nightly(full, short) : full * Number(times);
}
