import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { expect, it } from 'vitest';
import { guard } from './guard.mjs';

/** A process that has started another, of the same output. Both run forever. */
const PARENT = `
require('node:child_process').spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'inherit' });
console.log('started');
setInterval(() => {}, 1000);
`;

it.skipIf(process.platform === 'win32')('ends a process and what it has started', async () => {
  const parent = spawn(process.execPath, ['-e', PARENT], { stdio: ['ignore', 'pipe', 'inherit'] });
  // The output is closed when both have ended.
  const closed = once(parent, 'close');
  await once(parent.stdout, 'data');
  const stop = guard(
    () => parent.pid,
    () => true,
  );
  expect(await closed).toEqual([null, 'SIGKILL']);
  expect(stop()).toBe('time limit');
});
