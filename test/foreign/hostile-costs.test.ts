/** What hostile files cost: at most a second each, and 200 MB of memory above those of the process itself. */
import { existsSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { runChild } from '../support/run-child.js';
import { FIXTURES, pathOf } from './torch-fixtures.js';

const MAX_MILLISECONDS = 1000;
const MAX_BYTE_LENGTH = 200e6;

/** V8's own memory is limited too: what is not freed ends the process. */
const FLAGS = ['--max-old-space-size=180'];

interface Cost {
  readonly path: string;
  readonly outcomes: readonly string[];
  readonly milliseconds: number;
  readonly byteLength: number;
}

async function costsOf(paths: readonly string[]): Promise<Cost[]> {
  const script = 'foreign/children/read-hostile.mjs';
  const { code, signal, stdout, stderr } = await runChild(script, paths, { flags: FLAGS });
  const costs = stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Cost);
  expect(`${signal ?? code} after ${costs.at(-1)?.path} ${stderr}`).toMatch(/^0 after/);
  return costs;
}

function expectCheap(
  { path, outcomes, milliseconds, byteLength }: Cost,
  limit = MAX_MILLISECONDS,
): void {
  const about = `${path}: ${outcomes.join()}`;
  expect(milliseconds, about).toBeLessThan(MAX_MILLISECONDS);
  expect(byteLength, about).toBeLessThan(MAX_BYTE_LENGTH);
}

describe.runIf(process.platform === 'linux')('what hostile files cost', () => {
  it('is little for every recorded one', async () => {
    const costs = await costsOf(FIXTURES.map(pathOf));
    expect(costs).toHaveLength(FIXTURES.length);
    for (const cost of costs) expectCheap(cost);
    expect(existsSync('PWNED')).toBe(false);
  });
});
