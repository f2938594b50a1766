import { mkdirSync, realpathSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { syncFolder } from '../../../src/write/replacement/folder-sync.js';
import { temporaryPath } from '../../support/make-file.js';

type Code = 'EACCES' | 'EPERM' | 'EINVAL' | 'ENOTSUP' | 'EMFILE' | 'EIO';

const { failing, calls, opened } = vi.hoisted(() => ({
  failing: {} as { openSync?: Code | undefined; fsync?: Code | undefined },
  calls: [] as string[],
  opened: new Map<number, string>(),
}));

// The system's answers to users other than root, to a process with too many files, and of a failing disk.
vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  /** Notes a call with the path of its descriptor, and throws its error. */
  const note = (name: string, path: string | undefined, code: Code | undefined): void => {
    calls.push(`${name} ${path}`);
    if (code === undefined) return;
    throw Object.assign(new Error(code), { code, errno: -constants.errno[code], syscall: name });
  };
  const openSync: typeof fs.openSync = (path, ...rest) => {
    note('open', String(path), failing.openSync);
    const fd = fs.openSync(path, ...rest);
    opened.set(fd, String(path));
    return fd;
  };
  const fsync = (fd: number, callback: (error: Error | null) => void): void => {
    try {
      note('fsync', opened.get(fd), failing.fsync);
    } catch (error) {
      callback(error as Error);
      return;
    }
    fs.fsync(fd, callback);
  };
  const closeSync: typeof fs.closeSync = (fd) => {
    if (opened.has(fd)) note('close', opened.get(fd), undefined);
    opened.delete(fd);
    fs.closeSync(fd);
  };
  return { ...fs, openSync, fsync: fsync as typeof fs.fsync, closeSync };
});

beforeEach(() => {
  Object.assign(failing, { openSync: undefined, fsync: undefined });
  calls.length = 0;
});

describe('syncFolder', () => {
  /** A folder, and the calls for it when all succeed. */
  const folder = (): { path: string; all: string[] } => {
    const path = join(realpathSync(dirname(temporaryPath('x'))), 'folder');
    mkdirSync(path);
    return { path, all: ['open', 'fsync', 'close'].map((name) => `${name} ${path}`) };
  };
  const expectCalls = (expected: readonly string[]): void =>
    expect(calls).toEqual(process.platform === 'win32' ? [] : expected);

  test('syncs a folder', async () => {
    const { path, all } = folder();
    await syncFolder(Buffer.from(path), 'label');
    expectCalls(all);
  });

  test.each(['EACCES', 'EPERM'] as const)(
    'skips a folder without read permission (%s)',
    async (code) => {
      const { path, all } = folder();
      failing.openSync = code;
      await syncFolder(Buffer.from(path), 'label');
      expectCalls(all.slice(0, 1));
    },
  );

  test.each(['EINVAL', 'ENOTSUP'] as const)(
    'skips a folder that cannot be synced (%s)',
    async (code) => {
      const { path, all } = folder();
      failing.fsync = code;
      await syncFolder(Buffer.from(path), 'label');
      expectCalls(all);
    },
  );

  test.skipIf(process.platform === 'win32').each([
    ['EMFILE', 'openSync'],
    ['EIO', 'fsync'],
  ] as const)('throws %s of %s, and names the file', async (code, name) => {
    const { path, all } = folder();
    failing[name] = code;
    await expect(syncFolder(Buffer.from(path), 'label')).rejects.toMatchObject({
      code,
      path: 'label',
    });
    const [open] = all as [string];
    // Without a free descriptor, it is tried again after those of dropped files are closed.
    expectCalls(name === 'fsync' ? all : [open, open]);
  });
});
