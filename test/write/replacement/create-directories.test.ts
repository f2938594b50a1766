import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder, removeCreated } from '../../../src/write/replacement/create-directories.js';
import { saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

/** Longer than the system allows for one name. */
const TOO_LONG = 'x'.repeat(300);

function newFolder(): string {
  const folder = temporaryPath('folder');
  mkdirSync(folder);
  return folder;
}

it('says which was the topmost that it made', () => {
  const folder = newFolder();
  expect(makeFolder(join(folder, 'a/b/c'))).toBe(join(folder, 'a'));
  expect(makeFolder(join(folder, 'a/b/d'))).toBe(join(folder, 'a/b/d'));
  expect(makeFolder(join(folder, 'a/b'))).toBe(undefined);
});

it('makes none when one of them cannot be made', async () => {
  const folder = newFolder();
  const path = join(folder, 'a/b', TOO_LONG);
  expect(() => makeFolder(path)).toThrow(expect.objectContaining({ code: 'ENAMETOOLONG', path }));
  const data = new Float32Array(2);
  const saved = saveCheckpoint(path, { a: { dtype: 'F32', shape: [2], data } });
  await expect(saved).rejects.toMatchObject({ code: 'ENAMETOOLONG' });
  expect(readdirSync(folder)).toEqual([]);
});

it('refuses a file in the place of a folder', () => {
  const folder = newFolder();
  writeFileSync(join(folder, 'file'), '');
  expect(() => makeFolder(join(folder, 'file'))).toThrow('EEXIST');
  expect(() => makeFolder(join(folder, 'file/a'))).toThrow('ENOTDIR');
});

it('removes what it made, as far as that is empty', () => {
  const folder = newFolder();
  const path = join(folder, 'a/b/c');
  const made = makeFolder(path);
  writeFileSync(join(folder, 'a/file'), '');
  removeCreated(path, made);
  expect(readdirSync(join(folder, 'a'))).toEqual(['file']);
  removeCreated(folder, undefined);
  expect(existsSync(folder)).toBe(true);
});
