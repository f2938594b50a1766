/** Downloads into a Hub cache with a store that its repositories share. */
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { safeOpen } from '../../support/api.js';
import { HubCache, linkTo, sha256 } from '../../support/hub-cache.js';
import { temporaryPath } from '../../support/make-file.js';
import { downloadFrom, SHARDED, useHub } from './downloads.js';

const hub = useHub({ 'org/sharded': { files: SHARDED } });

let cache = '';
const name = 'model-00001-of-00002.safetensors';
const shard = SHARDED[name] as Uint8Array;
let shared: HubCache;
let repository = '';
let blob = '';
beforeEach(() => {
  shared = new HubCache('cache');
  cache = shared.folder;
  vi.stubEnv('HF_HUB_CACHE', cache);
  repository = shared.repository('models--org--sharded');
  blob = join(repository, 'blobs', sha256(shard));
});

afterEach(() => vi.unstubAllEnvs());

/** Every file of the store with its time and content. */
const stored = (): unknown =>
  readdirSync(join(cache, 'blobs'), { recursive: true, encoding: 'utf8' })
    .sort()
    .map((path) => {
      const { ino, mtimeMs, mode } = lstatSync(join(cache, 'blobs', path));
      return [path, ino, mtimeMs, mode];
    });

/** The download, after which the model opens. */
async function downloaded(): Promise<number> {
  const { downloadedBytes, path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  using checkpoint = safeOpen('org/sharded');
  expect(checkpoint.keys()).toEqual(['embed', 'norm']);
  expect(Buffer.compare(readFileSync(join(path, name)), shard)).toBe(0);
  return downloadedBytes;
}

it('takes what is there, and publishes nothing', async () => {
  shared.addShared(name, shard, 'models--org--sharded');
  const before = stored();
  expect(await downloaded()).toBeLessThan(shard.length);
  expect(lstatSync(blob).isSymbolicLink()).toBe(true);
  expect(stored()).toEqual(before);
  expect(await downloaded()).toBe(0);
});

it('fills the blobs with files, whatever other repositories have', async () => {
  shared.addShared(name, shard, 'models--org--other');
  const before = stored();
  expect(await downloaded()).toBeGreaterThan(shard.length);
  expect(lstatSync(blob).isFile()).toBe(true);
  expect(stored()).toEqual(before);
});

const links: Record<string, () => string> = {
  'an entry that is gone': () => shared.entryOf('gone'),
  'an entry of another length': () => {
    shared.addShared('x', 'short', 'models--org--other');
    return shared.entryOf('short');
  },
  'a file outside of the cache': () => {
    writeFileSync(temporaryPath('own'), shard);
    return temporaryPath('own');
  },
  'a file outside of the cache, of another length': () => {
    writeFileSync(temporaryPath('own'), 'short');
    return temporaryPath('own');
  },
  'the blob of another repository': () => {
    shared.addPlain(name, shard, 'models--org--other');
    return join(shared.repository('models--org--other'), 'blobs', sha256(shard));
  },
  'a store without marker': () => {
    shared.addShared(name, shard, 'models--org--other');
    rmSync(join(cache, 'blobs/.huggingface-shared-blobs'));
    return shared.entryOf(shard);
  },
  itself: () => blob,
};

const hashOf = (to: string, path: string): string =>
  to !== 'itself' && existsSync(path) ? sha256(readFileSync(path)) : '';

it.each(Object.keys(links))('replaces a link to %s, and does not write through it', async (to) => {
  const target = links[to]?.() ?? '';
  linkTo(target, blob);
  linkTo(blob, join(shared.snapshot('models--org--sharded'), name));
  const before = [stored(), hashOf(to, target)];
  expect(await downloaded()).toBeGreaterThan(shard.length);
  expect(lstatSync(blob).isFile()).toBe(true);
  expect([stored(), hashOf(to, target)]).toEqual(before);
});

it('replaces links of a snapshot that do not lead to the blob', async () => {
  const snapshot = join((await downloadFrom(hub(), 'hf://org/sharded', 'cache')).path);
  const path = join(snapshot, name);
  shared.addShared(name, shard, 'models--org--other');
  for (const target of [
    shared.entryOf(shard),
    shared.entryOf('gone'),
    blob.replace('sharded', 'other'),
  ]) {
    rmSync(path);
    linkTo(target, path);
    expect(await downloaded()).toBe(0);
    expect(join(snapshot, readlinkSync(path))).toBe(blob);
  }
});
