/**
 * Every operation on files while calls of the system fail, while the power goes and while it is killed: a quick run of
 * each. `npm run faults` tries all.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const report = process.report.getReport() as { header: { glibcVersionRuntime?: string } };

// The libraries that are preloaded stand in front of GNU's C library.
test.runIf(report.header.glibcVersionRuntime !== undefined).each([
  ['calls', /^(\d+) calls failed in \d+ operations: .*, (\d+) problems$/m, 1500],
  ['power', /^power lost (\d+) times in \d+ operations: (\d+) problems$/m, 10_000],
  ['kills', /^(\d+) kills in \d+ operations: (\d+) problems$/m, 100],
])(
  '%s',
  async (part, summary, least) => {
    const main = fileURLToPath(new URL('faults.mjs', import.meta.url));
    const args = [main, part, '--quick'];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    const [, tries, problems] = summary.exec(output) ?? [];
    expect(Number(tries), output).toBeGreaterThan(least);
    expect([code, problems], output).toEqual([0, '0']);
  },
  600_000,
);
