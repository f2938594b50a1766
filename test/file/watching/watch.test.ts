/** Watched paths: replaced, re-pointed and new versions, torn states, bad files, and the end of the watch. */
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { safeOpen, saveCheckpoint, saveFile, type Watcher, watch } from '../../support/api.js';
import { COMMIT, HubCache } from '../../support/hub-cache.js';
import { filesOf, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { runChild } from '../../support/run-child.js';
import { entryOf, publish, Reports, replace, SETTLE, valuesOf } from './reports.js';

const onPosix = it.skipIf(process.platform === 'win32');

/** The files of a model of two shards. */
function shardsOf(value: number): { first: Uint8Array; second: Uint8Array; index: Uint8Array } {
  const files = filesOf({
    shards: {
      'model-00001-of-00002.safetensors': [entryOf(value, 'a')],
      'model-00002-of-00002.safetensors': [entryOf(value, 'b')],
    },
  });
  const [first, second, index] = [...files.values()];
  return { first, second, index } as ReturnType<typeof shardsOf>;
}

function writeShards(value: number): { folder: string; paths: readonly [string, string] } {
  const folder = temporaryPath('sharded');
  const { first, second, index } = shardsOf(value);
  const one = writeBelow(folder, 'model-00001-of-00002.safetensors', first);
  const two = writeBelow(folder, 'model-00002-of-00002.safetensors', second);
  writeBelow(folder, 'model.safetensors.index.json', index);
  return { folder, paths: [one, two] };
}

describe('reports', () => {
  it('a rename over the file, and leaves the old version open', async () => {
    const path = writeTemporary([entryOf(1)]);
    const reports = new Reports(path);
    const old = safeOpen(path);
    publish(path, 2);
    expect(valuesOf(await reports.version())).toEqual([2]);
    publish(path, 3);
    expect(valuesOf(await reports.version())).toEqual([3]);
    expect(valuesOf(old)).toEqual([1]);
    old.close();
  });

  it('a version that replaced the file before anything was noticed', async () => {
    const path = writeTemporary([entryOf(1)]);
    const reports = new Reports(path);
    publish(path, 2);
    await reports.version();
    await reports.nothing(5 * SETTLE);
  });

  it('a file that is written over in place, when nobody writes any more', async () => {
    const path = writeTemporary([entryOf(1)]);
    const reports = new Reports(path);
    const bytes = fileBytes([entryOf(9), entryOf(8, 'u')]);
    writeFileSync(path, bytes.subarray(0, 20));
    for (let end = 30; end < bytes.length + 10; end += 10) {
      await delay(SETTLE);
      appendFileSync(path, bytes.subarray(end - 10, end));
    }
    expect(valuesOf(await reports.version())).toEqual([9, 8]);
    expect(reports.all).toHaveLength(1);
  });

  onPosix('the switch of a link: to a file, to its folder, further up', async () => {
    const root = temporaryPath('versions');
    for (const value of [1, 2, 3]) {
      writeBelow(root, `v${value}/model.safetensors`, fileBytes([entryOf(value)]));
    }
    mkdirSync(join(root, 'served'));
    const pointTo = (link: string, target: string): void => {
      symlinkSync(target, `${link}.new`);
      renameSync(`${link}.new`, link);
    };
    const [file, folder, above] = ['file', 'folder', 'above'].map((name) =>
      join(root, 'served', name),
    ) as [string, string, string];
    pointTo(file, join(root, 'v1/model.safetensors'));
    pointTo(folder, '../v1');
    pointTo(above, root);
    pointTo(join(root, 'current'), 'v1');
    const all = [file, folder, join(above, 'current/model.safetensors')].map(
      (path) => new Reports(path, { interval: 60_000 }),
    );
    for (const value of [2, 3]) {
      pointTo(file, join(root, `v${value}/model.safetensors`));
      pointTo(folder, `../v${value}`);
      pointTo(join(root, 'current'), `v${value}`);
      for (const reports of all) expect(valuesOf(await reports.version())).toEqual([value]);
    }
    publish(join(root, 'v3/model.safetensors'), 4);
    for (const reports of all) expect(valuesOf(await reports.version())).toEqual([4]);
  });

  it('a new index of a folder, and the folder itself in the place of another', async () => {
    const folder = temporaryPath('saved');
    const save = (target: string, value: number) => {
      const tensors = ['a', 'b'].map((name) => [name, Uint8Array.of(value)] as const);
      const entries = tensors.map(([name, data]) => [
        name,
        { dtype: 'U8', shape: [1], data } as const,
      ]);
      return saveCheckpoint(target, Object.fromEntries(entries), { maxShardSize: 1 });
    };
    await save(folder, 1);
    const reports = new Reports(folder);
    await save(folder, 2);
    expect(valuesOf(await reports.version())).toEqual([2, 2]);
    await save(`${folder}-3`, 3);
    renameSync(folder, `${folder}-2`);
    renameSync(`${folder}-3`, folder);
    expect(valuesOf(await reports.version())).toEqual([3, 3]);
  });

  it('a version whose shards are all open: a later one does not mix into it', async () => {
    const { folder, paths } = writeShards(1);
    const reports = new Reports(folder);
    const { first, second } = shardsOf(2);
    replace(paths[0], first);
    replace(paths[1], second);
    const next = await reports.version();
    const later = shardsOf(3);
    replace(paths[0], later.first);
    replace(paths[1], later.second);
    expect(valuesOf(next)).toEqual([2, 2]);
    expect(valuesOf(await reports.version())).toEqual([3, 3]);
  });

  it('an index next to the file that was opened so far', async () => {
    const { folder, paths } = writeShards(7);
    const [index, other] = ['model.safetensors.index.json', 'index.new'].map((name) =>
      join(folder, name),
    ) as [string, string];
    renameSync(index, other);
    for (const path of paths) renameSync(path, `${path}.new`);
    writeBelow(folder, 'model.safetensors', fileBytes([entryOf(1)]));
    const reports = new Reports(folder);
    for (const path of paths) renameSync(`${path}.new`, path);
    await reports.nothing(15 * SETTLE);
    renameSync(other, index);
    expect(valuesOf(await reports.version())).toEqual([7, 7]);
  });

  onPosix('a new commit of a repository in the Hub cache', async () => {
    const cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    onTestFinished(() => void vi.unstubAllEnvs());
    cache.addPlain('model.safetensors', fileBytes([entryOf(1)]));
    const reports = new Reports('org/name', { interval: 60_000 });
    const next = COMMIT.replaceAll('0', 'f');
    writeBelow(cache.repository(), 'refs/main', next);
    const blob = writeBelow(cache.repository(), 'blobs/incoming.incomplete', '');
    for (let written = 0; written < 20; written++) {
      await delay(SETTLE);
      appendFileSync(blob, 'bytes');
    }
    expect(reports.all).toEqual([]);
    writeFileSync(blob, fileBytes([entryOf(2)]));
    renameSync(blob, join(dirname(blob), 'incoming'));
    const snapshot = join(cache.repository(), 'snapshots', next);
    mkdirSync(snapshot);
    symlinkSync('../../blobs/incoming', join(snapshot, 'model.safetensors'));
    expect(valuesOf(await reports.version())).toEqual([2]);
  });

  it('the first version where there was none', async () => {
    const path = temporaryPath('later.safetensors');
    writeBelow(dirname(path), 'other', '');
    const reports = new Reports(path);
    await reports.nothing(15 * SETTLE);
    publish(path, 1);
    expect(valuesOf(await reports.version())).toEqual([1]);
  });

  it('versions as the options open them', async () => {
    const folder = temporaryPath('variants');
    const path = writeBelow(folder, 'model.fp16.safetensors', fileBytes([entryOf(1)]));
    const other = writeBelow(folder, 'model.safetensors', fileBytes([entryOf(1)]));
    const reports = new Reports(folder, { variant: 'fp16', storage: 'read', checkPath: true });
    publish(other, 2);
    await reports.nothing(5 * SETTLE);
    publish(path, 3);
    const next = await reports.version();
    expect([valuesOf(next), next.storage, next.ok]).toEqual([[3], 'read', true]);
    publish(path, 4);
    expect(next.ok).toBe(false);
    await reports.version();
  });

  it('a burst once', async () => {
    const path = writeTemporary([entryOf(0)]);
    const reports = new Reports(path, { settle: 100 });
    for (let value = 1; value <= 50; value++) publish(path, value);
    expect(valuesOf(await reports.version())).toEqual([50]);
    await reports.nothing(300);
  });

  it('nothing for other files, and for the same ones', async () => {
    const { folder, paths } = writeShards(1);
    const reports = new Reports(folder);
    writeBelow(folder, 'config.json', '{}');
    writeBelow(folder, 'notes.txt', 'text');
    renameSync(paths[0], `${paths[0]}.away`);
    renameSync(`${paths[0]}.away`, paths[0]);
    await reports.nothing(15 * SETTLE);
  });
});

describe('a half-written folder is not reported', () => {
  it('with new shards before the index', async () => {
    const folder = writeCheckpoint({ shards: { 'a.safetensors': [entryOf(1)] } });
    const reports = new Reports(folder);
    const shards = { 'x.safetensors': [entryOf(2, 'a')], 'y.safetensors': [entryOf(2, 'c')] };
    for (const [name, bytes] of filesOf({ shards })) {
      await reports.nothing(15 * SETTLE);
      replace(join(folder, name), bytes);
    }
    expect((await reports.version()).keys()).toEqual(['a', 'c']);
  });

  it('with the index before its shards', async () => {
    const folder = writeCheckpoint({ shards: { 'a.safetensors': [entryOf(1)] } });
    const reports = new Reports(folder, { settle: 50 });
    const files = filesOf({ shards: { 'x.safetensors': [entryOf(2)], 'y.safetensors': [] } });
    for (const [name, bytes] of [...files].toReversed()) {
      await reports.nothing(250);
      replace(join(folder, name), bytes);
    }
    expect(valuesOf(await reports.version())).toEqual([2]);
  });

  it('with shards that are replaced one by one', async () => {
    const { folder, paths } = writeShards(1);
    const reports = new Reports(folder);
    const { first, second } = shardsOf(2);
    replace(paths[0], first);
    await reports.nothing(50 * SETTLE);
    replace(paths[1], second);
    expect(valuesOf(await reports.version())).toEqual([2, 2]);
  });

  it('but the only shard that is replaced, as by a repair, is in the end', async () => {
    const { folder, paths } = writeShards(1);
    const reports = new Reports(folder);
    const began = performance.now();
    replace(paths[1], shardsOf(2).second);
    expect(valuesOf(await reports.version())).toEqual([1, 2]);
    expect(performance.now() - began).toBeGreaterThan(90 * SETTLE);
  });

  it('while a download is active', async () => {
    const { folder, paths } = writeShards(1);
    const reports = new Reports(folder, { settle: 2 });
    const received = '.cache/huggingface/download/model-00002-of-00002.incomplete';
    const partial = writeBelow(folder, received, '');
    replace(paths[0], shardsOf(2).first);
    for (let written = 0; written < 8; written++) {
      await delay(50);
      appendFileSync(partial, 'bytes');
    }
    expect(reports.all).toEqual([]);
    rmSync(partial);
    replace(paths[1], shardsOf(2).second);
    expect(valuesOf(await reports.version())).toEqual([2, 2]);
  });
});

describe('reports errors', () => {
  const bad: readonly [string, (path: string) => void, string][] = [
    ['text', (path) => replace(path, 'no model at all'), 'SAFETENSORS_HEADER_TOO_LARGE'],
    ['nothing', (path) => replace(path, ''), 'SAFETENSORS_HEADER_TOO_SMALL'],
    ['a truncated file', (path) => truncateSync(path, 20), 'SAFETENSORS_INVALID_HEADER_LENGTH'],
    ['no file', (path) => rmSync(path), 'ENOENT'],
    [
      'an empty folder',
      (path) => {
        rmSync(path);
        mkdirSync(path);
      },
      'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    ],
  ];
  it.each(bad)('for %s, once, and goes on', async (_, spoil, code) => {
    const path = writeTemporary([entryOf(1)]);
    const reports = new Reports(path, { interval: 20 });
    const old = safeOpen(path, { storage: 'read' });
    expect(valuesOf(old)).toEqual([1]);
    spoil(path);
    expect(await reports.code()).toBe(code);
    await reports.nothing(25 * SETTLE);
    rmSync(path, { recursive: true, force: true });
    publish(path, 2);
    expect(valuesOf(await reports.version())).toEqual([2]);
    old.close();
  });

  it('for bytes that are not those of the declared digests', async () => {
    const path = writeTemporary([entryOf(1)]);
    const spoiled = temporaryPath('spoiled.safetensors');
    await saveFile(
      spoiled,
      { t: { dtype: 'U8', shape: [1], data: Uint8Array.of(5) } },
      { digests: true },
    );
    const reports = new Reports(path);
    copyFileSync(spoiled, `${path}.new`);
    truncateSync(`${path}.new`, safeOpen(spoiled).byteLength() - 1);
    appendFileSync(`${path}.new`, Uint8Array.of(6));
    renameSync(`${path}.new`, path);
    expect(await reports.code()).toBe('SAFETENSORS_CHECKSUM_MISMATCH');
    expect(reports.all[0]).toMatchObject({ path, message: expect.stringMatching(/declare/) });
    renameSync(spoiled, path);
    expect(valuesOf(await reports.version())).toEqual([5]);
  });

  it('for an index that names tensors which are not there', async () => {
    const { folder } = writeShards(1);
    const reports = new Reports(folder);
    const shards = { 'model-00001-of-00002.safetensors': [entryOf(1, 'lost')] };
    const files = filesOf({ shards });
    replace(
      join(folder, 'model.safetensors.index.json'),
      files.get('model.safetensors.index.json') as Uint8Array,
    );
    expect(await reports.code()).toBe('SAFETENSORS_INDEX_MISMATCH');
  });

  it('for a shard that an index does not list, until it is gone', async () => {
    const { folder, paths } = writeShards(1);
    const reports = new Reports(folder);
    for (const [name, bytes] of filesOf({ shards: { 'x.safetensors': [entryOf(2)] } })) {
      replace(join(folder, name), bytes);
    }
    expect(await reports.code()).toBe('SAFETENSORS_INDEX_MISMATCH');
    writeBelow(folder, 'notes.txt', 'text');
    await reports.nothing(30 * SETTLE);
    for (const path of paths) rmSync(path);
    expect(valuesOf(await reports.version())).toEqual([2]);
  });

  it('for a link that leads out of the folder', async () => {
    const folder = writeCheckpoint({ shards: { 'x.safetensors': [entryOf(1)] } });
    const outside = writeTemporary([entryOf(2)]);
    const reports = new Reports(folder);
    symlinkSync(outside, join(folder, 'link'));
    renameSync(join(folder, 'link'), join(folder, 'x.safetensors'));
    expect(await reports.code()).toBe('SAFETENSORS_UNSAFE_SHARD_NAME');
  });
});

describe('ends', () => {
  it.each(['close', 'signal', 'using'] as const)('by %s, at any moment', async (way) => {
    const before = openDescriptors().length;
    for (let round = 0; round < 30; round++) {
      const path = writeTemporary([entryOf(round)]);
      const ending = new AbortController();
      const reports = new Reports(path, { settle: 1, signal: ending.signal });
      await delay(1);
      publish(path, round + 1);
      await delay(round / 2);
      const count = reports.all.length;
      if (way === 'close') reports.watcher.close();
      else if (way === 'using') reports.watcher[Symbol.dispose]();
      else ending.abort();
      reports.watcher.close();
      publish(path, round + 2);
      await delay(3);
      expect(reports.all.length).toBe(count);
      for (const one of reports.all) if (!(one instanceof Error)) one.close();
    }
    await delay(20);
    expect(openDescriptors().length).toBe(before);
  });

  it('during a verification, whose checkpoint it closes', async () => {
    const path = writeTemporary([entryOf(1)]);
    const large = temporaryPath('large.safetensors');
    const data = new Uint8Array(2 ** 27);
    await saveFile(large, { t: { dtype: 'U8', shape: [data.length], data } }, { digests: true });
    const before = openDescriptors().length;
    const reports = new Reports(path, { settle: 1 });
    renameSync(large, path);
    while (openDescriptors().length === before) await delay(1);
    reports.watcher.close();
    while (openDescriptors().length > before) await delay(1);
    await reports.nothing(50);
  });

  it('in its own callback', async () => {
    const path = writeTemporary([entryOf(1)]);
    const seen: number[] = [];
    const watcher: Watcher = await new Promise((resolve) => {
      const own = watch(
        path,
        (_, next) => {
          own.close();
          if (next !== null) seen.push(...valuesOf(next));
          next?.close();
          resolve(own);
        },
        { settle: 1 },
      );
      publish(path, 2);
    });
    publish(path, 3);
    await delay(50);
    watcher.close();
    expect(seen).toEqual([2]);
  });

  it('before it begins, with an aborted signal', () => {
    const signal = AbortSignal.abort(new Error('ended'));
    expect(() => watch('nowhere', () => {}, { signal })).toThrow('ended');
  });

  it('lets the process end: after close(), after unref(), and not before', async () => {
    const child = (mode: string) =>
      runChild('file/watching/children/watching.mjs', [mode, writeTemporary([entryOf(1)])]);
    expect(await child('close')).toMatchObject({ code: 0, stdout: 'watching\n', stderr: '' });
    expect(await child('unref')).toMatchObject({ code: 0, stdout: 'watching\n', stderr: '' });
    expect(await child('ref')).toMatchObject({ code: 0, stdout: 'watching\nsaw 2\n', stderr: '' });
  });
});

it('waits for a promise of the callback before the next report', async () => {
  const path = writeTemporary([entryOf(1)]);
  const events: string[] = [];
  const done = new Promise<void>((resolve) => {
    const watcher = watch(
      path,
      async (_, next) => {
        const [value] = next === null ? [] : valuesOf(next);
        events.push(`begin ${value}`);
        next?.close();
        if (value === 2) publish(path, 3);
        await delay(50);
        events.push(`end ${value}`);
        if (value === 3) resolve();
      },
      { settle: 1 },
    );
    onTestFinished(() => watcher.close());
  });
  publish(path, 2);
  await done;
  expect(events).toEqual(['begin 2', 'end 2', 'begin 3', 'end 3']);
});

it('leaves errors of the callback uncaught, as those of listeners are', async () => {
  const path = writeTemporary([entryOf(1)]);
  const ended = await runChild('file/watching/children/watching.mjs', ['throw', path]);
  expect(ended).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('Error: of the callback'),
  });
});

