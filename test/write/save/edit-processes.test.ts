/** Several edits and saves of one file at once: no success undoes another. */
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Addon } from '../../../src/platform/addon/binding.js';
import { tryToLock } from '../../../src/write/replacement/locks.js';
import { editMetadata, safeOpen, serialize } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { ask, rounds, startChild } from '../../support/message-children.js';

/** Hooks right before the system puts the new file into its place, and right after an exchange. */
const { before, after } = vi.hoisted(() => ({
  before: [] as (() => void)[],
  after: [] as (() => void)[],
}));

vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const rename: typeof fs.renameSync = (...args) => {
    before.shift()?.();
    fs.renameSync(...args);
  };
  return { ...fs, renameSync: rename } as unknown as typeof fs;
});

vi.mock(import('../../../src/platform/addon/addon.js'), async (importOriginal) => {
  const { addon: load } = await importOriginal();
  const addon = (): Addon | undefined => {
    const native = load();
    if (native === undefined) return native;
    const exchangeFiles: Addon['exchangeFiles'] = (...args) => {
      before.shift()?.();
      native.exchangeFiles(...args);
      after.shift()?.();
    };
    return { ...native, exchangeFiles };
  };
  return { addon };
});

const CHILD = 'write/save/children/edit-on-message.mjs';

let path: string;
let lock: number | undefined;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
  write({ start: 'x' });
});

afterEach(() => {
  before.length = 0;
  after.length = 0;
  unlock();
});

function write(metadata: Record<string, string>): void {
  const tensor = { dtype: 'F32', shape: [100], data: new Float32Array(100) } as const;
  writeFileSync(temporaryPath('saved'), serialize({ tensor }, { metadata, reserve: 2000 }));
  renameSync(temporaryPath('saved'), path);
}

function metadataNow(): Record<string, string> {
  using file = safeOpen(path, { storage: 'read' });
  return Object.fromEntries(file.metadata ?? []);
}

function takeLock(): void {
  lock = openSync(path, 'r');
  expect(tryToLock(lock)).toBe(true);
}

function unlock(): void {
  if (lock !== undefined) closeSync(lock);
  lock = undefined;
}

describe.runIf(process.platform === 'linux')('a file that another saves at the last moment', () => {
  test('stays, and the edit fails', async () => {
    before.push(() => write({ saved: 'y' }));
    const edit = editMetadata(path, { key: 'value' });
    await expect(edit).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
    expect(metadataNow()).toEqual({ saved: 'y' });
    expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
  });

  test('waits with its own edit until it is certain that the new file stays', async () => {
    let isFree: boolean | undefined;
    after.push(() => {
      const other = openSync(path, 'r');
      isFree = tryToLock(other);
      closeSync(other);
    });
    await editMetadata(path, { key: 'value' });
    expect(isFree).toBe(false);
    takeLock();
  });

  test('while its header is overwritten stays, and the edit fails', async () => {
    const onProgress = (): void => write({ saved: 'y' });
    const edit = editMetadata(path, { key: 'value' }, { inPlace: true, onProgress });
    await expect(edit).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
    expect(metadataNow()).toEqual({ saved: 'y' });
    expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
  });
});

describe.runIf(process.platform === 'linux').each([false, true])(
  'inPlace: %s, an edit',
  (inPlace) => {
    test('waits for the lock, and works on what is there then', async () => {
      takeLock();
      const edit = editMetadata(path, { key: 'value' }, { inPlace });
      await setTimeout(30);
      expect(metadataNow()).toEqual({ start: 'x' });
      write({ saved: 'y' });
      const { ino } = statSync(path);
      unlock();
      await edit;
      expect(metadataNow()).toEqual({ saved: 'y', key: 'value' });
      expect(statSync(path).ino === ino).toBe(inPlace);
    });

    test('does not wait longer than it should', async () => {
      takeLock();
      const content = readFileSync(path);
      const late = editMetadata(path, { key: 'value' }, { inPlace, lockTimeout: 20 });
      await expect(late).rejects.toMatchObject({ code: 'SAFETENSORS_LOCKED', path });
      const controller = new AbortController();
      const { signal } = controller;
      const aborted = editMetadata(path, { key: 'value' }, { inPlace, signal });
      const queued = editMetadata(path, { key: 'value' }, { inPlace, signal });
      await setTimeout(20);
      const reason = new Error('enough');
      controller.abort(reason);
      await expect(aborted).rejects.toBe(reason);
      await expect(queued).rejects.toBe(reason);
      expect(readFileSync(path)).toEqual(content);
      unlock();
      await editMetadata(path, { key: 'value' }, { inPlace });
    });

    test('does not take a backup of an edit under way for one that was left', async () => {
      takeLock();
      writeFileSync(`${path}.header-backup`, 'old');
      const edit = editMetadata(path, { key: 'value' }, { inPlace });
      await setTimeout(20);
      renameSync(`${path}.header-backup`, temporaryPath('gone'));
      unlock();
      await edit;
      expect(metadataNow()).toEqual({ start: 'x', key: 'value' });
    });
  },
);

test.each([
  ['new files', false, false],
  ['in place', true, true],
  ['both', false, true],
])('edits of one thread at once (%s) all succeed', async (_, ...ways) => {
  await Promise.all(
    [0, 1, 2, 3].map((i) =>
      editMetadata(path, { [`key${i}`]: `${i}` }, { inPlace: ways[i % 2], durable: false }),
    ),
  );
  expect(metadataNow()).toEqual({ start: 'x', key0: '0', key1: '1', key2: '2', key3: '3' });
});

describe.runIf(process.platform === 'linux')('two processes', () => {
  test.each([
    ['new files', false, false],
    ['in place', true, true],
    ['both', false, true],
  ])('that edit all succeed (%s)', async (_, first, second) => {
    const [one, two] = await Promise.all([startChild(CHILD, path), startChild(CHILD, path)]);
    for (let round = 0; round < rounds(30, 10); round++) {
      const value = `${round}`;
      const answers = await ask([
        [one, { key: 'one', value, inPlace: first }],
        [two, { key: 'two', value, inPlace: second }],
      ]);
      expect({ round, answers }).toEqual({ round, answers: ['done', 'done'] });
      expect(metadataNow()).toEqual({ start: 'x', one: value, two: value });
    }
  });

  test.each([false, true])(
    'of which one saves never lose the save, inPlace: %s',
    async (inPlace) => {
      const [editor, saver] = await Promise.all([startChild(CHILD, path), startChild(CHILD, path)]);
      for (let round = 0; round < rounds(60, 20); round++) {
        const saved = `${round}`;
        const [edit, save] = await ask([
          [editor, { key: 'edited', value: saved, inPlace }],
          [saver, { call: 'save', key: 'saved', value: saved }],
        ]);
        expect({ round, save }).toEqual({ round, save: 'done' });
        expect(['done', 'SAFETENSORS_FILE_CHANGED']).toContain(edit);
        const found = metadataNow();
        expect(found).toMatchObject({ saved });
        if (edit !== 'done') expect(found).toEqual({ saved });
      }
    },
  );
});
