import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Transfer } from '../../../src/work/transfer.js';
import {
  overwriteHeader,
  requireNoBackup,
} from '../../../src/write/replacement/header-overwrite.js';
import { resolveTarget } from '../../../src/write/replacement/target.js';
import { editMetadata } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { runChild } from '../../support/run-child.js';

const { failing, calls } = vi.hoisted(() => ({
  failing: { writes: 0, links: undefined as unknown },
  calls: [] as string[],
}));

vi.mock(import('../../../src/platform/io/file-writes.js'), async (importOriginal) => {
  const module = await importOriginal();
  const writeViews: typeof module.writeViews = async (...args) => {
    calls.push('write');
    if (failing.writes-- > 0) throw Object.assign(new Error('EIO'), { code: 'EIO', errno: -5 });
    await module.writeViews(...args);
  };
  return { ...module, writeViews };
});

vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const { promisify } = await import('node:util');
  const linkSync: typeof fs.linkSync = (...args) => {
    calls.push('link');
    if (failing.links !== undefined) throw failing.links;
    fs.linkSync(...args);
  };
  const unlinkSync: typeof fs.unlinkSync = (path) => {
    calls.push(`rm ${/\.tmp$|backup$/.exec(path.toString())}`);
    fs.unlinkSync(path);
  };
  const fsync = async (fd: number): Promise<void> => {
    calls.push(fs.fstatSync(fd).isDirectory() ? 'fsync folder' : 'fsync');
    fs.fsyncSync(fd);
  };
  const fsyncCallback = Object.assign(() => {}, { [promisify.custom]: fsync });
  return { ...fs, linkSync, unlinkSync, fsync: fsyncCallback } as unknown as typeof fs;
});

let path: string;
let old: Buffer;

beforeEach(() => {
  calls.length = 0;
  path = temporaryPath("it's a model");
  const entries = [{ name: 'a', dtype: 'U8', shape: [100] }] as const;
  writeFileSync(path, fileBytes(entries, { metadata: { format: 'pt' }, padding: 100 }));
  old = readFileSync(path);
});

afterEach(() => {
  failing.writes = 0;
  failing.links = undefined;
});

const names = (): string[] => readdirSync(dirname(path)).sort();
const NAME = "it's a model";
const BACKUP = `${NAME}.header-backup`;

interface Steps {
  readonly check?: () => void;
  readonly onProgress?: () => void;
  readonly durable?: boolean;
}

/** Overwrites the first 50 bytes by `x`. */
async function overwrite(steps: Steps = {}): Promise<void> {
  const { check = () => {}, onProgress, durable = true } = steps;
  const fd = openSync(path, 'r+');
  try {
    const after = new Uint8Array(50).fill(0x78);
    const target = resolveTarget(path, 'label');
    const before = old.subarray(0, 50);
    const file = { fd, path: 'label' };
    const transfer = new Transfer(50, { onProgress }, () => {});
    await overwriteHeader({ target, file, before, after, check, durable }, transfer);
  } finally {
    closeSync(fd);
  }
}

test('the backup is there, whole and private, when the header is written, and then gone', async () => {
  chmodSync(path, 0o644);
  const seen: unknown[] = [];
  const look = (): void => {
    const backup = `${path}.header-backup`;
    seen.push(readFileSync(backup).equals(old.subarray(0, 50)), statSync(backup).mode & 0o777);
    seen.push(names(), readFileSync(path).subarray(0, 50).equals(old.subarray(0, 50)));
  };
  await overwrite({ check: look, onProgress: look });
  const state = [true, 0o600, [NAME, BACKUP]];
  expect(seen).toEqual([...state, true, ...state, false]);
  expect(readFileSync(path)).toEqual(Buffer.concat([Buffer.alloc(50, 'x'), old.subarray(50)]));
  expect(names()).toEqual([NAME]);
});

test('what the next step relies on is synced, unless durable is false', async () => {
  await overwrite();
  const backup = ['write', 'fsync', 'link', 'rm .tmp', 'fsync folder'];
  expect(calls).toEqual([...backup, 'write', 'fsync', 'rm backup', 'fsync folder']);
  calls.length = 0;
  await overwrite({ durable: false });
  expect(calls).toEqual(['write', 'link', 'rm .tmp', 'write', 'rm backup']);
});

