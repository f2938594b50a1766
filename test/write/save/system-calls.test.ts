/** System calls of saves and edits: sync, read and close, and their possible answers. */
import fs from 'node:fs';
import { dirname } from 'node:path';
import process from 'node:process';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { layOut } from '../../../src/header/header-writer.js';
import { addon } from '../../../src/platform/addon/addon.js';
import { readTensorsAndStreams } from '../../../src/write/input/tensor-input.js';
import { MAX_LOCK_TRIES } from '../../../src/write/replacement/locks.js';
import { LeasedFiles } from '../../../src/write/save/leased-files.js';
import { replaceFile } from '../../../src/write/save/replace-file.js';
import {
  createWriter,
  editMetadata,
  safeOpen,
  saveFile,
  serialize,
  type Tensor,
} from '../../support/api.js';
import { type Call, intercept, systemError } from '../../support/intercept.js';
import { countedBytes, temporaryPath } from '../../support/make-file.js';
import { type OpenDescriptor, openDescriptors } from '../../support/open-descriptors.js';

const A = { dtype: 'U8', shape: [3], data: countedBytes(3) } as const;
const isLinux = process.platform === 'linux';

let path: string;

beforeEach(() => {
  path = temporaryPath('model.safetensors');
});

/** Counts the calls of some functions of `node:fs`. */
function count(...names: string[]): () => number {
  let calls = 0;
  for (const name of names) {
    intercept(name, (own, args) => {
      calls++;
      return own(...args);
    });
  }
  return () => calls;
}

const names = (): string[] => fs.readdirSync(dirname(path)).sort();

type Options = { durable?: boolean };

const writers: [string, (options: Options) => unknown][] = [
  ['saveFile', (options) => saveFile(path, { A }, options)],
  [
    'createWriter',
    async (options) => {
      const writer = await createWriter(path, { A }, options);
      await writer.write('A', A.data);
      await writer.close();
    },
  ],
  ['editMetadata', (options) => editMetadata(path, { k: '1' }, options)],
  [
    'editMetadata in place',
    (options) => editMetadata(path, { k: '' }, { ...options, inPlace: true }),
  ],
];

describe.each(writers)('%s', (_, write) => {
  beforeEach(() => {
    fs.writeFileSync(path, serialize({ A }, { metadata: { k: 'x' } }));
  });

  test('syncs by default, and not when it need not be durable', async () => {
    const syncs = count('fsync', 'fsyncSync');
    await write({ durable: false });
    expect(syncs()).toBe(0);
    fs.writeFileSync(path, serialize({ A }, { metadata: { k: 'x' } }));
    await write({});
    expect(syncs()).toBeGreaterThan(0);
  });
});

test('what was written is not read again', async () => {
  const reads = count('read', 'readSync');
  await saveFile(path, { A });
  expect(reads()).toBe(0);
});

/** Records the views of each write on the thread pool. */
function noteWrites(): Uint8Array[][] {
  const calls: Uint8Array[][] = [];
  intercept('writev', (own, args) => {
    calls.push([...(args[1] as unknown as Uint8Array[])]);
    return own(...args);
  });
  return calls;
}

describe('a stream', () => {
  const save = (pieces: readonly Uint8Array[]): Promise<void> => {
    const byteLength = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
    const x = { dtype: 'U8', shape: [byteLength], data: () => pieces } as const;
    return saveFile(path, { x }, { durable: false });
  };

  test('of short pieces is written by the MiB', async () => {
    const calls = noteWrites();
    await save(Array.from({ length: 40 }, () => new Uint8Array(2 ** 16)));
    const [, ...lengths] = calls.map((views) => views.map(({ byteLength }) => byteLength));
    expect(lengths).toEqual([[2 ** 20], [2 ** 20], [2 ** 19]]);
  });

  test('of longer pieces is written from their memory', async () => {
    const calls = noteWrites();
    const pieces = [new Uint8Array(2 ** 20), new Uint8Array(2 ** 20 + 1)];
    await save(pieces);
    const [, ...buffers] = calls.map((views) => views.map(({ buffer }) => buffer));
    expect(buffers.map(([buffer]) => pieces.findIndex((piece) => piece.buffer === buffer))).toEqual(
      [0, 1],
    );
  });
});

