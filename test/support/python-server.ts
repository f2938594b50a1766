/**
 * Before all tests: starts the Python that runs the programs of oracle tests, `python_server.py`. It imports nothing
 * before it is asked. Systems without `fork` start a Python for every program.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { pythonExecutable, SERVER, SOCKET_VARIABLE } from './python.js';

export default async function setUp(): Promise<(() => Promise<void>) | undefined> {
  const executable = pythonExecutable();
  // A project of the same run may have started it.
  const isStarted = process.env[SOCKET_VARIABLE] !== undefined;
  if (process.platform === 'win32' || isStarted || !existsSync(executable)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-python-'));
  const socket = join(folder, 'socket');
  // Programs ask nobody on the network; the libraries read this when they are imported.
  const env = { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_VERBOSITY: 'error' };
  const server = spawn(executable, [SERVER, socket], { env, stdio: 'ignore' });
  while (server.exitCode === null && !existsSync(socket)) await delay(5);
  process.env[SOCKET_VARIABLE] = socket;
  return async () => {
    delete process.env[SOCKET_VARIABLE];
    const ended = once(server, 'exit');
    server.kill();
    await ended;
    rmSync(folder, { recursive: true });
  };
}
