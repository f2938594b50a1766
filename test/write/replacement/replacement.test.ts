import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Addon, AddonLoad } from '../../../src/platform/addon/load.js';
import { Replacement } from '../../../src/write/replacement/replacement.js';
import { temporaryPath } from '../../support/make-file.js';

const { calls, failing, addon } = vi.hoisted(() => ({
  calls: [] as string[],
  failing: new Map<string, string>(),
  addon: {} as { load?: AddonLoad; real?: AddonLoad },
}));

// Answers of a broken disk, and the order of the calls.
vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const { promisify } = await import('node:util');
  const constants = await import('node:os').then((os) => os.constants.errno);
  const before = (call: string): void => {
    calls.push(call);
    const code = failing.get(call) as keyof typeof constants | undefined;
    if (code === undefined) return;
    const error = new Error(`${code}: ${call}`);
    throw Object.assign(error, { code, errno: -constants[code], syscall: call });
  };
  const fsyncName = (fd: number): string =>
    fs.fstatSync(fd).isDirectory() ? 'fsync folder' : 'fsync';
  // The descriptor is closed even if close() fails.
  const closing = (fd: number): void => {
    fs.closeSync(fd);
    before('close');
  };
  const watched =
    (name: (...args: never[]) => string, call: (...args: never[]) => void) =>
    (...args: never[]): void => {
      before(name(...args));
      call(...args);
    };
  const asynchronous = (call: (...args: never[]) => void) =>
    Object.assign(() => {}, { [promisify.custom]: async (...args: never[]) => call(...args) });
  const fsyncSync = watched(fsyncName as () => string, fs.fsyncSync as () => void);
  const renameSync = watched(() => 'rename', fs.renameSync as () => void);
  const unlinkSync = watched(() => 'unlink', fs.unlinkSync as () => void);
  return {
    ...fs,
    fsyncSync,
    renameSync,
    unlinkSync,
    closeSync: closing,
    fsync: asynchronous(fsyncSync),
    rename: asynchronous(renameSync),
    close: asynchronous(closing as () => void),
  } as unknown as typeof fs;
});

vi.mock(import('../../../src/platform/addon/load.js'), async (importOriginal) => {
  const original = await importOriginal();
  addon.real = original.loadAddon();
  addon.load = addon.real;
  return { ...original, loadAddon: () => addon.load as AddonLoad };
});

let path: string;

beforeEach(() => {
  addon.load = addon.real as AddonLoad;
  path = temporaryPath('model.safetensors');
});

afterEach(() => {
  failing.clear();
  calls.length = 0;
});

const QUICK = { byteLength: 3, durable: false };
const DURABLE = { byteLength: 3, durable: true };

function temporaryFiles(): string[] {
  return readdirSync(dirname(path)).filter((name) => name.startsWith('.'));
}