it('has many watchers of one folder', async () => {
  const path = writeTemporary([entryOf(1)]);
  const before = openDescriptors().length;
  const all = Array.from({ length: 200 }, () => new Reports(path));
  publish(path, 2);
  for (const reports of all) {
    const next = await reports.version();
    expect(valuesOf(next)).toEqual([2]);
    next.close();
  }
  for (const { watcher } of all) watcher.close();
  await delay(20);
  // The loop of Node has one descriptor for all folders.
  expect(openDescriptors().length).toBeLessThanOrEqual(before + 1);
});

it('rejects unusable arguments', () => {
  const call = (...args: readonly unknown[]) => {
    return () => (watch as (...all: readonly unknown[]) => unknown)(...args);
  };
  const type = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' });
  const range = expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' });
  const path = writeTemporary([entryOf(1)]);
  expect(call(3, () => {})).toThrow(type);
  expect(call(path)).toThrow(type);
  expect(call(path, () => {}, { signal: 1 })).toThrow(type);
  expect(call(path, () => {}, { interval: 0 })).toThrow(range);
  expect(call(path, () => {}, { settle: -1 })).toThrow(range);
  expect(call(path, () => {}, { variant: 'fp16' })).toThrow(range);
  expect(call(path, () => {}, { checkPath: 1 })).toThrow(type);
  expect(call(path, () => {}, { expectedHash: '' })).toThrow(/unknown option/);
});
