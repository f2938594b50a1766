import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const { opened } = vi.hoisted(() => ({ opened: [] as string[] }));

// Folders are opened to be synced.
vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const openSync: typeof fs.openSync = (path, ...rest) => {
    opened.push(String(path).replace(/\/$/, ''));
    return fs.openSync(path, ...rest);
  };
  return { ...fs, openSync };
});

const TENSORS = { a: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } } as const;

describe.skipIf(process.platform === 'win32')('the name of the folder', () => {
  beforeEach(() => {
    opened.length = 0;
  });

  test('is synced with those above it that were made', async () => {
    const folder = join(temporaryPath('new'), 'inner');
    await saveCheckpoint(folder, TENSORS);
    expect(opened).toEqual(expect.arrayContaining([dirname(folder), dirname(dirname(folder))]));
  });

  test('is synced when the folder is there: a save that crashed may have made it', async () => {
    const folder = temporaryPath('there');
    mkdirSync(folder);
    await saveCheckpoint(folder, TENSORS);
    expect(opened).toContain(dirname(folder));
  });

  test('is not synced when the save is not durable', async () => {
    const folder = temporaryPath('there');
    mkdirSync(folder);
    await saveCheckpoint(folder, TENSORS, { durable: false });
    expect(opened).not.toContain(dirname(folder));
  });
});
