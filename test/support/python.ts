/** Finds the Python of the oracle tests, and runs it. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A Python that has the packages a test asked for, or the reason for its absence. */
export type Python =
  | {
      readonly executable: string;
      readonly packages: readonly string[];
      readonly missing?: undefined;
    }
  | { readonly executable?: undefined; readonly missing: string };

/** The server that has torch imported, and the variable that names its socket. */
export const SERVER: string = fileURLToPath(new URL('python_server.py', import.meta.url));
export const SOCKET_VARIABLE = 'SAFETENSORS_PYTHON_SERVER';

const HOW_TO_GET_IT = 'make it with `node scripts/python-env.mjs`';

/** The executable that SAFETENSORS_PYTHON names, otherwise the one in `.venv` of the package root. */
export function pythonExecutable(): string {
  const local = fileURLToPath(new URL('../../.venv/bin/python', import.meta.url));
  return process.env['SAFETENSORS_PYTHON'] ?? local;
}

/** Finds the Python for oracle tests. The packages are looked up, not imported. */
export function findPython(...packages: readonly string[]): Python {
  const executable = pythonExecutable();
  if (!existsSync(executable)) {
    return { missing: `there is no Python at ${executable}; ${HOW_TO_GET_IT}` };
  }
  const source =
    'import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])';
  const { status, stdout, stderr } = spawnSync(executable, ['-c', source, ...packages], {
    encoding: 'utf8',
  });
  if (status !== 0) return { missing: `${executable} does not run: ${stderr}` };
  const absent = stdout.trim();
  return absent === ''
    ? { executable, packages }
    : { missing: `${executable} lacks ${absent}; ${HOW_TO_GET_IT}` };
}

/** The same Python for programs that have to import packages themselves. */
export function withoutServer(python: Python): Python {
  return python.missing === undefined ? { ...python, packages: [] } : python;
}

/** How a program is started. */
export interface PythonCommand {
  readonly executable: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/**
 * How Python is started with these arguments: a process of the server, where there is one and torch is needed,
 * which takes seconds to import.
 */
export function pythonCommand(python: Python, args: readonly string[]): PythonCommand {
  if (python.missing !== undefined) throw new Error(python.missing);
  const { executable, packages } = python;
  const socket = process.env[SOCKET_VARIABLE];
  if (socket === undefined || !packages.includes('torch')) {
    return { executable, args, env: process.env };
  }
  const env = { ...process.env, PYTHON_SERVER_PACKAGES: packages.join(' ') };
  // Without the packages of the environment, which the caller does not need.
  return { executable, args: ['-S', '-E', SERVER, socket, ...args], env };
}

/** Runs Python and returns its stdout; the error has its stderr when it fails. */
export function runPython(python: Python, given: readonly string[]): string {
  const { executable, args, env } = pythonCommand(python, given);
  const { status, signal, stdout, stderr } = spawnSync(executable, args, {
    env,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`python ${given[0]}: ${signal ?? `exit ${status}`}\n${stderr}`);
  return stdout;
}

/**
 * Whether tests that need this Python are skipped. Never in continuous integration, where its
 * absence has to be a failure: there `runPython` throws the reason.
 */
export function isSkipped(python: Python): boolean {
  return python.missing !== undefined && !process.env['CI'];
}

/** Title for tests that need this Python: it says why they are skipped. */
export function titleWith(python: Python, title: string): string {
  return isSkipped(python) ? `${title} (skipped: ${python.missing})` : title;
}
