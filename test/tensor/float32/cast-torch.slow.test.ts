import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  findPython,
  isSkipped,
  runPython,
  titleWith,
  withoutServer,
} from '../../support/python.js';
import { castBy, differences, readTables, STORED_FOLDER, type Table, ways } from './cast-tables.js';

const python = findPython('torch', 'numpy');
const script = fileURLToPath(new URL('../../../scripts/fixtures/cast_tables.py', import.meta.url));
const tables = readTables(STORED_FOLDER);

describe.skipIf(isSkipped(python))(titleWith(python, 'torch'), () => {
  const folder = mkdtempSync(join(tmpdir(), 'casts-'));
  let all: Table[] = [];

  let output = '';

  beforeAll(() => {
    const args = [script, '--check', fileURLToPath(STORED_FOLDER), folder];
    // The script says which loops torch takes before it imports it.
    output = runPython(withoutServer(python), args);
    all = readTables(pathToFileURL(`${folder}/`));
  });

  afterAll(() => rmSync(folder, { recursive: true }));

  it('gives the stored tables again', ({ skip }) => {
    if (all[0]?.anyNaN) skip('this torch has other loops, which make other NaNs');
    expect(output).toMatch(/^\d+ elements equal/);
  });

  it.each(ways)(
    '%s: every pattern of 16 bits, all ties, a million random ones',
    (way) => {
      expect(all).toHaveLength(tables.length);
      const different = all.flatMap((table) => {
        const { from, to, input } = table;
        const found = differences(table, castBy(way, from, to, input)[0]);
        return found.map((text) => `${from} to ${to}: ${text}`);
      });
      expect(different).toEqual([]);
    },
    60_000,
  );
});
