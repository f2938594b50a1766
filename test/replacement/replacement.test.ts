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
import { dirname } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { NativeBinding, NativeLoad } from '../../src/addon/load.js';
import {
  commitError,
  Replacement,
  type ReplacementOptions,
} from '../../src/replacement/replacement.js';
import { temporaryPath } from '../support/make-file.js';

const { calls, failing, addon } = vi.hoisted(() => ({
  calls: [] as string[],
  failing: new Map<string, string>(),
  addon: {} as { load?: NativeLoad; real?: NativeLoad },
}));

// What a disk answers only when it is broken, and the order of what it is asked.
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
  // The descriptor is closed whatever close() says.
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
  const rmSync = watched(() => 'rm', fs.rmSync as () => void);
  return {
    ...fs,
    fsyncSync,
    renameSync,
    rmSync,
    closeSync: closing,
    fsync: asynchronous(fsyncSync),
    rename: asynchronous(renameSync),
    close: asynchronous(closing as () => void),
  } as unknown as typeof fs;
});

vi.mock(import('../../src/addon/load.js'), async (importOriginal) => {
  const native = await importOriginal();
  addon.real = native.loadNative();
  addon.load = addon.real;
  return { ...native, loadNative: () => addon.load as NativeLoad };
});

let path: string;

beforeEach(() => {
  addon.load = addon.real as NativeLoad;
  path = temporaryPath('model.safetensors');
});

afterEach(() => {
  failing.clear();
  calls.length = 0;
});

const QUICK: ReplacementOptions = { byteLength: 3, durable: false };
const DURABLE: ReplacementOptions = { byteLength: 3, durable: true };

const forms = [
  {
    form: 'open and commit',
    open: Replacement.open,
    commit: (replacement: Replacement) => replacement.commit(),
  },
  {
    form: 'openSync and commitSync',
    open: async (...args: Parameters<typeof Replacement.openSync>) => Replacement.openSync(...args),
    commit: async (replacement: Replacement) => replacement.commitSync(),
  },
];

function temporaryFiles(): string[] {
  return readdirSync(dirname(path)).filter((name) => name.startsWith('.'));
}

describe.each(forms)('$form', ({ open, commit }) => {
  const openHere = (options = QUICK): Promise<Replacement> => open(path, 'label', options);

  async function replaceBy(text: string, options = QUICK): Promise<void> {
    const replacement = await openHere(options);
    writeSync(replacement.fd, text, 0);
    await commit(replacement);
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
    await commit(replacement);
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
    await commit(replacement);
    expect(readFileSync(path).equals(Buffer.alloc(byteLength, 7))).toBe(true);
  });

  test('syncs file and folder, in this order, unless it need not be durable', async () => {
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
    await commit(replacement);
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

  describe('when it fails', () => {
    test.each([
      ['fsync', 'EIO'],
      ['close', 'EIO'],
      ['rename', 'EIO'],
      ['rename', 'EPERM'],
    ])('at %s with %s the old file is whole and nothing else is left', async (call, code) => {
      writeFileSync(path, 'old');
      const replacement = await openHere(DURABLE);
      failing.set(call, code);
      await expect(commit(replacement)).rejects.toMatchObject({
        code,
        syscall: call,
        path: 'label',
      });
      failing.clear();
      expect(readFileSync(path, 'utf8')).toBe('old');
      expect(temporaryFiles()).toEqual([]);
      expect(() => fstatSync(replacement.fd)).toThrow('EBADF');
    });

    test('and cannot remove its file either, the first error is the one', async () => {
      const replacement = await openHere(DURABLE);
      failing.set('fsync', 'ENOSPC').set('rm', 'EIO').set('close', 'EIO');
      await expect(commit(replacement)).rejects.toMatchObject({ code: 'ENOSPC' });
      failing.clear();
      expect(temporaryFiles()).toHaveLength(1);
    });

    test('to sync a folder, that is told only when the disk is at fault', async () => {
      failing.set('fsync folder', 'EINVAL');
      await replaceBy('one', DURABLE);
      failing.set('fsync folder', 'EIO');
      await expect(replaceBy('two', DURABLE)).rejects.toMatchObject({ code: 'EIO', path: 'label' });
      expect(readFileSync(path, 'utf8')).toBe('two');
      expect(temporaryFiles()).toEqual([]);
    });

    test('because the folder became another file meanwhile', async () => {
      path = temporaryPath('folder/model');
      mkdirSync(dirname(path));
      const replacement = await openHere();
      rmSync(dirname(path), { recursive: true });
      await expect(commit(replacement)).rejects.toMatchObject({ code: 'ENOENT', path: 'label' });
    });
  });

  describe('space', () => {
    function allocating(code: string): NativeLoad {
      const { binding } = addon.real as { binding: NativeBinding };
      const allocate = (): never => {
        const errno = { ENOSPC: -28, EDQUOT: -122, EFBIG: -27 }[code] ?? -95;
        throw Object.assign(new Error(code), { code, errno, syscall: 'fallocate' });
      };
      return { binding: { ...binding, allocate, allocateAsync: async () => allocate() } };
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

    test.runIf(process.platform === 'linux')('is asked of the disk', async () => {
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
      ['no addon', () => ({ unavailable: 'none' })],
    ])('is not known (%s): it goes on, and the length is what is written', async (_, load) => {
      addon.load = load();
      const replacement = await openHere({ byteLength: 3, durable: false });
      expect(fstatSync(replacement.fd).size).toBe(0);
      writeSync(replacement.fd, 'new', 0);
      await commit(replacement);
      expect(readFileSync(path, 'utf8')).toBe('new');
    });
  });
});

test('Windows: a target that is open or mapped is told as such', () => {
  const error = Object.assign(new Error(), { code: 'EPERM', errno: -1, syscall: 'rename' });
  for (const code of ['EPERM', 'EBUSY', 'EACCES']) {
    const inUse = commitError(Object.assign(error, { code }), 'win32', 'label');
    expect(inUse).toMatchObject({
      code: 'SAFETENSORS_TARGET_IN_USE',
      path: 'label',
      message: expect.stringContaining('close({ detach: true })'),
      cause: error,
    });
  }
  expect(commitError(error, 'linux', 'label')).toMatchObject({ code: 'EPERM', path: 'label' });
  const full = Object.assign(new Error(), { code: 'ENOSPC', errno: -28, syscall: 'write' });
  expect(commitError(full, 'win32', 'label')).toMatchObject({ code: 'ENOSPC' });
});
