/**
 * Every operation on files during failing system calls, losses of power and kills: a sample.
 * `node test/faults/faults.mjs` runs them all.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } };

// The libraries that are preloaded wrap GNU's C library.
const canPreload = report.header.glibcVersionRuntime !== undefined;
// Windows replaces no file that another process has open.
const canReplace = process.platform !== 'win32';

const parts = [
  ['calls', canPreload, /^(\d+) calls failed in (\d+) operations: .*, (\d+) problems$/m, 1000, 48],
  [
    'power',
    canPreload,
    /^power lost (\d+) times in (\d+) operations: (\d+) problems$/m,
    10_000,
    30,
  ],
  ['kills', canReplace, /^(\d+) kills in (\d+) operations: (\d+) problems$/m, 40, 10],
] as const;

for (const [part, isPossible, summary, least, operations] of parts) {
  test.runIf(isPossible)(part, { timeout: 600_000 }, async () => {
    const main = fileURLToPath(new URL('faults.mjs', import.meta.url));
    const args = [main, part, '--quick'];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    const [, tries, covered, problems] = summary.exec(output) ?? [];
    expect(Number(tries), output).toBeGreaterThan(least);
    expect([code, problems], output).toEqual([0, '0']);
    expect(Number(covered)).toBeGreaterThanOrEqual(operations);
  });
}
