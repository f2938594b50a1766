import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { childValue, runChild } from './run-child.js';

const CHILD = 'addon/children/guard.mjs';
const PAGE = 4096;
const MB = 1 << 20;

describe.runIf(process.platform === 'linux')('a truncated file', () => {
  test('reads as zeros behind its new end, in a running loop', async () => {
    expect(await childValue(CHILD, 'loop')).toEqual({
      before: { sum: 7 * 16 * MB, size: 16 * MB, truncated: false },
      after: { sum: 7 * (8 * MB + 5), size: 8 * MB + 5, truncated: true },
    });
  });

  test('is marked when a reader hits it, and takes writes', async () => {
    expect(await childValue(CHILD, 'unread')).toEqual({
      before: { size: 0, truncated: false },
      after: { size: 0, truncated: true },
      written: [1, 2, 3, 0],
    });
  });

  test('in a worker', async () => {
    const result = await childValue<{ last: number }>(CHILD, 'worker');
    const first = (7 * 64 * MB) / PAGE;
    expect(result).toEqual({ first, last: expect.any(Number), size: 32 * MB, truncated: true });
    expect(result.last).toBeLessThan(first);
  });

  test('under four threads of zlib at once', async () => {
    expect(await childValue(CHILD, 'thread-pool')).toEqual({
      sums: Array(4).fill(7 * 4 * MB),
      size: 4 * MB,
      truncated: true,
    });
  });

  test('under fs.write, which reports it as an error', async () => {
    expect(await childValue(CHILD, 'file-write')).toEqual({ written: 'EFAULT' });
  });

  test('backwards through 1 GiB by every second page, without a mapping for each page', async () => {
    const result = await childValue<{ lines: number }>(CHILD, 'backwards');
    expect(result).toMatchObject({ total: 0, size: 3 * PAGE + 1, truncated: true });
    expect(result.lines).toBeLessThan(20);
  });

  test('truncated again: what was written into earlier zeros stays', async () => {
    const expected = { gap: 0, kept: 5, last: 7 * 32 * PAGE + 5 };
    expect(await childValue(CHILD, 'again')).toEqual(expected);
  });

  test('detached while threads run into the missing pages', async () => {
    expect(await childValue(CHILD, 'detach-while-faulting')).toBe('done');
  });

  test('with two copies of the addon, each with a file', async () => {
    expect(await childValue(CHILD, 'two-copies')).toEqual([7 * PAGE, 7 * PAGE]);
  });

  test('kills the process without a guard', async () => {
    expect(await runChild(CHILD, 'unguarded')).toMatchObject({ signal: 'SIGBUS', code: null });
  });
});

describe.runIf(process.platform === 'linux')('what is not ours', () => {
  test('a SIGBUS from outside still kills', async () => {
    const expected = { signal: 'SIGBUS', code: null, value: undefined };
    expect(await runChild(CHILD, 'signal-from-outside')).toMatchObject(expected);
  });

  test('and reaches a handler that was there before', async () => {
    expect(await childValue(CHILD, 'earlier-handler')).toBe('handled');
  });
});

describe.runIf(process.platform === 'linux')(
  'after the worker that loaded the addon is gone',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
    const path = join(folder, 'file');

    async function run(scenario: string) {
      writeFileSync(path, new Uint8Array(MB).fill(7));
      return runChild('addon/children/guard-after-worker.mjs', scenario, path).finally(() =>
        rmSync(path, { force: true }),
      );
    }

    test('a SIGBUS still finds the handler', async () => {
      expect(await run('signal')).toMatchObject({ signal: 'SIGBUS', code: null });
    });

    test('the guard still works', async () => {
      expect(await run('truncation')).toMatchObject({ code: 0, value: [7, 0] });
      rmSync(folder, { recursive: true });
    });
  },
);
