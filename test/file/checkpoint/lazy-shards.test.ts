/** Calls that need the same shard at once: which call opens it, which wait, and which an abort ends. */
import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import type { CheckpointFiles } from '../../../src/file/checkpoint/find-files.js';
import { LazyShards } from '../../../src/file/checkpoint/lazy-shards.js';
import type { SafetensorsFile } from '../../../src/file/file.js';
import { openFile } from '../../../src/file/open.js';
import { call, immediate, runAsync, runSync, type Work } from '../../../src/work/work.js';
import { writeTemporary } from '../../support/make-file.js';

/** Openings that wait to be released, and the number of open files. */
let held: (() => void)[] = [];
let [opened, openNow, mostOpen] = [0, 0, 0];
let shards: LazyShards;

/** Waits like a call of the system that takes long; on this thread it does not. */
function* slowOpen(path: string): Work<SafetensorsFile> {
  opened++;
  yield* call({
    sync: () => {},
    async: () => new Promise<void>((resolve) => void held.push(resolve)),
  });
  const file = yield* openFile(path, {});
  mostOpen = Math.max(mostOpen, ++openNow);
  const close = file.close.bind(file);
  file.close = (options) => {
    openNow--;
    close(options);
  };
  return file;
}

beforeEach(() => {
  held = [];
  [opened, openNow, mostOpen] = [0, 0, 0];
  const path = writeTemporary([{ name: 'a', dtype: 'U8', shape: [1] }]);
  const only = [{ name: 'model.safetensors', path }];
  const files: CheckpointFiles = { path, index: null, shards: only, ignoredFiles: [] };
  shards = new LazyShards(files, slowOpen);
});

function release(): void {
  for (const resolve of held.splice(0)) resolve();
}

function openAll(signal?: AbortSignal): Promise<void> {
  return runAsync(shards.openAll(), signal);
}

function useEach(signal?: AbortSignal): Promise<void> {
  return runAsync(
    shards.useEach((file) => immediate(() => file.offsetKeys())),
    signal,
  );
}

const reason = new Error('no longer wanted');

describe.each([
  ['openAll', openAll],
  ['useEach', useEach],
])('%s', (_, start) => {
  it('ends at once when it is aborted while it waits for another call that opens', async () => {
    const opening = useEach();
    const controller = new AbortController();
    const waiting = start(controller.signal);
    const after = start();
    await setImmediate();
    controller.abort(reason);
    // Nothing is released: a call that waited for the opening would hang.
    await expect(waiting).rejects.toBe(reason);
    expect(opened).toBe(1);
    release();
    await Promise.all([opening, after]);
    shards.close({});
    expect([opened, openNow]).toEqual([1, 0]);
  });

  it('opens the shard itself when the call that opened it is aborted', async () => {
    const controller = new AbortController();
    const opening = useEach(controller.signal);
    const waiting = [start(), start()];
    await setImmediate();
    controller.abort(reason);
    release();
    await expect(opening).rejects.toBe(reason);
    await expect.poll(() => held.length).toBe(1);
    expect(opened).toBe(2);
    release();
    await Promise.all(waiting);
    shards.close({});
    expect([opened, mostOpen, openNow]).toEqual([2, 1, 0]);
  });

  it('waits for nobody when the shard is open', async () => {
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const work = (): Work<void> => call({ sync: () => {}, async: () => ended });
    const used = runAsync(shards.useEach(work), undefined);
    await expect.poll(() => held.length).toBe(1);
    release();
    await expect.poll(() => openNow).toBe(1);
    await start();
    end();
    await used;
    shards.close({});
    expect([opened, openNow]).toEqual([1, 0]);
  });
});

it('opens for a call that cannot wait, and closes what the other call opens then', async () => {
  const opening = useEach();
  await setImmediate();
  expect(shards.open(0).offsetKeys()).toEqual(['a']);
  await useEach();
  expect(opened).toBe(2);
  release();
  await opening;
  expect([openNow, shards.opened.size]).toEqual([1, 1]);
  shards.close({});
  expect(openNow).toBe(0);
});

it('keeps a file open that was used, when a call wants it to stay', async () => {
  const kept: SafetensorsFile[] = [];
  const work = (file: SafetensorsFile): Work<unknown> =>
    immediate(() => kept.push(file, shards.open(0)));
  runSync(shards.useEach(work));
  expect(kept[0]).toBe(kept[1]);
  expect([opened, openNow]).toEqual([1, 1]);
  shards.close({});
  expect(openNow).toBe(0);
});

it('lends one file to calls at once, and closes it behind the last', async () => {
  const calls = Array.from({ length: 100 }, () => useEach());
  await expect.poll(() => held.length).toBe(1);
  release();
  await Promise.all(calls);
  expect([opened, openNow]).toEqual([1, 0]);
});
