import { mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { innerPath, makeInnerFolders } from '../../../src/write/replacement/inner-paths.js';
import { temporaryPath } from '../../support/make-file.js';

let folder = '';
beforeEach(() => {
  folder = temporaryPath('folder');
  mkdirSync(folder, { recursive: true });
});

it('is the path of a file, whether its folders are there or not', () => {
  expect(innerPath(folder, 'a')).toBe(join(folder, 'a'));
  expect(innerPath(folder, 'a/b/c')).toBe(join(folder, 'a', 'b', 'c'));
  makeInnerFolders(folder, 'a/b/c');
  makeInnerFolders(folder, 'a/b/c');
  expect(statSync(join(folder, 'a', 'b')).isDirectory()).toBe(true);
  expect(innerPath(folder, 'a/b/c')).toBe(join(folder, 'a', 'b', 'c'));
});

it('refuses a link in place of a folder, at every depth, also one that stays inside or leads nowhere', () => {
  mkdirSync(join(folder, 'a'));
  for (const [link, to, name] of [
    ['link', folder, 'link/c'],
    ['a/link', join(folder, 'a'), 'a/link/c'],
    ['nowhere', join(folder, 'missing'), 'nowhere/b/c'],
  ] as const) {
    symlinkSync(to, join(folder, link));
    const refused = expect.objectContaining({
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
      path: folder,
      message: expect.stringContaining(JSON.stringify(link)),
    });
    expect(() => innerPath(folder, name)).toThrow(refused);
    expect(() => makeInnerFolders(folder, name)).toThrow(refused);
  }
});

it('takes a link in place of the file itself, and passes on that a folder is a file', () => {
  symlinkSync(folder, join(folder, 'link'));
  expect(innerPath(folder, 'link')).toBe(join(folder, 'link'));
  writeFileSync(join(folder, 'file'), '');
  expect(() => makeInnerFolders(folder, 'file/b/c')).toThrow(
    expect.objectContaining({ code: 'ENOTDIR' }),
  );
});