test('a file that changed is not touched', async () => {
  const check = (): never => {
    writeFileSync(path, 'new');
    throw new Error('changed');
  };
  await expect(overwrite({ check })).rejects.toThrow('changed');
  expect(readFileSync(path, 'utf8')).toBe('new');
  expect(names()).toEqual([NAME]);
});

test('the old header is put back when writing fails or is ended', async () => {
  // It is the caller's, also when it looks like one of the system.
  const reason = Object.assign(new Error('ended'), { code: 'ECONNRESET', errno: -104 });
  const onProgress = (): never => {
    throw reason;
  };
  await expect(overwrite({ onProgress })).rejects.toBe(reason);
  expect(readFileSync(path)).toEqual(old);
  failing.writes = 1;
  await expect(overwrite()).rejects.toMatchObject({ code: 'EIO', path: 'label' });
  expect(readFileSync(path)).toEqual(old);
  expect(names()).toEqual([NAME]);
});

test('the backup stays when the old header cannot be put back', async () => {
  const onProgress = (): never => {
    failing.writes = 1;
    throw new Error('ended');
  };
  await expect(overwrite({ onProgress })).rejects.toThrow('ended');
  expect(readFileSync(`${path}.header-backup`)).toEqual(old.subarray(0, 50));
  expect(() => requireNoBackup(resolveTarget(path, 'label'), 'label')).toThrow('dd if=');
});

test('one edit at a time', async () => {
  const results = await Promise.allSettled([overwrite(), overwrite()]);
  const [done, refused] = results.sort((a, b) => a.status.localeCompare(b.status));
  expect(done).toMatchObject({ status: 'fulfilled' });
  expect(refused).toMatchObject({
    reason: { code: 'SAFETENSORS_EDIT_INTERRUPTED', path: 'label' },
  });
  expect(names()).toEqual([NAME]);
});

test('without hard links the backup is renamed; other errors are thrown', async () => {
  failing.links = Object.assign(new Error('EPERM'), { code: 'EPERM', errno: -1 });
  await overwrite();
  expect(names()).toEqual([NAME]);
  failing.links = Object.assign(new Error('EIO'), { code: 'EIO', errno: -5 });
  await expect(overwrite()).rejects.toMatchObject({ code: 'EIO', path: 'label' });
  expect(names()).toEqual([NAME]);
});

test('a link in the place of the backup counts as a backup', () => {
  symlinkSync('nowhere', `${path}.header-backup`);
  expect(() => requireNoBackup(resolveTarget(path, 'label'), 'label')).toThrow('dd if=');
});

describe.runIf(process.platform !== 'win32')('a process that is killed', () => {
  test('at any step leaves the old or the new header, or a backup that the command puts back', async () => {
    const states = new Set<string>();
    let edited: Buffer | undefined;
    for (let step = 0; edited === undefined; step++) {
      const { code, signal, stderr } = await runChild(
        'write/replacement/children/interrupted-edit.mjs',
        [path, `${step}`],
      );
      if (code === 0) {
        edited = readFileSync(path);
        break;
      }
      expect({ step, signal, stderr }).toEqual({ step, signal: 'SIGKILL', stderr: '' });
      expect(step).toBeLessThan(50);
      const hasBackup = names().includes(BACKUP);
      states.add(`${hasBackup} ${readFileSync(path).equals(old)}`);
      if (!hasBackup) {
        // Killed before the backup, or after it.
        const found = readFileSync(path);
        if (!found.equals(old)) {
          await expect(editMetadata(path, { note: null, format: 'pt' })).resolves.toBeDefined();
        }
      } else {
        const refused = await editMetadata(path, { format: 'tf' }).catch((error) => error);
        expect(refused.code).toBe('SAFETENSORS_EDIT_INTERRUPTED');
        const command = /`(dd .*)`/s.exec(refused.message)?.[1] as string;
        expect(command).toMatch(/^dd if='.*\.header-backup' of='.*' conv=notrunc$/s);
        execFileSync('sh', ['-c', command], { stdio: 'ignore' });
        expect(readFileSync(path)).toEqual(old);
        rmSync(`${path}.header-backup`);
      }
      writeFileSync(path, old);
    }
    // Before the backup; with it, before and after the write began.
    expect(states).toEqual(new Set(['false true', 'true true', 'true false', 'false false']));
    expect(edited?.length).toBe(old.length);
  });
});
