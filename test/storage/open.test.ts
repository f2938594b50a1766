import { closeSync, fstatSync } from 'node:fs';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Addon, AddonLoad } from '../../src/addon/load.js';
import { type OpenedFile, openRegularFile } from '../../src/io/opened-file.js';
import { openStorage } from '../../src/storage/open.js';
import { writeTemporary } from '../support/make-file.js';

// Hoisted, since the module asks for the addon as soon as it is loaded.
const addon = vi.hoisted(() => ({ load: { reason: 'not set', remedy: 'set it' } as AddonLoad }));
vi.mock('../../src/addon/load.js', () => ({ loadAddon: () => addon.load }));

let file: OpenedFile;

beforeEach(() => {
  const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [4] }]);
  file = openRegularFile(path, path);
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
    file = openRegularFile(file.path, file.path);
    openStorage(openRegularFile(file.path, file.path), {}).close(false);
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

test('an addon that fails after mapping gives the mapping back, not the descriptor', () => {
  const release = vi.fn();
  const failing: Partial<Addon> = {
    mapFile: () => ({}) as never,
    readFileState: () => {
      throw Object.assign(new Error('ESTALE'), { code: 'ESTALE' });
    },
    release,
  };
  addon.load = { addon: failing as Addon, path: 'the addon', buffers: { counted: false } };
  expect(() => openStorage(file, {})).toThrow(expect.objectContaining({ code: 'ESTALE' }));
  expect(release).toHaveBeenCalledOnce();
  expect(fstatSync(file.fd).isFile()).toBe(true);
});
