import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { giveSecondName } from '../../src/replacement/second-name.js';
import { temporaryPath } from '../support/make-file.js';

it('takes the place of another file by a link, and the first name stays', async () => {
  const folder = temporaryPath('names');
  mkdirSync(folder);
  const [source, path] = [join(folder, 'source'), join(folder, 'path')];
  writeFileSync(source, 'new');
  writeFileSync(path, 'old');
  const openCopy = (): never => {
    throw new Error('no copy is needed');
  };
  await giveSecondName(source, { path, temporaryPath: join(folder, 'tmp'), openCopy });
  expect(readFileSync(path, 'utf8')).toBe('new');
  expect(statSync(path).ino).toBe(statSync(source).ino);
  expect(readdirSync(folder).sort()).toEqual(['path', 'source']);
});

it('leaves nothing when the place cannot be taken', async () => {
  const folder = temporaryPath('names');
  mkdirSync(join(folder, 'path'), { recursive: true });
  writeFileSync(join(folder, 'source'), 'new');
  const given = giveSecondName(join(folder, 'source'), {
    path: join(folder, 'path'),
    temporaryPath: join(folder, 'tmp'),
    openCopy: () => Promise.reject(new Error('no copy is needed')),
  });
  await expect(given).rejects.toThrow(expect.objectContaining({ code: 'EISDIR' }));
  expect(readdirSync(folder).sort()).toEqual(['path', 'source']);
});
