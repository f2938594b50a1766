import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { writeNewFile } from '../../../src/platform/io/new-file.js';
import { temporaryPath } from '../../support/make-file.js';

it.each([true, false])('writes a new file, durable %s', async (durable) => {
  const path = temporaryPath('new');
  await writeNewFile(path, 'text é', { durable });
  expect(readFileSync(path, 'utf8')).toBe('text é');
  const again = writeNewFile(path, 'other', { durable });
  await expect(again).rejects.toMatchObject({ code: 'EEXIST', path });
  expect(readFileSync(path, 'utf8')).toBe('text é');
});
