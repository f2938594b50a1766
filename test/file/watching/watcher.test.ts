/** A version that is replaced while it is opened. */
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { safeOpenAsync } from '../../../src/file/checkpoint/open.js';
import { versionAt } from '../../../src/file/watching/version.js';
import { CheckpointWatcher } from '../../../src/file/watching/watcher.js';
import { runSync } from '../../../src/work/work.js';
import { FileClosedError } from '../../support/api.js';
import { filesOf, writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { entryOf, replace, valuesOf } from './reports.js';

type Opened = Awaited<ReturnType<typeof safeOpenAsync>>;

const filesWith = (value: number): Map<string, Uint8Array> => {
  const shards = {
    'model-00001-of-00002.safetensors': [entryOf(value, 'a')],
    'model-00002-of-00002.safetensors': [entryOf(value, 'b')],
  };
  return filesOf({ shards });
};

it('is closed, and never mixed with the one that replaced it', async () => {
  const folder = temporaryPath('model');
  for (const [name, bytes] of filesWith(1)) writeBelow(folder, name, bytes);
  const publish = (value: number): void => {
    for (const [name, bytes] of filesWith(value)) replace(join(folder, name), bytes);
  };
  const opened: Opened[] = [];
  const reported = new Promise<Opened>((resolve, reject) => {
    const find = () => versionAt(folder, {});
    const watcher = new CheckpointWatcher(
      {
        find,
        open: async (signal) => {
          const next = await safeOpenAsync(folder, { signal });
          if (opened.push(next) === 1) {
            expect(next.getTensor('a').bytes[0]).toBe(2);
            publish(3);
          }
          return next;
        },
        onChange: (error, next) => (error === null ? resolve(next as Opened) : reject(error)),
        ...{ interval: 60_000, settle: 1, signal: undefined },
      },
      runSync(find()),
    );
    onTestFinished(() => watcher.close());
    publish(2);
  });
  expect(valuesOf(await reported)).toEqual([3, 3]);
  expect(() => opened[0]?.keys()).toThrow(FileClosedError);
  for (const one of opened) one.close();
});
