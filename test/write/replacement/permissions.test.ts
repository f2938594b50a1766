/** Permissions and owner of the file that takes another's place. */
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Replacement } from '../../../src/write/replacement/replacement.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { childPath } from '../../support/run-child.js';

const { calls, failing } = vi.hoisted(() => ({
  calls: [] as string[],
  failing: new Map<string, string>(),
}));

// Changes that the system refuses to users other than root.
vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const watched =
    (name: string, call: (...args: never[]) => void) =>
    (...args: never[]): void => {
      calls.push(name);
      const code = failing.get(name);
      if (code !== undefined) {
        throw Object.assign(new Error(code), { code, errno: -1, syscall: name });
      }
      call(...args);
    };
  return {
    ...fs,
    fchmodSync: watched('fchmod', fs.fchmodSync as () => void),
    fchownSync: watched('fchown', fs.fchownSync as () => void),
    unlinkSync: watched('unlink', fs.unlinkSync as () => void),
  } as unknown as typeof fs;
});

let path: string;
let umask: number;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
  umask = process.umask(0o022);
});

afterEach(() => {
  process.umask(umask);
  failing.clear();
  calls.length = 0;
});

const OPTIONS = { byteLength: 3, durable: false };

const modeOf = (at: string): number => statSync(at).mode & 0o7777;

async function replace(options = {}): Promise<void> {
  const replacement = await Replacement.open(path, path, { ...OPTIONS, ...options });
  await replacement.commit();
}

describe.runIf(process.platform !== 'win32')('permissions', () => {
  test.each([0o022, 0o077, 0o002, 0])('of a new file follow the umask %o', async (mask) => {
    process.umask(mask);
    await replace();
    expect(modeOf(path)).toBe(0o666 & ~mask);
  });

  test.each([0o644, 0o600, 0o666, 0o640, 0o755, 0o400, 0o2664])(
    'are those of the file that was there: %o',
    async (mode) => {
      writeFileSync(path, 'old');
      chmodSync(path, mode);
      process.umask(0o077);
      await replace();
      expect(modeOf(path)).toBe(mode);
      process.umask(0);
      await replace();
      expect(modeOf(path)).toBe(mode);
    },
  );

  test('are never wider than those meanwhile', async () => {
    writeFileSync(path, 'old');
    chmodSync(path, 0o440);
    process.umask(0);
    failing.set('fchmod', 'EIO');
    let seen: number | undefined;
    failing.set('unlink', 'EIO');
    await expect(replace()).rejects.toMatchObject({ syscall: 'fchmod' });
    for (const name of readdirSync(dirname(path)).filter((name) => name.startsWith('.'))) {
      seen = statSync(temporaryPath(name)).mode & 0o777;
    }
    expect(seen).toBe(0o400);
  });

  test('are those of a given file instead', async () => {
    const like = temporaryPath('like');
    writeFileSync(like, '');
    chmodSync(like, 0o640);
    await replace({ like: { path: Buffer.from(like), stats: statSync(like) } });
    expect(modeOf(path)).toBe(0o640);
  });

  test.each(['EPERM', 'ENOTSUP', 'ENOSYS'])(
    'may be refused by a file system that has none: %s',
    async (code) => {
      writeFileSync(path, 'old');
      failing.set('fchmod', code);
      await replace();
      expect(statSync(path).size).toBe(3);
    },
  );

  test.runIf(process.getuid?.() === 0)('and so is the owner', async () => {
    writeFileSync(path, 'old');
    chownSync(path, 12_345, 23_456);
    chmodSync(path, 0o6755);
    await replace();
    expect(statSync(path)).toMatchObject({ uid: 12_345, gid: 23_456 });
    expect(modeOf(path)).toBe(0o6755);
  });

  test('a foreign owner that cannot be kept takes no set-user-ID bit along', async () => {
    writeFileSync(path, 'old');
    chmodSync(path, 0o4755);
    failing.set('fchown', 'EPERM');
    await replace();
    expect(calls.filter((call) => call === 'fchown')).toHaveLength(2);
    expect(modeOf(path)).toBe(0o755);
  });

  // Nobody gains rights: those of the group and of others go to no new user.
  test.each([
    ['640', '600'],
    ['660', '600'],
    ['644', '644'],
    ['664', '644'],
    ['604', '600'],
    ['6750', '700'],
  ])('%s without its group becomes %s', async (mode, expected) => {
    writeFileSync(path, 'old');
    chmodSync(path, Number.parseInt(mode, 8));
    failing.set('fchown', 'EPERM');
    await replace();
    expect(modeOf(path).toString(8)).toBe(expected);
    // The owner first: changing it clears permissions.
    expect(calls.filter((call) => call !== 'unlink')).toEqual(['fchown', 'fchown', 'fchmod']);
  });
});

const python = findPython();
describe.skipIf(process.platform !== 'linux' || isSkipped(python))(
  titleWith(python, 'access control lists'),
  () => {
    const NAME = 'system.posix_acl_access';
    const ALL = 0xffff_ffff;

    function setList(at: string, name: string, entries: number[][]): void {
      const code = `import os,struct,sys
entries = ${JSON.stringify(entries)}
value = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *entry) for entry in entries)
os.setxattr(sys.argv[1], sys.argv[2], value)`;
      runPython(python, ['-c', code, at, name]);
    }

    function listOf(at: string): string {
      const code = `import os,sys
print(os.getxattr(sys.argv[1], sys.argv[2]).hex() if sys.argv[2] in os.listxattr(sys.argv[1]) else '')`;
      return runPython(python, ['-c', code, at, NAME]).trim();
    }

    /** One user may read and write, the group nothing; the mode shows what the list can grant. */
    const LIST = [
      [0x01, 6, ALL],
      [0x02, 6, 12_345],
      [0x04, 0, ALL],
      [0x10, 6, ALL],
      [0x20, 0, ALL],
    ];

    test('are copied', async () => {
      writeFileSync(path, 'old');
      setList(path, NAME, LIST);
      const old = listOf(path);
      expect([old, modeOf(path)]).toEqual([expect.stringMatching(/./), 0o660]);
      await replace();
      expect([listOf(path), modeOf(path)]).toEqual([old, 0o660]);
    });

    test('of the folder are not inherited by a file whose old one had none', async () => {
      writeFileSync(path, 'old');
      chmodSync(path, 0o660);
      setList(dirname(path), 'system.posix_acl_default', LIST);
      await replace();
      expect([listOf(path), modeOf(path)]).toEqual(['', 0o660]);
    });

    test.each([0, 6])(
      'grant nothing when the group cannot be kept, others had %i',
      async (others) => {
        writeFileSync(path, 'old');
        setList(path, NAME, [...LIST.slice(0, -1), [0x20, others, ALL]]);
        failing.set('fchown', 'EPERM');
        await replace();
        expect(modeOf(path)).toBe(0o600);
      },
    );
  },
);

test.runIf(process.getuid?.() === 0)('of a file that another user replaces', async () => {
  const folder = dirname(path);
  chmodSync(folder, 0o777);
  const modes = [0o640, 0o604, 0o644].map((mode) => {
    writeFileSync(path, '');
    chownSync(path, 0, 4);
    chmodSync(path, mode);
    const script = childPath('write/replacement/children/replace.mjs');
    execFileSync(process.execPath, [script, path]);
    expect(statSync(path)).toMatchObject({ uid: 12_345, gid: 12_345 });
    return statSync(path).mode & 0o7777;
  });
  expect(modes).toEqual([0o600, 0o600, 0o644]);
});