describe.runIf(isLinux)('descriptors of a source', () => {
  const source = (): string => temporaryPath('source');
  let tensor: Tensor;
  let before: readonly OpenDescriptor[];

  beforeEach(() => {
    fs.writeFileSync(source(), serialize({ A }));
    const file = safeOpen(source());
    onTestFinished(() => file.close());
    tensor = file.getTensor('A');
    before = openDescriptors(source());
    expect(before).toHaveLength(1);
  });

  test('are given back before the new file takes its place: Windows replaces no open file', async () => {
    const seen: unknown[] = [];
    intercept('rename', (own, args) => {
      seen.push(openDescriptors(source()));
      return own(...args);
    });
    const layout = layOut(readTensorsAndStreams({ tensor }), {});
    const entries = layout.placed.map(({ spec }) => spec);
    const closeSources = (): unknown => seen.push('closed');
    const lease = (): LeasedFiles => new LeasedFiles(entries);
    await replaceFile(path, layout, lease, { durable: false, verify: false, closeSources });
    expect(seen).toEqual(['closed', before]);
  });

  test('are given back when saving fails', async () => {
    const data = (): never => {
      throw new Error('no more');
    };
    const last = { dtype: 'U8', shape: [1], data } as const;
    await expect(saveFile(path, { tensor, last })).rejects.toThrow('no more');
    expect(openDescriptors(source())).toEqual(before);
    await saveFile(path, { tensor });
    expect(openDescriptors(source())).toEqual(before);
  });

  test('a source that changes while saveFile writes ends it, and the old file stays', async () => {
    fs.writeFileSync(path, 'old');
    intercept('writev', (own, args) => {
      fs.appendFileSync(source(), 'x');
      return own(...args);
    });
    const code = 'SAFETENSORS_FILE_CHANGED';
    await expect(saveFile(path, { tensor })).rejects.toMatchObject({ code });
    expect(fs.readFileSync(path, 'utf8')).toBe('old');
    expect(names()).toEqual(['model.safetensors', 'source']);
  });
});

test('an error of writing ends saveFile, and the old file stays', async () => {
  fs.writeFileSync(path, 'old');
  intercept('writev', (_, args) => {
    const done = args.at(-1) as unknown as (error: Error) => void;
    done(systemError('EIO'));
  });
  await expect(saveFile(path, { A })).rejects.toMatchObject({ code: 'EIO', path });
  expect(fs.readFileSync(path, 'utf8')).toBe('old');
  expect(names()).toEqual(['model.safetensors']);
});

describe('a writer', () => {
  test('whose header cannot be written leaves nothing', async () => {
    intercept('writev', (_, args) => {
      const done = args.at(-1) as unknown as (error: Error) => void;
      done(systemError('EIO'));
    });
    await expect(createWriter(path, { A })).rejects.toMatchObject({ code: 'EIO', path });
    expect(names()).toEqual([]);
  });

  test('that is closed goes on when it is aborted then', async () => {
    const writer = await createWriter(path, { A });
    await writer.write('A', A.data);
    const aborts: Promise<void>[] = [];
    intercept('fsync', (own, args) => {
      aborts.push(writer.abort());
      return own(...args);
    });
    await writer.close();
    await Promise.all(aborts);
    expect(aborts).not.toHaveLength(0);
    expect(fs.readFileSync(path)).toEqual(Buffer.from(serialize({ A })));
  });
});

describe('a file system that cannot sync', () => {
  test.each(['EINVAL', 'ENOSYS', 'ENOTSUP'] as const)(
    '(%s) is named with the option to pass',
    async (code) => {
      const failing = (): never => {
        throw Object.assign(systemError(code), { syscall: 'fsync' });
      };
      intercept('fsyncSync', failing);
      intercept('fsync', (_, args) => {
        const done = args.at(-1) as unknown as (error: Error) => void;
        done(Object.assign(systemError(code), { syscall: 'fsync' }));
      });
      for (const [name, write] of writers) {
        const error = await Promise.resolve()
          .then(() => write({}))
          .then(
            () => undefined,
            (reason: Error) => reason,
          );
        const advice = 'the file system cannot sync files: pass { durable: false }';
        expect(error, name).toMatchObject({ code, path, syscall: 'fsync' });
        expect(error?.message, name).toContain(`fsync '${path}'; ${advice}`);
        await write({ durable: false });
      }
    },
  );
});

