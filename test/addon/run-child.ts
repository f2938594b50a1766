/** Runs the scripts of `test/addon/children`: what may kill its process, or is measured, has its own. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

/** How a child ended, and the value it has printed as JSON (undefined when it printed nothing). */
export interface ChildResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly value: unknown;
  readonly stderr: string;
}

/**
 * Starts `test/<script>` with `--expose-gc` under the running Node and waits for its end.
 * Its folder for temporary files is removed here, because the child may be killed.
 */
export async function runChild(script: string, ...args: string[]): Promise<ChildResult> {
  const path = fileURLToPath(new URL(`../${script}`, import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  const child = spawn(process.execPath, ['--expose-gc', path, ...args], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  try {
    const [stdout, stderr, [code, signal]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { code, signal, value: stdout === '' ? undefined : JSON.parse(stdout), stderr };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The value that a child printed which ended well; throws with its stderr when it did not. */
export async function childValue<T>(script: string, ...args: string[]): Promise<T> {
  const { code, signal, value, stderr } = await runChild(script, ...args);
  if (code !== 0) throw new Error(`${script} ${args.join(' ')}: ${signal ?? code}\n${stderr}`);
  return value as T;
}
