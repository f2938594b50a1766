import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, describe, expect, test } from 'vitest';
import { nightly } from '../../support/nightly.js';
import { measureInChild, runChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/guard.mjs';
const PAGE = 4096;
const MB = 1 << 20;

describe.runIf(process.platform === 'linux')('a truncated file', () => {
  test('reads as zeros behind its new end, also in a loop that is running', async () => {
    expect(await measureInChild(CHILD, ['loop'])).toEqual({
      before: { sum: 7 * 16 * MB, size: 16 * MB, truncated: false },
      after: { sum: 7 * (8 * MB + 5), size: 8 * MB + 5, truncated: true },
    });
  });

  test('marks its mapping when a page that is gone is touched, and takes writes', async () => {
    expect(await measureInChild(CHILD, ['unread'])).toEqual({
      before: { size: 0, truncated: false },
      after: { size: 0, truncated: true },
      written: [1, 2, 3, 0],
    });
  });

  test('reads as zeros in a worker', async () => {
    const result = await measureInChild<{ last: number }>(CHILD, ['worker']);
    const first = (7 * 64 * MB) / PAGE;
    expect(result).toEqual({ first, last: expect.any(Number), size: 32 * MB, truncated: true });
    expect(result.last).toBeLessThan(first);
  });

  test('reads as zeros on four threads of zlib at once', async () => {
    expect(await measureInChild(CHILD, ['thread-pool'])).toEqual({
      sums: Array(4).fill(7 * 4 * MB),
      size: 4 * MB,
      truncated: true,
    });
  });

  test('makes fs.write fail with EFAULT', async () => {
    expect(await measureInChild(CHILD, ['file-write'])).toEqual({ written: 'EFAULT' });
  });

  test('needs one mapping for all its zeros, even when it is read backwards in steps', async () => {
    const result = await measureInChild<{ lines: number }>(CHILD, ['backwards']);
    expect(result).toMatchObject({ total: 0, size: 3 * PAGE + 1, truncated: true });
    expect(result.lines).toBeLessThan(20);
  });

  test('keeps what was written into its zeros when it is truncated again', async () => {
    const expected = { gap: 0, kept: 5, last: 7 * 32 * PAGE + 5 };
    expect(await measureInChild(CHILD, ['again'])).toEqual(expected);
  });

  test('reads as zeros after its handle has ended, and keeps what was written into them', async () => {
    const result = await measureInChild<{ lines: number }>(CHILD, ['released']);
    const sum = 7 * (16 * MB + 5);
    expect(result).toMatchObject({
      before: (7 * 64 * MB) / PAGE,
      after: [sum, 7 * ((16 * MB) / (2 * PAGE)), sum + 5],
    });
    expect(result.lines).toBeLessThan(20);
  });

  test('can be detached while threads run into the missing pages', async () => {
    expect(await measureInChild(CHILD, ['detach-while-faulting', nightly('20', '6')])).toBe('done');
  });

  test('reads as zeros with two copies of the addon, each with a mapping', async () => {
    expect(await measureInChild(CHILD, ['two-copies'])).toEqual([7 * PAGE, 7 * PAGE]);
  });
});

describe.runIf(process.platform === 'linux')('SIGBUS still ends the process', () => {
  const killed = { signal: 'SIGBUS', code: null, stdout: '' };

  test('when a mapping without a guard is truncated', async () => {
    expect(await runChild(CHILD, ['unguarded'])).toMatchObject(killed);
  });

  test('when another process sends it', async () => {
    expect(await runChild(CHILD, ['signal-from-outside'])).toMatchObject(killed);
  });

  test('unless a handler was there before the guard, which then gets it', async () => {
    expect(await measureInChild(CHILD, ['earlier-handler'])).toBe('handled');
  });
});

describe.runIf(process.platform === 'linux')(
  'after the worker that loaded the addon is gone',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
    const path = join(folder, 'file');

    afterAll(() => rmSync(folder, { recursive: true }));

    async function run(scenario: string) {
      writeFileSync(path, new Uint8Array(MB).fill(7));
      return runChild('platform/addon/children/guard-after-worker.mjs', [scenario, path]);
    }

    test('a SIGBUS still finds the handler', async () => {
      expect(await run('signal')).toMatchObject({ signal: 'SIGBUS', code: null });
    });

    test('the guard still works', async () => {
      expect(await run('truncation')).toMatchObject({ code: 0, stdout: '[7,0]' });
    });
  },
);