describe('a replacement', () => {
  const openHere = (options = QUICK): Promise<Replacement> =>
    Replacement.open(path, 'label', options);

  async function replaceBy(text: string, options = QUICK): Promise<void> {
    const replacement = await openHere(options);
    writeSync(replacement.fd, text, 0);
    await replacement.commit();
  }

  test('the old file stays until the new one is in its place', async () => {
    writeFileSync(path, 'old content');
    const reader = openSync(path, 'r');
    const replacement = await openHere();
    expect(replacement.path).toBe('label');
    writeSync(replacement.fd, 'new', 0);
    expect(readFileSync(path, 'utf8')).toBe('old content');
    expect(temporaryFiles()).toEqual([
      expect.stringMatching(/^\.safetensors-mmap-[0-9a-f]{16}\.tmp$/),
    ]);
    await replacement.commit();
    expect(readFileSync(path, 'utf8')).toBe('new');
    expect(readSync(reader, Buffer.alloc(20))).toBe(11);
    closeSync(reader);
    expect(temporaryFiles()).toEqual([]);
    replacement.discard();
    expect(readFileSync(path, 'utf8')).toBe('new');
  });

  test('a discarded one leaves nothing', async () => {
    const replacement = await openHere();
    replacement.discard();
    replacement.discard();
    expect(readdirSync(dirname(path))).toEqual([]);
    expect(() => fstatSync(replacement.fd)).toThrow('EBADF');
  });

  test.each([0, 1, 4097, 1_000_000])('%d bytes are the length of the file', async (byteLength) => {
    const replacement = await openHere({ byteLength, durable: false });
    if (byteLength > 0) writeSync(replacement.fd, new Uint8Array(byteLength).fill(7), 0);
    await replacement.commit();
    expect(readFileSync(path).equals(Buffer.alloc(byteLength, 7))).toBe(true);
  });

  test('syncs file and folder, in this order, unless durable is false', async () => {
    await replaceBy('new', DURABLE);
    const order = ['fsync', 'close', 'rename', 'fsync folder', 'close'];
    expect(calls.slice(-order.length)).toEqual(order);
    calls.length = 0;
    await replaceBy('new');
    expect(calls.filter((call) => call !== 'close')).toEqual(['rename']);
  });

  test('a link stays, what it leads to is replaced', async () => {
    mkdirSync(temporaryPath('folder'));
    symlinkSync('folder/target', path);
    const replacement = await openHere();
    expect(replacement.realPath.toString()).toMatch(/\/folder\/target$/);
    await replacement.commit();
    expect(statSync(temporaryPath('folder/target')).size).toBe(3);
    expect(readdirSync(temporaryPath('folder'))).toEqual(['target']);
    await replaceBy('two');
    expect(readFileSync(temporaryPath('folder/target'), 'utf8')).toBe('two');
  });

  test('a name of 255 bytes', async () => {
    path = temporaryPath('n'.repeat(255));
    await replaceBy('new');
    expect(readFileSync(path, 'utf8')).toBe('new');
  });

  test('a missing folder is named with the target, and nothing is left', async () => {
    path = temporaryPath('missing/model');
    await expect(openHere()).rejects.toMatchObject({ code: 'ENOENT', path: 'label' });
    expect(readdirSync(dirname(dirname(path)))).toEqual([]);
  });

  describe('when it fails,', () => {
    test.each([
      ['fsync', 'EIO'],
      ['close', 'EIO'],
      ['rename', 'EIO'],
      ['rename', 'EPERM'],
    ])('at %s with %s the old file is whole and nothing else is left', async (call, code) => {
      writeFileSync(path, 'old');
      const replacement = await openHere(DURABLE);
      failing.set(call, code);
      await expect(replacement.commit()).rejects.toMatchObject({
        code,
        syscall: call,
        path: 'label',
      });
      failing.clear();
      expect(readFileSync(path, 'utf8')).toBe('old');
      expect(temporaryFiles()).toEqual([]);
      expect(() => fstatSync(replacement.fd)).toThrow('EBADF');
    });

    test('and cannot remove its file either, the first error is thrown', async () => {
      const replacement = await openHere(DURABLE);
      failing.set('fsync', 'ENOSPC').set('unlink', 'EIO').set('close', 'EIO');
      await expect(replacement.commit()).rejects.toMatchObject({ code: 'ENOSPC' });
      failing.clear();
      expect(temporaryFiles()).toHaveLength(1);
    });

    test('to sync a folder, only an error of the disk is thrown', async () => {
      failing.set('fsync folder', 'EINVAL');
      await replaceBy('one', DURABLE);
      failing.set('fsync folder', 'EIO');
      await expect(replaceBy('two', DURABLE)).rejects.toMatchObject({ code: 'EIO', path: 'label' });
      expect(readFileSync(path, 'utf8')).toBe('two');
      expect(temporaryFiles()).toEqual([]);
    });

    test('since the folder is gone, the error names the target', async () => {
      path = temporaryPath('folder/model');
      mkdirSync(dirname(path));
      const replacement = await openHere();
      rmSync(dirname(path), { recursive: true });
      await expect(replacement.commit()).rejects.toMatchObject({ code: 'ENOENT', path: 'label' });
    });
  });

  describe('space', () => {
    function allocating(code: string): AddonLoad {
      const real = addon.real as Extract<AddonLoad, { addon: Addon }>;
      const allocateAsync = async (): Promise<never> => {
        const errno = { ENOSPC: -28, EDQUOT: -122, EFBIG: -27 }[code] ?? -95;
        throw Object.assign(new Error(code), { code, errno, syscall: 'fallocate' });
      };
      return { ...real, addon: { ...real.addon, allocateAsync } };
    }

    test.each(['ENOSPC', 'EDQUOT', 'EFBIG'])(
      '%s comes before anything is written',
      async (code) => {
        writeFileSync(path, 'old');
        addon.load = allocating(code);
        await expect(openHere()).rejects.toMatchObject({
          code,
          syscall: 'fallocate',
          path: 'label',
          message: expect.stringMatching(new RegExp(`^${code}: .*, fallocate 'label'$`)),
        });
        expect(readFileSync(path, 'utf8')).toBe('old');
        expect(temporaryFiles()).toEqual([]);
      },
    );

    test.runIf(process.platform === 'linux')('is reserved on the disk', async () => {
      const replacement = await openHere({ byteLength: 1_000_000, durable: false });
      expect(fstatSync(replacement.fd).blocks * 512).toBeGreaterThanOrEqual(1_000_000);
      replacement.discard();
      await expect(openHere({ byteLength: 2 ** 53 - 1, durable: false })).rejects.toMatchObject({
        code: 'EFBIG',
        path: 'label',
      });
      expect(temporaryFiles()).toEqual([]);
    });

    test.each([
      ['ENOTSUP', () => allocating('ENOTSUP')],
      ['ENOSYS', () => allocating('ENOSYS')],
      ['EINVAL', () => allocating('EINVAL')],
      ['no addon', () => ({ reason: 'none', remedy: 'none' })],
    ])(
      'cannot be reserved (%s): it goes on, and the file is as long as what is written',
      async (_, load) => {
        addon.load = load();
        const replacement = await openHere({ byteLength: 3, durable: false });
        expect(fstatSync(replacement.fd).size).toBe(0);
        writeSync(replacement.fd, 'new', 0);
        await replacement.commit();
        expect(readFileSync(path, 'utf8')).toBe('new');
      },
    );
  });
});

