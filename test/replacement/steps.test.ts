/** A replacement whose steps are taken one by one, as those of many files are. */
import {
  chmodSync,
  fstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writeViews } from '../../src/io/file-copy.js';
import { Replacement } from '../../src/replacement/replacement.js';
import { temporaryPath } from '../support/make-file.js';

function makeFolder(): string {
  const folder = temporaryPath('steps');
  mkdirSync(folder);
  return folder;
}

it('is finished without a descriptor, and moved in place of a link', async () => {
  const folder = makeFolder();
  writeFileSync(join(folder, 'elsewhere'), 'old');
  symlinkSync('elsewhere', join(folder, 'link'));
  const options = { byteLength: 3, durable: true, temporaryName: '.mine' };
  const replacement = await Replacement.open(join(folder, 'unused'), 'label', options);
  expect(readdirSync(folder)).toContain('.mine');
  await writeViews(replacement, [new TextEncoder().encode('new')], 0);
  await replacement.finish();
  expect(() => fstatSync(replacement.fd)).toThrow('EBADF');
  await replacement.finish();
  await replacement.moveTo(join(folder, 'link'));
  replacement.discard();
  expect(readdirSync(folder).sort()).toEqual(['elsewhere', 'link']);
  expect(readFileSync(join(folder, 'link'), 'utf8')).toBe('new');
  expect(readFileSync(join(folder, 'elsewhere'), 'utf8')).toBe('old');
});

it('gets the permissions of the file that it shall be like', async () => {
  const folder = makeFolder();
  writeFileSync(join(folder, 'old'), '');
  chmodSync(join(folder, 'old'), 0o640);
  const like = statSync(join(folder, 'old'));
  const options = { byteLength: 0, durable: false, like };
  const replacement = await Replacement.open(join(folder, 'new'), 'label', options);
  await replacement.commit();
  expect(statSync(join(folder, 'new')).mode & 0o777).toBe(0o640);
});

it('goes away when aborted before it is finished, or when it cannot be moved', async () => {
  const folder = makeFolder();
  const options = { byteLength: 0, durable: true };
  const aborted = await Replacement.open(join(folder, 'a'), 'label', options);
  await expect(aborted.finish(AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  expect(readdirSync(folder)).toEqual([]);
  mkdirSync(join(folder, 'folder'));
  const moved = await Replacement.open(join(folder, 'a'), 'label', options);
  await moved.finish();
  await expect(moved.moveTo(join(folder, 'folder'))).rejects.toThrow(
    expect.objectContaining({ code: 'EISDIR', path: 'label' }),
  );
  expect(readdirSync(folder)).toEqual(['folder']);
});
