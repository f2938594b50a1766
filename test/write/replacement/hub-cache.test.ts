/** No writing function changes bytes that repositories in the Hub cache share. */
import {
  chmodSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { call } from '../../cli/call.js';
import { downloadFrom, useHub } from '../../remote/download/downloads.js';
import {
  convert,
  createWriter,
  editMetadata,
  saveCheckpoint,
  saveFile,
} from '../../support/api.js';
import { HubCache, sha256 } from '../../support/hub-cache.js';
import { fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';

const BYTES = fileBytes([{ name: 't', dtype: 'U8', shape: [64] }], { padding: 400 });
const TENSORS = { t: { dtype: 'U8', shape: [1], data: Uint8Array.of(7) } } as const;
const UNSUPPORTED = expect.objectContaining({ code: 'SAFETENSORS_HUB_CACHE_BLOB' });

const hub = useHub({
  'org/name': {
    files: { 'model.safetensors': fileBytes([{ name: 'u', dtype: 'U8', shape: [3] }]) },
  },
});

let cache: HubCache;
/** The same bytes, by every path that leads to them. */
let paths: string[] = [];

beforeEach(() => {
  cache = new HubCache();
  const link = cache.addShared('model.safetensors', BYTES);
  const other = cache.addShared('model.safetensors', BYTES, 'models--org--other');
  const entry = cache.entryOf(BYTES);
  // Old versions of the library and copies have not protected it. Root may write anyway.
  chmodSync(entry, 0o644);
  symlinkSync(link, temporaryPath('link.safetensors'));
  symlinkSync(cache.folder, temporaryPath('cache-link'));
  paths = [
    link,
    other,
    join(cache.repository(), 'blobs', sha256(BYTES)),
    entry,
    temporaryPath('link.safetensors'),
    join(temporaryPath('cache-link'), 'blobs', basename(dirname(entry)), basename(entry)),
  ];
});

/** The contents of the cache: every file with its place, time and bytes. */
function contents(): unknown {
  return readdirSync(cache.folder, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const path = join(entry.parentPath, entry.name);
      if (entry.isSymbolicLink()) return [path, readlinkSync(path)];
      const { ino, mtimeMs } = statSync(path);
      return entry.isFile() ? [path, ino, mtimeMs, readFileSync(path, 'latin1')] : [path];
    })
    .sort();
}

const ways: Record<string, (path: string) => Promise<unknown>> = {
  saveFile: (path) => saveFile(path, TENSORS),
  createWriter: (path) => createWriter(path, { t: { dtype: 'U8', shape: [1] } }),
  editMetadata: (path) => editMetadata(path, { a: 'b' }),
  'editMetadata in place': (path) => editMetadata(path, { a: 'b' }, { inPlace: true }),
  convert: (path) => convert(writeTemporary([{ name: 't', dtype: 'U8', shape: [1] }]), path),
  download: (path) => downloadFrom(hub(), 'hf://org/name/model.safetensors', path),
};

it.each(Object.keys(ways))('%s refuses them by every path', async (name) => {
  const before = contents();
  // Other names mean folders to these.
  const isOfFolders = ['convert', 'download'].includes(name);
  const isFile = (path: string) => !isOfFolders || path.endsWith('.safetensors');
  for (const path of paths.filter(isFile)) {
    await expect(ways[name]?.(path), path).rejects.toThrow(UNSUPPORTED);
  }
  expect(contents()).toEqual(before);
});

it.each([['set', 'a=b'], ['rm', 'a'], ['strip'], ['clear']])(
  'metadata %s refuses them',
  async (action, ...words) => {
    const before = contents();
    for (const path of paths) {
      const { code, stderr } = await call(['metadata', action, path, ...words]);
      expect([code, stderr]).toEqual([1, expect.stringContaining('SAFETENSORS_HUB_CACHE_BLOB')]);
    }
    expect(contents()).toEqual(before);
  },
);

it('saveCheckpoint, convert, join and downloads refuse a snapshot', async () => {
  const before = contents();
  const snapshot = cache.snapshot();
  const source = writeTemporary([{ name: 't', dtype: 'U8', shape: [1] }]);
  await expect(saveCheckpoint(snapshot, TENSORS)).rejects.toThrow(UNSUPPORTED);
  await expect(convert(source, snapshot)).rejects.toThrow(UNSUPPORTED);
  await expect(downloadFrom(hub(), 'hf://org/name', snapshot)).rejects.toThrow(UNSUPPORTED);
  expect(
    (await call(['join', source, '-o', join(snapshot, 'model.safetensors')])).stderr,
  ).toContain('SAFETENSORS_HUB_CACHE_BLOB');
  expect(contents()).toEqual(before);
});

it('a copy of a file can be written', async () => {
  const copy = temporaryPath('copy.safetensors');
  copyFileSync(join(cache.snapshot(), 'model.safetensors'), copy);
  expect((await editMetadata(copy, { a: 'b' })).method).toBe('rewritten');
});
