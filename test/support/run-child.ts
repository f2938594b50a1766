/** Runs scripts that may crash, or that the kernel's counters measure, in separate processes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

/** A child process's exit and output. */
export interface ChildResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a child is started. */
export interface ChildOptions {
  /** Flags for Node. */
  readonly flags?: readonly string[];
  /** Added to the environment. */
  readonly env?: NodeJS.ProcessEnv;
  /** It is killed after so many milliseconds. */
  readonly timeout?: number;
  /** Limits of the shell's `ulimit`, such as `-n 1024`. */
  readonly limits?: string;
}

/** Path of `test/<script>`. */
export function childPath(script: string): string {
  return fileURLToPath(new URL(`../${script}`, import.meta.url));
}

/**
 * Runs `test/<script>` with `--expose-gc`. Its folder for temporary files is removed here, because a
 * child that is killed cannot do that.
 */
export async function runChild(
  script: string,
  args: readonly string[] = [],
  { flags = [], env = {}, timeout, limits = '' }: ChildOptions = {},
): Promise<ChildResult> {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  const node = [process.execPath, '--expose-gc', ...flags, childPath(script), ...args];
  const child = spawn('sh', ['-c', `${limits && `ulimit ${limits}; `}exec "$@"`, 'sh', ...node], {
    env: { ...process.env, ...env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(timeout === undefined ? {} : { timeout }),
  });
  try {
    const [stdout, stderr, [code, signal]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { code, signal, stdout, stderr };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The JSON in the last line that the script prints; throws unless it ends with code 0. */
export async function measureInChild<Result>(
  script: string,
  args: readonly string[] = [],
  options: ChildOptions = {},
): Promise<Result> {
  const { code, signal, stdout, stderr } = await runChild(script, args, options);
  if (code !== 0) throw new Error(`${script} ended with ${signal ?? code}:\n${stdout}${stderr}`);
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Result;
}
