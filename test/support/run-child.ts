import { type ExecFileException, execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** How a child process ended, and what it printed. */
export interface ChildResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Path of `test/<script>`. */
export function childPath(script: string): string {
  return fileURLToPath(new URL(`../${script}`, import.meta.url));
}

/**
 * Runs `test/<script>` with the compiled library in a process of its own: what may crash,
 * or is measured by the kernel's counters, must not share one with the test runner.
 */
export function runChild(
  script: string,
  args: readonly string[] = [],
  flags: readonly string[] = ['--expose-gc'],
): Promise<ChildResult> {
  return new Promise((resolve) => {
    const done = (error: ExecFileException | null, stdout: string, stderr: string): void => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : null;
      resolve({ code, signal: error?.signal ?? null, stdout, stderr });
    };
    execFile(
      process.execPath,
      [...flags, childPath(script), ...args],
      { maxBuffer: 2 ** 26 },
      done,
    );
  });
}

/** As `runChild`; the last line that it prints is JSON, and it must end with code 0. */
export async function measureInChild<Result>(
  script: string,
  args: readonly string[] = [],
): Promise<Result> {
  const { code, signal, stdout, stderr } = await runChild(script, args);
  if (code !== 0) throw new Error(`${script} ended with ${signal ?? code}:\n${stdout}${stderr}`);
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Result;
}
