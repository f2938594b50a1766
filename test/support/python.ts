import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A Python that has the packages a test asked for, or the reason why there is none. */
export type Python =
  | { readonly executable: string; readonly missing?: undefined }
  | { readonly executable?: undefined; readonly missing: string };

const HOW_TO_GET_IT = 'make it with `node scripts/python-env.mjs`';

/**
 * Finds the Python for oracle tests: the executable that SAFETENSORS_PYTHON names, otherwise the one
 * in `.venv` of the package root. The packages are looked up, not imported.
 */
export function findPython(...packages: readonly string[]): Python {
  const local = fileURLToPath(new URL('../../.venv/bin/python', import.meta.url));
  const executable = process.env['SAFETENSORS_PYTHON'] ?? local;
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
    ? { executable }
    : { missing: `${executable} lacks ${absent}; ${HOW_TO_GET_IT}` };
}

/** Runs Python and returns its stdout; what it wrote to stderr is in the error when it fails. */
export function runPython(python: Python, args: readonly string[]): string {
  if (python.missing !== undefined) throw new Error(python.missing);
  const { status, signal, stdout, stderr } = spawnSync(python.executable, args, {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error(`python ${args[0]}: ${signal ?? `exit ${status}`}\n${stderr}`);
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
