import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, expect, it } from 'vitest';
import { readSmallFile, readText, writeNewFile } from '../../../src/platform/io/small-files.js';
import { runAsync, runSync } from '../../../src/work/work.js';
import { nightly } from '../../support/nightly.js';
import { measureInChild } from '../../support/run-child.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
afterAll(() => rmSync(folder, { recursive: true }));

it.each([0, 1, 70_000])('reads all %i bytes of a file, in both ways', async (length) => {
  const path = join(folder, `read-${length}`);
  const bytes = Buffer.alloc(length, 'é', 'latin1');
  writeFileSync(path, bytes);
  expect(runSync(readSmallFile(path))).toEqual(bytes);
  expect(await runAsync(readText(path), undefined)).toBe('é'.repeat(length));
});

it.each([true, false])('writes a new file, durable %s', async (durable) => {
  const path = join(folder, `written-${durable}`);
  await writeNewFile(path, 'text é', { durable });
  expect(runSync(readSmallFile(path)).toString()).toBe('text é');
  const again = writeNewFile(path, 'other', { durable });
  await expect(again).rejects.toMatchObject({ code: 'EEXIST', path });
  expect(runSync(readSmallFile(path)).toString()).toBe('text é');
});

it('says which file is not there', async () => {
  const path = join(folder, 'none');
  expect(() => runSync(readText(path))).toThrow(expect.objectContaining({ code: 'ENOENT', path }));
});

it.skipIf(process.platform !== 'linux')(
  'leaves no descriptor open in a worker that is ended',
  async () => {
    expect(
      await measureInChild('platform/io/children/ended-files.mjs', [nightly('12', '6')]),
    ).toEqual({ left: 0 });
  },
);
