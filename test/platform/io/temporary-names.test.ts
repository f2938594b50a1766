import { expect, it } from 'vitest';
import {
  headerBackupOf,
  isInterimName,
  makeTemporaryName,
  TemporaryNames,
} from '../../../src/platform/io/temporary-names.js';

const PATTERN = 'model{suffix}.safetensors';

it('are of one form, different, and in use until they are released', () => {
  const names = new TemporaryNames(PATTERN);
  const { written, interim } = names.next();
  expect(written).toMatch(/^\.safetensors-mmap-[0-9a-f]{8}-[0-9a-f]{16}\.tmp$/);
  expect(interim).toBe(written.replace(/tmp$/, 'safetensors'));
  expect(names.next().written).not.toBe(written);
  const other = new TemporaryNames(PATTERN);
  expect([other.isLeftOver(written), other.isLeftOver(interim)]).toEqual([false, false]);
  names.release();
  expect([other.isLeftOver(written), other.isLeftOver(interim)]).toEqual([true, true]);
  expect([other.isUnfinished(written), other.isUnfinished(interim)]).toEqual([true, false]);
});

it('names of other patterns, of single files and of others are not left over', () => {
  const names = new TemporaryNames('model.fp16{suffix}.safetensors');
  const { written } = names.next();
  names.release();
  const other = new TemporaryNames(PATTERN);
  expect(other.isLeftOver(written)).toBe(false);
  for (const name of [
    '.safetensors-mmap-0123456789abcdef.tmp',
    `${written}.tmp`,
    written.replace('.tmp', ''),
    written.replace('.tmp', '0.tmp'),
    written.slice(1),
  ]) {
    expect(names.isLeftOver(name), name).toBe(false);
  }
  expect(names.isLeftOver(written)).toBe(true);
});

it('of a single file differ, and belong to no checkpoint', () => {
  const name = makeTemporaryName();
  expect(name).toMatch(/^\.safetensors-mmap-[0-9a-f]{16}\.tmp$/);
  expect(makeTemporaryName()).not.toBe(name);
  expect(new TemporaryNames(PATTERN).isLeftOver(name)).toBe(false);
  expect(isInterimName(name)).toBe(false);
});

it('interim ones are known whatever the pattern', () => {
  const { written, interim } = new TemporaryNames(PATTERN).next();
  expect([isInterimName(interim), isInterimName(written)]).toEqual([true, false]);
  expect(isInterimName(`x${interim}`)).toBe(false);
  expect(isInterimName('model.safetensors')).toBe(false);
});

it('a backup has the name of its file, byte for byte, and an ending', () => {
  const folder = Buffer.from('/');
  const path = Buffer.of(0x2f, 0xff, 0x61);
  const backup = headerBackupOf({ path, folder });
  expect(backup).toEqual(Buffer.concat([path, Buffer.from('.header-backup')]));
});

it('a backup of a file with a long name has a name of its own that fits', () => {
  const folder = Buffer.from('/folder/');
  const backupOf = (name: string): string =>
    headerBackupOf({ path: Buffer.from(`/folder/${name}`), folder }).toString();
  expect(backupOf('x'.repeat(241))).toBe(`/folder/${'x'.repeat(241)}.header-backup`);
  expect(backupOf('x'.repeat(242))).toMatch(
    /^\/folder\/\.safetensors-mmap-[0-9a-f]{32}\.header-backup$/,
  );
  // Bytes count, not characters.
  expect(backupOf('ä'.repeat(121))).toMatch(/mmap-[0-9a-f]{32}\.header-backup$/);
  expect(backupOf('x'.repeat(242))).toBe(backupOf('x'.repeat(242)));
  expect(backupOf('x'.repeat(242))).not.toBe(backupOf('x'.repeat(243)));
});