describe('on Windows', () => {
  const { platform } = process;

  beforeEach(() => {
    Object.defineProperty(process, 'platform', { value: 'win32' });
  });
  afterEach(() => {
    Object.defineProperty(process, 'platform', { value: platform });
  });

  test.each(['EPERM', 'EBUSY', 'EACCES'])('%s is a target that is open or mapped', async (code) => {
    const replacement = await Replacement.open(path, 'label', DURABLE);
    failing.set('rename', code);
    await expect(replacement.commit()).rejects.toMatchObject({
      code: 'SAFETENSORS_TARGET_IN_USE',
      path: 'label',
      message: expect.stringContaining('close({ detach: true })'),
      cause: { code },
    });
  });

  test('other errors stay what they are', async () => {
    const replacement = await Replacement.open(path, 'label', DURABLE);
    failing.set('rename', 'ENOSPC');
    await expect(replacement.commit()).rejects.toMatchObject({ code: 'ENOSPC', path: 'label' });
  });
});

describe('at the last moment', () => {
  // Looks like an error of the system, but is the caller's.
  const reason = Object.assign(new Error('enough'), { code: 'ECONNRESET', errno: -104 });

  let replacement: Replacement;

  beforeEach(async () => {
    writeFileSync(path, 'old');
    replacement = await Replacement.open(path, 'label', { byteLength: 3, durable: true });
    writeSync(replacement.fd, 'new', 0);
  });

  function expectOld(): void {
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
    expect(() => fstatSync(replacement.fd)).toThrow('EBADF');
  }

  test('an abort keeps the old file, and its reason comes as it is', async () => {
    const controller = new AbortController();
    const committing = replacement.commit(controller.signal);
    controller.abort(reason);
    await expect(committing).rejects.toBe(reason);
    expectOld();
  });

  test('so does a check that throws', async () => {
    const check = (): never => {
      throw reason;
    };
    await expect(replacement.commit(undefined, check)).rejects.toBe(reason);
    expectOld();
  });

  test('of two that check the old file, only the first takes its place', async () => {
    const second = await Replacement.open(path, 'label', { byteLength: 3, durable: true });
    writeSync(second.fd, 'two', 0);
    const check = (old: Buffer): void => {
      if (readFileSync(old, 'utf8') !== 'old') throw reason;
    };
    const results = await Promise.allSettled(
      [replacement, second].map((each) => each.commit(undefined, check)),
    );
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const isFirst = results[0]?.status === 'fulfilled';
    expect(readFileSync(path, 'utf8')).toBe(isFirst ? 'new' : 'two');
    expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
  });
});

/** As a checkpoint does: all files are finished before the first gets its name. */
describe('step by step', () => {
  test('it is finished without a descriptor, and moved in place of a link', async () => {
    const folder = dirname(path);
    writeFileSync(join(folder, 'elsewhere'), 'old');
    symlinkSync('elsewhere', join(folder, 'link'));
    const options = { byteLength: 3, durable: true, temporaryName: '.mine' };
    const replacement = await Replacement.open(join(folder, 'unused'), 'label', options);
    expect(readdirSync(folder)).toContain('.mine');
    writeSync(replacement.fd, 'new', 0);
    await replacement.finish();
    expect(() => fstatSync(replacement.fd)).toThrow('EBADF');
    await replacement.finish();
    await replacement.moveTo(join(folder, 'link'));
    replacement.discard();
    expect(readdirSync(folder).sort()).toEqual(['elsewhere', 'link']);
    expect(readFileSync(join(folder, 'link'), 'utf8')).toBe('new');
    expect(readFileSync(join(folder, 'elsewhere'), 'utf8')).toBe('old');
  });

  test('it goes away when aborted before it is finished, or when it cannot be moved', async () => {
    const folder = dirname(path);
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
});
