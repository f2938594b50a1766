/** Files with the longest names that a file system takes. */
import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { editMetadata, safeOpen, saveFile } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

test.each([241, 242, 255])('a name of %i bytes can be saved and edited', async (length) => {
  const name = 'x'.repeat(length);
  const path = temporaryPath(name);
  await saveFile(path, {}, { metadata: { saved: '1' }, reserve: 100 });
  await saveFile(path, {}, { metadata: { saved: '2' }, reserve: 100 });
  expect(await editMetadata(path, { edited: '1' })).toMatchObject({ method: 'rewritten' });
  const inPlace = await editMetadata(path, { edited: '2' }, { inPlace: true });
  expect(inPlace).toMatchObject({ method: 'inPlace' });
  using file = safeOpen(path);
  expect(Object.fromEntries(file.metadata ?? [])).toEqual({ saved: '2', edited: '2' });
  expect(readdirSync(dirname(path))).toEqual([name]);
});
