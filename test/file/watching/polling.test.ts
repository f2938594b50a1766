/** Watched paths where the system reports no events: the path is looked at from time to time. */
import { renameSync, symlinkSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, vi } from 'vitest';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { entryOf, publish, Reports, SETTLE, valuesOf } from './reports.js';

const { events } = vi.hoisted(() => ({
  /** How the system watches folders. */
  events: {
    mode: 'silent' as 'silent' | 'unsupported' | 'failing',
    opened: 0,
    closed: 0,
    listeners: [] as ((event: string, name: string | null) => void)[],
  },
}));

type Listener = (typeof events.listeners)[number];

vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const { EventEmitter } = await import('node:events');
  const watch = (_path: string, _options: object, listener: Listener): unknown => {
    events.listeners.push(listener);
    if (events.mode === 'unsupported') {
      throw Object.assign(new Error('ENOSYS: watch'), { code: 'ENOSYS' });
    }
    events.opened++;
    const watcher = Object.assign(new EventEmitter(), { close: () => void events.closed++ });
    if (events.mode === 'failing') setImmediate(() => watcher.emit('error', new Error('EIO')));
    return watcher;
  };
  return { ...fs, watch: watch as typeof fs.watch };
});

describe.each(['silent', 'unsupported', 'failing'] as const)('without events (%s)', (mode) => {
  it('a replaced file is found, and another one', async () => {
    Object.assign(events, { mode, opened: 0, closed: 0 });
    const path = writeTemporary([entryOf(1)]);
    const reports = new Reports(path, { interval: 20 });
    await reports.nothing(100);
    publish(path, 2);
    expect(valuesOf(await reports.version())).toEqual([2]);
    await reports.nothing(100);
    publish(path, 3);
    expect(valuesOf(await reports.version())).toEqual([3]);
    reports.watcher.close();
    expect(events.closed).toBe(events.opened);
    publish(path, 4);
    await reports.nothing(100);
  });

  it('a new file is found in a folder, by whatever clock', async () => {
    Object.assign(events, { mode });
    const folder = temporaryPath('folder');
    writeBelow(folder, 'model-00001-of-00001.safetensors', fileBytes([entryOf(1)]));
    // A clock of low resolution shows the same time after a change.
    utimesSync(folder, 1000, 1000);
    const reports = new Reports(folder, { interval: 5 });
    await reports.nothing(10 * SETTLE);
    writeBelow(folder, 'model.safetensors', fileBytes([entryOf(2)]));
    utimesSync(folder, 1000, 1000);
    expect(valuesOf(await reports.version())).toEqual([2]);
  });

  it.skipIf(process.platform === 'win32')('the switch of a link is found', async () => {
    Object.assign(events, { mode });
    const root = temporaryPath('versions');
    for (const value of [1, 2]) {
      writeBelow(root, `v${value}/model.safetensors`, fileBytes([entryOf(value)]));
    }
    symlinkSync('v1', join(root, 'current'));
    symlinkSync('v2', join(root, 'next'));
    const reports = new Reports(join(root, 'current'), { interval: 20 });
    renameSync(join(root, 'next'), join(root, 'current'));
    expect(valuesOf(await reports.version())).toEqual([2]);
  });
});

it('events about other files, such as a log, are passed over', async () => {
  Object.assign(events, { mode: 'silent', listeners: [] });
  const path = writeTemporary([entryOf(1)]);
  const reports = new Reports(path, { interval: 60_000 });
  const emit = (event: string, name: string | null): void => {
    for (const listener of events.listeners) listener(event, name);
  };
  await reports.nothing(10 * SETTLE);
  publish(path, 2);
  emit('change', 'server.log');
  await reports.nothing(10 * SETTLE);
  emit('change', 'model.safetensors');
  expect(valuesOf(await reports.version())).toEqual([2]);
  for (const [event, name] of [
    ['rename', 'server.log'],
    ['change', null],
    ['change', 'main'],
  ] as const) {
    await reports.nothing(10 * SETTLE);
    publish(path, 3);
    emit(event, name);
    await reports.version();
  }
});
