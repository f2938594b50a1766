/** The bundle in `lib/`: descriptors that remain after an import was interrupted. */
import { expect, test } from 'vitest';
import { nightly } from '../support/nightly.js';
import { measureInChild } from '../support/run-child.js';

const WORKERS = nightly(60, 24);

// Node 20 reads an imported file on the thread pool, and leaves its descriptor when the worker ends at
// that moment. With a file for each module those were some 10 for each worker.
test(`${WORKERS} workers that are terminated while they import leave no more than two files of that length do`, async () => {
  const left = await measureInChild<string[]>('package/children/terminate-imports.mjs', [
    String(WORKERS),
  ]);
  const [ours = 0, others = 0] = [/^(?:index|core)\.js$/, /^nothing/].map(
    (name) => left.filter((path) => name.test(path)).length,
  );
  expect(ours + others).toBe(left.length);
  // Each count is random: five times the spread of their difference is allowed.
  expect(ours - others).toBeLessThanOrEqual(5 * Math.sqrt(ours + others));
});
