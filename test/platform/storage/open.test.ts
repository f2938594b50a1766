import { closeSync, fstatSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, type Mock, test, vi } from 'vitest';
import type { Addon, AddonLoad } from '../../../src/platform/addon/load.js';
import { type OpenedFile, openRegularFile } from '../../../src/platform/io/opened-file.js';
import type { FileBackedStorage } from '../../../src/platform/storage/file-backed.js';
import {
  openStorage as openingStorage,
  type StorageOptions,
} from '../../../src/platform/storage/open.js';
import { runSync } from '../../../src/work/work.js';
import { writeTemporary } from '../../support/make-file.js';

// Hoisted, since the module asks for the addon as soon as it is loaded.
const addon = vi.hoisted(() => ({ load: { reason: 'not set', remedy: 'set it' } as AddonLoad }));
vi.mock('../../../src/platform/addon/load.js', () => ({ loadAddon: () => addon.load }));

let file: OpenedFile;
let start: Uint8Array;

function openStorage(opened: OpenedFile, options: StorageOptions): FileBackedStorage {
  return runSync(openingStorage(opened, start, options));
}

function openAgain(path: string): OpenedFile {
  return runSync(openRegularFile(path, path));
}

beforeEach(() => {
  const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [4] }]);
  file = openAgain(path);
  start = new Uint8Array(readFileSync(path).subarray(0, -4));
});

afterEach(() => closeSync(file.fd));

/** An addon whose mapping fails. */
function failingWith(code: string): Extract<AddonLoad, { addon: Addon }> {
  const failing: Partial<Addon> = {
    mapFile: vi.fn(() => {
      throw Object.assign(new Error(code), { code });
    }),
    releaseDropped: vi.fn(),
  };
  return { addon: failing as Addon, path: 'the addon', buffers: { counted: false } };
}

describe.each<[string, () => AddonLoad]>([
  ['without an addon', () => ({ reason: 'there is no addon', remedy: 'Ship it' })],
  ['on a file system without mappings', () => failingWith('ENODEV')],
])('%s', (_, makeLoad) => {
  beforeEach(() => {
    addon.load = makeLoad();
  });

  test('files are read, with a warning for the first', () => {
    const warn = vi.spyOn(process, 'emitWarning').mockReturnValue();
    const storage = openStorage(file, {});
    expect(warn.mock.calls).toEqual([
      [
        expect.stringMatching(/is read into memory instead of mapped, because (there is|its file)/),
        { type: 'SafetensorsWarning', code: 'SAFETENSORS_MAPPING_UNAVAILABLE' },
      ],
    ]);
    expect(storage.kind).toBe('read');
    expect(storage.window(file.byteLength - 4, file.byteLength)).toEqual(Uint8Array.of(1, 2, 3, 4));
    // It has taken the descriptor over.
    storage.close(false);
    file = openAgain(file.path);
    openStorage(openAgain(file.path), {}).close(false);
    expect(warn).toHaveBeenCalledOnce();
    warn.mockRestore();
  });

  test("a mapping by name is refused, and the descriptor stays the caller's", () => {
    expect(() => openStorage(file, { storage: 'mmap' })).toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_MAPPING_UNAVAILABLE',
        path: file.path,
        message: expect.stringMatching(
          /cannot map the file, because (there is no addon|its file system)/,
        ),
      }),
    );
    expect(fstatSync(file.fd).isFile()).toBe(true);
  });
});

test.each(['ENOMEM', 'EMFILE'])(
  'no room for a mapping (%s) is an error after dropped files were released',
  (code) => {
    const load = failingWith(code);
    addon.load = load;
    expect(() => openStorage(file, {})).toThrow(expect.objectContaining({ code }));
    expect(load.addon.releaseDropped).toHaveBeenCalledOnce();
    expect(load.addon.mapFile).toHaveBeenCalledTimes(2);
    expect(fstatSync(file.fd).isFile()).toBe(true);
  },
);

/** An addon that maps nothing and tells the state of a file. */
function pretendingWith(state: readonly number[]): { addon: Addon; readBytes: Mock } {
  const readBytes = vi.fn((_mapping, position: number, target: Uint8Array) => {
    target.set(start.subarray(position, position + target.length));
    return target.length;
  });
  const pretending: Partial<Addon> = {
    mapFile: () => ({}) as never,
    truncations: new Uint32Array(1),
    readFileState: (_, found) => found.set(state),
    release: vi.fn(),
    readBytes,
  };
  return { addon: pretending as Addon, readBytes };
}

test.each([
  [1_700_000_000_250_000_001n, 1_700_000_000, 250_000_001],
  [-1_250_000_000n, -2, 750_000_000],
  [-3_000_000_000n, -3, 0],
])(
  'a mapped file of the time %d is the same until that changes',
  (mtimeNs, seconds, nanoseconds) => {
    const state = [file.byteLength, seconds, nanoseconds, 0];
    const { addon: pretending, readBytes } = pretendingWith(state);
    addon.load = { addon: pretending, path: 'the addon', buffers: { counted: false } };
    const storage = openStorage({ ...file, mtimeNs }, {});
    expect(storage.kind).toBe('mmap');
    // The mapping has a separate descriptor.
    expect(() => fstatSync(file.fd)).toThrow(expect.objectContaining({ code: 'EBADF' }));
    file = openAgain(file.path);
    storage.verify();
    expect(readBytes).not.toHaveBeenCalled();
    state[2] = nanoseconds + 1;
    storage.verify();
    expect(readBytes).toHaveBeenCalledOnce();
    storage.verify();
    expect(readBytes).toHaveBeenCalledOnce();
  },
);

test('a file that became too short before it was mapped is one that changed', () => {
  addon.load = failingWith('ENODATA');
  expect(() => openStorage(file, {})).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED', path: file.path }),
  );
});
