/** Locks against other processes, and the queue of this one. */
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Addon } from '../../../src/platform/addon/binding.js';
import {
  inTurn,
  requireLockTimeout,
  tryToLock,
  waitForLock,
} from '../../../src/write/replacement/locks.js';
import { temporaryPath } from '../../support/make-file.js';
import { startChild } from '../../support/message-children.js';

const { failing } = vi.hoisted(() => ({ failing: { lock: undefined as string | undefined } }));

vi.mock(import('../../../src/platform/addon/addon.js'), async (importOriginal) => {
  const { addon: load } = await importOriginal();
  const addon = (): Addon | undefined => {
    const native = load();
    if (native === undefined || failing.lock === 'no addon') return undefined;
    if (failing.lock === undefined) return native;
    const lockFile = (): never => {
      throw Object.assign(new Error(failing.lock), { code: failing.lock, errno: -1 });
    };
    return { ...native, lockFile };
  };
  return { addon };
});

const open: number[] = [];

function openAgain(path: string): number {
  const fd = openSync(path, 'r');
  open.push(fd);
  return fd;
}

function close(fd: number): void {
  open.splice(open.indexOf(fd), 1);
  closeSync(fd);
}

let path: string;

beforeEach(() => {
  path = temporaryPath('file');
  writeFileSync(path, '');
});

afterEach(() => {
  failing.lock = undefined;
  for (const fd of open.splice(0)) closeSync(fd);
});

describe.runIf(process.platform === 'linux')('a lock', () => {
  test.each(['file', 'folder'])('of a %s excludes until its descriptor is closed', (kind) => {
    if (kind === 'folder') {
      path = temporaryPath('folder');
      mkdirSync(path);
    }
    const [first, second] = [openAgain(path), openAgain(path)];
    expect([tryToLock(first), tryToLock(first), tryToLock(second)]).toEqual([true, true, false]);
    close(first);
    expect(tryToLock(second)).toBe(true);
  });

  test('is waited for until it is free', async () => {
    const [first, second] = [openAgain(path), openAgain(path)];
    tryToLock(first);
    let isLocked = false;
    const waiting = waitForLock(second, 'label', { lockTimeout: Number.POSITIVE_INFINITY });
    void waiting.then(() => {
      isLocked = true;
    });
    await setTimeout(50);
    expect(isLocked).toBe(false);
    close(first);
    await waiting;
    expect(tryToLock(openAgain(path))).toBe(false);
  });

  test.each([0, 30])('that is not free within %i ms is an error', async (lockTimeout) => {
    tryToLock(openAgain(path));
    const start = performance.now();
    await expect(waitForLock(openAgain(path), 'label', { lockTimeout })).rejects.toMatchObject({
      code: 'SAFETENSORS_LOCKED',
      path: 'label',
      message: expect.stringContaining(`within ${lockTimeout} ms`),
    });
    expect(performance.now() - start).toBeGreaterThanOrEqual(lockTimeout - 1);
  });

  test('is not waited for any more after an abort, whose reason comes as it is', async () => {
    tryToLock(openAgain(path));
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = waitForLock(openAgain(path), 'label', { signal });
    await setTimeout(20);
    const reason = { enough: true };
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(waitForLock(openAgain(path), 'label', { signal })).rejects.toBe(reason);
  });

  test('ends with its process', async () => {
    const child = await startChild('write/replacement/children/hold-lock.mjs', path);
    const fd = openAgain(path);
    expect(tryToLock(fd)).toBe(false);
    child.kill('SIGKILL');
    await waitForLock(fd, 'label', { lockTimeout: 10_000 });
  });

  test('other errors are thrown', () => {
    failing.lock = 'EIO';
    expect(() => tryToLock(openAgain(path))).toThrow('EIO');
  });
});

test.each(['no addon', 'ENOLCK', 'EBADF', 'EINVAL', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP'])(
  'where there are no locks (%s), everybody gets one',
  async (code) => {
    failing.lock = code;
    expect([tryToLock(openAgain(path)), tryToLock(openAgain(path))]).toEqual([true, true]);
    await waitForLock(openAgain(path), 'label', { lockTimeout: 0 });
  },
);

test('lockTimeout is a number of milliseconds', () => {
  for (const lockTimeout of [undefined, 0, 1.5, Number.POSITIVE_INFINITY]) {
    requireLockTimeout({ lockTimeout });
  }
  for (const lockTimeout of [-1, Number.NaN]) {
    expect(() => requireLockTimeout({ lockTimeout })).toThrow(RangeError);
  }
  expect(() => requireLockTimeout({ lockTimeout: '1' as never })).toThrow(TypeError);
});

describe('work in turn', () => {
  const log: string[] = [];

  beforeEach(() => {
    log.length = 0;
  });

  /** Work that ends when it is told. */
  function pending(name: string, key: string, signal?: AbortSignal): [Promise<string>, () => void] {
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const done = inTurn(key, signal, async () => {
      log.push(`${name} begins`);
      await ended;
      log.push(`${name} ends`);
      return name;
    });
    return [done, end];
  }

  test('begins at once, or when all earlier work with its key has ended', async () => {
    const [first, endFirst] = pending('first', 'key');
    const [second, endSecond] = pending('second', 'key');
    const [other, endOther] = pending('other', 'other key');
    expect(log).toEqual(['first begins', 'other begins']);
    endSecond();
    endOther();
    await other;
    endFirst();
    expect(await Promise.all([first, second])).toEqual(['first', 'second']);
    expect(log.slice(2)).toEqual(['other ends', 'first ends', 'second begins', 'second ends']);
    // Nothing is left of the queue.
    await setTimeout(1);
    const [third, endThird] = pending('third', 'key');
    expect(log.at(-1)).toBe('third begins');
    endThird();
    await third;
  });

  test('work that is aborted while it waits lets nobody pass', async () => {
    const [first, endFirst] = pending('first', 'key');
    const controller = new AbortController();
    const [aborted] = pending('aborted', 'key', controller.signal);
    const [last, endLast] = pending('last', 'key');
    controller.abort(new Error('enough'));
    await expect(aborted).rejects.toThrow('enough');
    endLast();
    await setTimeout(5);
    expect(log).toEqual(['first begins']);
    endFirst();
    await Promise.all([first, last]);
    expect(log).toEqual(['first begins', 'first ends', 'last begins', 'last ends']);
  });

  test('work that fails lets the next begin', async () => {
    const failed = inTurn('key', undefined, async () => {
      throw new Error('failed');
    });
    const [next, end] = pending('next', 'key');
    end();
    await expect(failed).rejects.toThrow('failed');
    expect(await next).toBe('next');
  });
});
