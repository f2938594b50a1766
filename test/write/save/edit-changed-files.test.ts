/** Files that change while their metadata are edited: the edit does not touch them. */
import {
  appendFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { editMetadata } from '../../support/api.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';

let path: string;

beforeEach(() => {
  path = writeTemporary([{ name: 'b', dtype: 'U8', shape: [7] }], { metadata: { b: '1' } });
  // So that a change of the time shows, whatever the clock of the file system.
  utimesSync(path, 1, 1);
});

const names = (): string[] => readdirSync(dirname(path));

describe.each([false, true])('inPlace: %s', (inPlace) => {
  test.each([
    ['grows', () => appendFileSync(path, 'x')],
    ['is touched', () => utimesSync(path, 5, 5)],
    ['is cut short', () => truncateSync(path, 100)],
    [
      'is replaced',
      () => {
        writeFileSync(temporaryPath('other'), readFileSync(path));
        utimesSync(temporaryPath('other'), 1, 1);
        renameSync(temporaryPath('other'), path);
      },
    ],
  ])('a file that %s meanwhile stays as it is then', async (_, change) => {
    const edit = editMetadata(path, { b: null }, { inPlace });
    change();
    const changed = readFileSync(path);
    await expect(edit).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
    expect(readFileSync(path)).toEqual(changed);
    expect(names()).toEqual(['model.safetensors']);
  });

  test('a file that is removed meanwhile stays away', async () => {
    const edit = editMetadata(path, { b: null }, { inPlace });
    unlinkSync(path);
    await expect(edit).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
    expect(names()).toEqual([]);
  });
});

describe('a new file does not take the place', () => {
  const ends: [string, string, () => void][] = [
    ['of one that changed when all was written', 'FILE_CHANGED', () => appendFileSync(path, 'x')],
    [
      'when there is a backup by then',
      'EDIT_INTERRUPTED',
      () => writeFileSync(`${path}.header-backup`, 'old'),
    ],
  ];
  test.each(ends)('%s', async (_, end, change) => {
    let expected: Buffer | undefined;
    const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }): void => {
      if (bytes < totalBytes) return;
      change();
      expected = readFileSync(path);
    };
    const edit = editMetadata(path, { b: null }, { onProgress });
    await expect(edit).rejects.toMatchObject({ code: `SAFETENSORS_${end}`, path });
    expect(readFileSync(path)).toEqual(expected);
    expect(names().filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });
});
