/** Opening without stalling: same outcomes, aborts, calls of the system. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cases } from '../header/header-cases.js';
import { safeOpenAsync } from '../support/api.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../support/make-checkpoint.js';
import { temporaryPath, writeTemporary } from '../support/make-file.js';
import { openDescriptors } from '../support/open-descriptors.js';
import { foreignAbort } from '../support/other-realm.js';
import { measureInChild } from '../support/run-child.js';
import { expectOutcomes, LONGEST } from './recorded-outcomes.js';

const INDEX = 'model.safetensors.index.json';
const reason = new Error('enough');

/** Descriptors and mappings of files below the temporary folder. */
function held(): unknown {
  const maps = readFileSync('/proc/self/maps', 'utf8').split('\n');
  return {
    descriptors: openDescriptors(),
    mappings: maps.filter((line) => line.includes(temporaryPath(''))),
  };
}

/** A signal that reads as aborted from its n-th read on, counted from 0. */
function abortedAtLook(n: number): AbortSignal {
  const { signal, abort } = foreignAbort();
  let looks = 0;
  const throwIfAborted = (): void => {
    if (looks++ >= n) abort(reason);
    if (signal.aborted) throw signal.reason;
  };
  return Object.assign(signal, { throwIfAborted });
}

function waysToOpen(): [string, (signal: AbortSignal) => Promise<{ close(): void }>][] {
  const path = writeTemporary([{ name: 'a', dtype: 'U8', shape: [3] }]);
  const folder = writeCheckpoint(TWO_SHARDS);
  return [
    ['a file', (signal) => safeOpenAsync(path, { signal })],
    ['a file to be read', (signal) => safeOpenAsync(path, { signal, storage: 'read' })],
    ['a folder', (signal) => safeOpenAsync(folder, { signal })],
  ];
}

test('the outcome is that of safeOpen for every case of header-cases.json but the longest', async () => {
  const short = cases.filter(({ name }) => name !== LONGEST);
  expect(short.length).toBe(cases.length - 1);
  await expectOutcomes(short);
});

describe('an abort', () => {
  test('that came before opens nothing', async () => {
    for (const [, open] of waysToOpen()) {
      await expect(open(AbortSignal.abort(reason))).rejects.toBe(reason);
    }
    const signal = AbortSignal.abort(reason);
    await expect(safeOpenAsync('nowhere', { signal })).rejects.toBe(reason);
    await expect(safeOpenAsync('nowhere', { signal })).rejects.toBe(reason);
  });

  test('at any moment leaves nothing open', async () => {
    for (const [what, open] of waysToOpen()) {
      const before = held();
      let looks = 0;
      for (let isOpen = false; !isOpen; looks++) {
        const outcome = await open(abortedAtLook(looks)).catch((error: unknown) => error);
        isOpen = outcome !== reason;
        if (isOpen) (outcome as { close(): void }).close();
        expect(held(), `${what}, look ${looks}`).toEqual(before);
      }
      expect(looks, what).toBeGreaterThan(5);
    }
  });

  test('while it is under way rejects with the reason', async () => {
    for (const [, open] of waysToOpen()) {
      const before = held();
      const controller = new AbortController();
      const opening = open(controller.signal);
      controller.abort(reason);
      await expect(opening).rejects.toBe(reason);
      expect(held()).toEqual(before);
    }
  });

  test('with the reason of a system error is not explained as one', async () => {
    const missing = Object.assign(new Error('mine'), { code: 'ENOENT' });
    const controller = new AbortController();
    const { signal } = controller;
    const opening = Promise.allSettled([
      safeOpenAsync('org/name', { signal }),
      safeOpenAsync('org/name', { signal }),
    ]);
    controller.abort(missing);
    const rejected = { status: 'rejected', reason: missing };
    expect(await opening).toEqual([rejected, rejected]);
  });

  test('by a signal of another realm counts', async () => {
    for (const [, open] of waysToOpen()) {
      const { signal, abort } = foreignAbort();
      (await open(signal)).close();
      const opening = open(signal);
      abort(reason);
      await expect(opening).rejects.toBe(reason);
    }
  });

  test('needs a signal', async () => {
    const wrong = { signal: 'now' as never };
    const refused = { code: 'ERR_INVALID_ARG_TYPE', message: /signal must be an AbortSignal/ };
    await expect(safeOpenAsync('x', wrong)).rejects.toMatchObject({ code: refused.code });
    await expect(safeOpenAsync('x', wrong)).rejects.toThrow(refused.message);
  });
});

describe('a checkpoint', () => {
  test('of which a shard is bad rejects with its error, and stays closed', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    const [, second = ''] = Object.keys(TWO_SHARDS.shards);
    writeBelow(folder, second, 'not safetensors');
    const before = held();
    await expect(safeOpenAsync(folder)).rejects.toMatchObject({
      code: 'SAFETENSORS_HEADER_TOO_LARGE',
      path: join(folder, second),
    });
    expect(held()).toEqual(before);
    mkdirSync(temporaryPath('empty'));
    await expect(safeOpenAsync(temporaryPath('empty'))).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    });
    expect(held()).toEqual(before);
  });
});

test('this thread calls no file system while files are opened, nor when tensors are asked for', async () => {
  const file = writeTemporary([{ name: 'a', dtype: 'U8', shape: [3] }]);
  const folder = writeCheckpoint(TWO_SHARDS);
  const repository = temporaryPath('hub/models--org--name');
  const commit = 'c'.repeat(40);
  writeBelow(repository, 'refs/main', commit);
  writeCheckpoint(TWO_SHARDS, join(repository, 'snapshots', commit));
  const env = { HF_HUB_CACHE: temporaryPath('hub') };
  const args = [file, folder, join(folder, INDEX)];
  expect(await measureInChild('file/children/open-async-calls.mjs', args, { env })).toEqual({
    safeOpen: ['openSync', 'fstatSync', 'readSync', 'closeSync'],
    safeOpenAsync: [],
    'safeOpenAsync, a folder': [],
    'safeOpenAsync, an index': [],
    'safeOpenAsync, a repository': [],
    'all tensors': [],
  });
});
