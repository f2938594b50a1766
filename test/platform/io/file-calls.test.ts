import { closeSync, openSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  closeFile,
  closeQuietly,
  readOnce,
  removeQuietly,
  statOpened,
} from '../../../src/platform/io/file-calls.js';
import { runAsync, runSync, type Work } from '../../../src/work/work.js';
import { temporaryPath } from '../../support/make-file.js';

const { failing } = vi.hoisted(() => ({
  /** Answers of the next calls of these names. */
  failing: new Map<string, string[]>(),
}));

vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const next = (name: string): Error | undefined => {
    const code = failing.get(name)?.shift();
    if (code === undefined) return undefined;
    const errno = -((constants.errno as Record<string, number>)[code] ?? 0);
    return Object.assign(new Error(`${code}: ${name}`), { code, errno, syscall: name });
  };
  // biome-ignore lint/suspicious/noExplicitAny: stands for functions of any kind
  const inFrontOf = (name: string, behind: any): any =>
    Object.defineProperties(
      // biome-ignore lint/suspicious/noExplicitAny: as above
      (...args: any[]) => {
        const error = next(name);
        if (error === undefined) return behind(...args);
        // The system closes it all the same.
        if (name.startsWith('close')) fs.closeSync(args[0]);
        if (name.endsWith('Sync')) throw error;
        return args.at(-1)(error);
      },
      // The property that promisify reads is not enumerable.
      Object.getOwnPropertyDescriptors(behind),
    );
  const names = ['read', 'readSync', 'fstat', 'fstatSync', 'close', 'closeSync', 'rmSync'] as const;
  return { ...fs, ...Object.fromEntries(names.map((name) => [name, inFrontOf(name, fs[name])])) };
});

afterEach(() => failing.clear());

const forms = [
  ['on this thread', 'Sync', async <Result>(work: Work<Result>) => runSync(work)],
  ['on the pool', '', <Result>(work: Work<Result>) => runAsync(work, undefined)],
] as const;

describe.each(forms)('%s', (_, suffix, run) => {
  it('reads again what a signal interrupts', async () => {
    const path = temporaryPath('file');
    writeFileSync(path, 'bytes');
    const fd = openSync(path, 'r');
    failing.set(`read${suffix}`, ['EINTR', 'EINTR']);
    const target = new Uint8Array(5);
    expect(await run(readOnce({ fd, path }, target, 5, 0))).toBe(5);
    expect(Buffer.from(target).toString()).toBe('bytes');
    closeSync(fd);
  });

  it.each([
    ['read', (file: { fd: number; path: string }) => readOnce(file, new Uint8Array(1), 1, 0)],
    ['fstat', (file: { fd: number; path: string }) => statOpened(file)],
  ])('names the file of which %s fails', async (name, call) => {
    const path = temporaryPath('file');
    writeFileSync(path, 'bytes');
    const fd = openSync(path, 'r');
    failing.set(`${name}${suffix}`, ['EIO']);
    await expect(run<unknown>(call({ fd, path }))).rejects.toMatchObject({ code: 'EIO', path });
    closeSync(fd);
  });

  it('closes once, whatever the system answers', async () => {
    const path = temporaryPath('file');
    writeFileSync(path, 'bytes');
    const fd = openSync(path, 'r');
    failing.set(`close${suffix}`, ['EIO']);
    await run(closeFile(fd));
    expect(() => closeSync(fd)).toThrow('EBADF');
  });
});

it('closes and deletes without an error', () => {
  closeQuietly(2 ** 31 - 1);
  failing.set('rmSync', ['EROFS']);
  removeQuietly(temporaryPath('file'));
});