describe('an edit', () => {
  beforeEach(() => {
    fs.writeFileSync(path, serialize({ A }, { metadata: { k: 'x' } }));
  });

  test('needs no right to write to a file that it replaces', async () => {
    // As the system answers those who may read the file only.
    intercept('openSync', (own, args) => {
      const [opened, flags] = args as unknown as [unknown, unknown];
      const isWriting = typeof flags === 'number' && (flags & fs.constants.O_RDWR) !== 0;
      if (isWriting && String(opened) === path) throw systemError('EACCES');
      return own(...args);
    });
    const inPlace = editMetadata(path, { k: '' }, { inPlace: true });
    await expect(inPlace).rejects.toMatchObject({ code: 'EACCES', path });
    expect(await editMetadata(path, { k: 'y' })).toMatchObject({ method: 'rewritten' });
  });

  test('in place that is aborted before the first byte does not touch the file', async () => {
    fs.utimesSync(path, 1, 1);
    const controller = new AbortController();
    // Of the backup.
    intercept('fsync', (own, args) => {
      controller.abort(new Error('enough'));
      return own(...args);
    });
    const options = { inPlace: true, signal: controller.signal };
    await expect(editMetadata(path, { k: '' }, options)).rejects.toThrow('enough');
    expect(fs.statSync(path).mtimeMs).toBe(1000);
    expect(names()).toEqual(['model.safetensors']);
  });

  test('closes the old file once where it must be closed before, as on Windows', async () => {
    const { platform } = process;
    Object.defineProperty(process, 'platform', { value: 'win32' });
    onTestFinished(() => void Object.defineProperty(process, 'platform', { value: platform }));
    // Nor can names be exchanged there.
    const native = addon() ?? { exchangeFiles: () => {} };
    const exchange = vi.spyOn(native, 'exchangeFiles').mockImplementation(() => {
      throw systemError('EACCES');
    });
    onTestFinished(() => exchange.mockRestore());
    const other = temporaryPath('other');
    fs.writeFileSync(other, '');
    const opened: number[] = [];
    intercept('renameSync', (own, args) => {
      // One of these gets the number that the descriptor of the old file had.
      for (let i = 0; i < 16; i++) opened.push(fs.openSync(other, 'r'));
      return own(...args);
    });
    await editMetadata(path, { k: 'y' }, { durable: false });
    expect(opened).toHaveLength(16);
    for (const fd of opened) expect(() => fs.closeSync(fd)).not.toThrow();
  });

  test('knows files whose numbers are no numbers of JavaScript', async () => {
    const large = (own: Call, args: never[]): unknown => {
      const stats = own(...args) as fs.BigIntStats | fs.Stats | undefined;
      if (typeof stats?.ino === 'bigint') stats.ino += 2n ** 60n;
      else if (stats !== undefined) stats.ino = Number(stats.ino) + 2 ** 60;
      return stats;
    };
    intercept('statSync', large);
    intercept('fstatSync', large);
    expect(await editMetadata(path, { k: 'y' })).toMatchObject({ method: 'rewritten' });
  });

  test('gives up a file that is replaced again and again', async () => {
    // Each time that it is looked for there is another one.
    let replaced = 0;
    intercept('statSync', (own, args) => {
      const stats = own(...args) as fs.BigIntStats;
      if (String(args[0]) === path && replaced < 2 * MAX_LOCK_TRIES)
        stats.ino += BigInt(++replaced);
      return stats;
    });
    const edit = editMetadata(path, { k: 'y' });
    await expect(edit).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
    expect(replaced).toBeGreaterThanOrEqual(MAX_LOCK_TRIES);
    expect(replaced).toBeLessThan(2 * MAX_LOCK_TRIES);
  });
});
