/** Several processes save into one folder: they take turns, and none that succeeds is lost. */
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, rmdirSync } from 'node:fs';
import process from 'node:process';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { tryToLock } from '../../../src/write/replacement/locks.js';
import { convert, safeOpen, saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { ask, rounds, startChild } from '../../support/message-children.js';
import { filled } from '../../support/saved-tensors.js';

const CHILD = 'write/checkpoint/children/save-on-message.mjs';

/** The value that all tensors of the checkpoint have. */
async function valueIn(folder: string): Promise<number> {
  using checkpoint = safeOpen(folder);
  expect((await checkpoint.verify()).problems).toEqual([]);
  const values = checkpoint.keys().map((name) => [...checkpoint.getTensor(name).data]);
  expect(values).toEqual(Array(4).fill(Array(4).fill(values[0]?.[0])));
  return Number(values[0]?.[0]);
}

describe.runIf(process.platform === 'linux')('two processes', () => {
  const layouts = [undefined, 16, 32];

  test('that save leave one of the two checkpoints, whole', async () => {
    const folder = temporaryPath('checkpoint');
    const [one, two] = await Promise.all([startChild(CHILD, folder), startChild(CHILD, folder)]);
    for (let round = 0; round < rounds(60, 18); round++) {
      const [first, second] = [2 * round, 2 * round + 1];
      const answers = await ask([
        [one, { value: first, maxShardSize: layouts[round % 3] }],
        [two, { value: second, maxShardSize: layouts[(round >> 1) % 3] }],
      ]);
      expect({ round, answers }).toEqual({ round, answers: ['done', 'done'] });
      expect([first, second]).toContain(await valueIn(folder));
      expect(readdirSync(folder).filter((name) => name.startsWith('.'))).toEqual([]);
    }
  });

  test('of which one reshards never get the older checkpoint back', async () => {
    const folder = temporaryPath('checkpoint');
    const [saver, resharder] = await Promise.all([
      startChild(CHILD, folder),
      startChild(CHILD, folder),
    ]);
    await ask([[saver, { value: -1 }]]);
    for (let round = 0; round < rounds(60, 18); round++) {
      const maxShardSize = layouts[round % 3];
      const answers = await ask([
        [resharder, { call: 'reshard', maxShardSize }],
        [saver, { value: round, maxShardSize: layouts[(round >> 1) % 3] }],
      ]);
      expect({ round, answers }).toEqual({ round, answers: ['done', 'done'] });
      expect(await valueIn(folder)).toBe(round);
    }
  });
});

describe.runIf(process.platform === 'linux')('a folder that another process has locked', () => {
  const tensors = ['a', 'b', 'c', 'd'].map((name) => [name, filled(4, 5)] as const);
  let folder: string;
  let lock: number | undefined;

  beforeEach(() => {
    folder = temporaryPath('checkpoint');
    mkdirSync(folder);
    lock = openSync(folder, 'r');
    expect(tryToLock(lock)).toBe(true);
  });

  function unlock(): void {
    if (lock !== undefined) closeSync(lock);
    lock = undefined;
  }

  afterEach(unlock);

  test('is saved into when it is free', async () => {
    const saved = saveCheckpoint(folder, tensors);
    await setTimeout(30);
    expect(readdirSync(folder)).toEqual([]);
    unlock();
    await saved;
    expect(await valueIn(folder)).toBe(5);
  });

  test('is not waited for longer than it should be', async () => {
    const locked = { code: 'SAFETENSORS_LOCKED', path: folder };
    const late = { lockTimeout: 20 };
    await expect(saveCheckpoint(folder, tensors, late)).rejects.toMatchObject(locked);
    await expect(convert(folder, folder, late)).rejects.toMatchObject(locked);
    const controller = new AbortController();
    const { signal } = controller;
    // One waits for the lock, the other for the first. Which rejects earlier depends on the load.
    const saves = Promise.allSettled([
      saveCheckpoint(folder, tensors, { signal }),
      saveCheckpoint(folder, tensors, { signal }),
    ]);
    await setTimeout(20);
    const reason = new Error('enough');
    controller.abort(reason);
    for (const save of await saves) expect('reason' in save && save.reason).toBe(reason);
    expect(readdirSync(folder)).toEqual([]);
    for (const lockTimeout of [-1, Number.NaN]) {
      await expect(saveCheckpoint(folder, tensors, { lockTimeout })).rejects.toThrow(RangeError);
    }
  });

  test('is made anew when it is gone by then', async () => {
    const saved = saveCheckpoint(folder, tensors);
    await setTimeout(30);
    rmdirSync(folder);
    unlock();
    await saved;
    expect(await valueIn(folder)).toBe(5);
  });
});

test('saves of one thread into one folder take turns, the last one stays', async () => {
  const folder = temporaryPath('checkpoint');
  await Promise.all(
    [1, 2, 3].map((value) => {
      const tensors = ['a', 'b', 'c', 'd'].map((name) => [name, filled(4, value)] as const);
      return saveCheckpoint(folder, tensors, { maxShardSize: 16 * value, durable: false });
    }),
  );
  expect(await valueIn(folder)).toBe(3);
});

test('a folder that was made for a save that fails is gone, and those above it', async () => {
  const folder = temporaryPath('a/b/c');
  await expect(convert(temporaryPath('missing'), folder)).rejects.toThrow('missing');
  expect(existsSync(temporaryPath('a'))).toBe(false);
});
