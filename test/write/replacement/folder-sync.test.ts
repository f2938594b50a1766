import { dirname } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { syncFolder, syncFolderSync } from '../../../src/write/replacement/folder-sync.js';
import { temporaryPath } from '../../support/make-file.js';

const { failing } = vi.hoisted(() => ({ failing: { code: undefined as string | undefined } }));

// The system's answers to users other than root, or to a process with too many files.
vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const openSync: typeof fs.openSync = (...args) => {
    const { code } = failing;
    if (code === undefined) return fs.openSync(...args);
    throw Object.assign(new Error(code), { code, errno: -24, syscall: 'open' });
  };
  return { ...fs, openSync };
});

afterEach(() => {
  failing.code = undefined;
});

const forms = [
  ['syncFolder', syncFolder],
  ['syncFolderSync', async (...args: Parameters<typeof syncFolder>) => syncFolderSync(...args)],
] as const;

describe.each(forms)('%s', (_, sync) => {
  const here = (): Buffer => Buffer.from(dirname(temporaryPath('x')));

  test('syncs a folder', async () => {
    await sync(here(), 'label');
  });

  test.each(['EACCES', 'EPERM'])('one that we may not read is left alone (%s)', async (code) => {
    failing.code = code;
    await sync(here(), 'label');
  });

  test('other errors of opening it are thrown, and name the file', async () => {
    failing.code = 'EMFILE';
    await expect(sync(here(), 'label')).rejects.toMatchObject({ code: 'EMFILE', path: 'label' });
  });
});
