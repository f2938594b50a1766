import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { measureInChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/lifetime.mjs';

/** Leftovers of a series of openings; `lines` are those of /proc/self/maps. */
interface LeftBehind {
  descriptors: number;
  mappings: number;
  lines: number;
  /** Bytes of private memory. */
  anonymous: number;
}

describe('nothing is left behind', () => {
  // The engine's own heap grows and shrinks; 64 bytes leaked for each file would be 6 MB.
  test.each([
    ['open-and-release', 100_000, 4e6],
    ['open-and-drop', 5_000, 4e6],
    ['drop-handle-only', 5_000, 4e6],
  ] as const)('%s, %i times', async (scenario, times, tolerance) => {
    const left = await measureInChild<LeftBehind>(CHILD, [scenario]);
    process.stdout.write(`${scenario} x ${times}: ${JSON.stringify(left)}\n`);
    expect(left.descriptors).toBe(0);
    expect(left.mappings).toBe(0);
    expect(left.lines).toBeLessThan(40);
    expect(left.anonymous).toBeLessThan(tolerance);
  });
});
