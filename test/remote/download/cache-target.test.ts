import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runDownload } from '../../../src/remote/download/run-download.js';
import { safeOpen } from '../../support/api.js';
import { linkTo } from '../../support/hub-cache.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import {
  breakingFetch,
  CONFIG,
  downloadFrom,
  emptyFolder,
  LARGE_BYTE_LENGTH,
  namesIn,
  SHARDED,
  SINGLE,
  useHub,
} from './downloads.js';

const COMPONENT = {
  'unet/diffusion_pytorch_model.safetensors': SINGLE['model.safetensors'] as Uint8Array,
};

const hub = useHub({
  'org/sharded': {
    files: SHARDED,
    revisions: { 'refs/pr/1': SINGLE, '../../outside': SINGLE },
  },
  'org/long': { files: { [`${'n'.repeat(300)}.json`]: '{}', ...SINGLE } },
  'org/pipeline': { files: { 'model_index.json': '{}', ...COMPONENT } },
});

let cache = '';
beforeEach(() => {
  cache = temporaryPath('cache');
  vi.stubEnv('HF_HUB_CACHE', cache);
});
afterEach(() => vi.unstubAllEnvs());

it.each([
  ['a shard', 'model-00001-of-00002.safetensors'],
  ['a small file', 'config.json'],
])('receives %s again whose bytes are wrong, and no other', async (_, name) => {
  const { path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  const right = readFileSync(join(path, name));
  const link = readlinkSync(join(path, name));
  const wrong = Buffer.from(right);
  wrong[wrong.length - 1] = (wrong[wrong.length - 1] as number) ^ 1;
  writeFileSync(join(path, name), wrong);
  const again = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  expect(again.downloadedBytes).toBe(right.length);
  expect(readFileSync(join(path, name)).equals(right)).toBe(true);
  expect(readlinkSync(join(path, name))).toBe(link);
  // A copy in the snapshot, as systems without links have it.
  rmSync(join(path, name));
  writeFileSync(join(path, name), wrong);
  expect((await downloadFrom(hub(), 'hf://org/sharded', 'cache')).downloadedBytes).toBe(0);
  expect(readFileSync(join(path, name)).equals(right)).toBe(true);
  rmSync(join(path, name));
  writeFileSync(join(path, name), wrong);
  rmSync(join(path, link), { force: true });
  expect((await downloadFrom(hub(), 'hf://org/sharded', 'cache')).downloadedBytes).toBe(
    right.length,
  );
  expect(readFileSync(join(path, name)).equals(right)).toBe(true);
  expect((await downloadFrom(hub(), 'hf://org/sharded', 'cache')).downloadedBytes).toBe(0);
});

it('fills the cache, in which safeOpen finds the model', async () => {
  const { path, commit } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  const repository = join(cache, 'models--org--sharded');
  expect(path).toBe(join(repository, 'snapshots', String(commit)));
  expect(readFileSync(join(repository, 'refs/main'), 'latin1')).toBe(commit);
  expect(namesIn(path)).toHaveLength(5);
  expect(readlinkSync(join(path, 'config.json'))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/);
  const [, shard = ''] = namesIn(path);
  expect(readlinkSync(join(path, shard))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
  expect(namesIn(join(repository, 'blobs')).some((name) => name.includes('.'))).toBe(false);
  using checkpoint = safeOpen('org/sharded');
  expect(checkpoint.keys()).toEqual(['embed', 'norm']);
});

it('leaves out what has a name that is too long here', async () => {
  const { path, skipped } = await downloadFrom(hub(), 'hf://org/long', 'cache');
  expect(skipped).toEqual([`${'n'.repeat(300)}.json`]);
  expect(namesIn(path)).toEqual(['config.json', 'model.safetensors']);
  const blobs = namesIn(join(cache, 'models--org--long', 'blobs'));
  expect(blobs.filter((name) => name.includes('.'))).toEqual([]);
  expect(blobs).toHaveLength(2);
});

it('fetches nothing that the cache has', async () => {
  await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  hub().requests.length = 0;
  const { downloadedBytes } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  expect([downloadedBytes, hub().requests.length]).toEqual([0, 2]);
});

it('goes on with a blob that is incomplete, and has no snapshot until then', async () => {
  const cut = downloadFrom(hub(), 'hf://org/sharded', 'cache', { fetch: breakingFetch(9_000_000) });
  await expect(cut).rejects.toThrow('the line is cut');
  const repository = join(cache, 'models--org--sharded');
  expect([existsSync(join(repository, 'snapshots')), existsSync(join(repository, 'refs'))]).toEqual(
    [false, false],
  );
  expect(() => safeOpen('org/sharded')).toThrow('hf download org/sharded');
  const { reusedBytes } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  expect(reusedBytes).toBeGreaterThan(3_000_000);
  using checkpoint = safeOpen('org/sharded');
  expect(checkpoint.keys()).toEqual(['embed', 'norm']);
});

it('removes what it had begun of a blob that another program has finished', async () => {
  const cut = downloadFrom(hub(), 'hf://org/sharded', 'cache', { fetch: breakingFetch(9_000_000) });
  await expect(cut).rejects.toThrow('the line is cut');
  const blobs = join(cache, 'models--org--sharded/blobs');
  const [partial = ''] = namesIn(blobs).filter((name) => name.endsWith('.incomplete'));
  const shard = SHARDED['model-00001-of-00002.safetensors'] as Uint8Array;
  expect(partial).toBe(`${createHash('sha256').update(shard).digest('hex')}.incomplete`);
  writeFileSync(join(blobs, partial.replace('.incomplete', '')), shard);
  await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  expect(namesIn(blobs).filter((name) => name.endsWith('.incomplete'))).toEqual([]);
});

it('refuses a revision that would lead out of the folder of the refs', async () => {
  const source = 'hf://org/sharded@..%2F..%2Foutside';
  await expect(downloadFrom(hub(), source, 'cache')).rejects.toMatchObject({
    code: 'ERR_OUT_OF_RANGE',
  });
  expect(existsSync(cache)).toBe(false);
});

it('receives a blob again that a link does not find', async () => {
  const { path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  const config = join(path, 'config.json');
  rmSync(join(path, readlinkSync(config)));
  await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  expect(lstatSync(config).isSymbolicLink()).toBe(true);
  expect(readFileSync(config, 'utf8')).toBe(SHARDED['config.json']);
});

it('takes a revision, a folder or a file', async () => {
  const pull = await downloadFrom(hub(), 'hf://org/sharded@refs/pr/1', 'cache');
  const repository = join(cache, 'models--org--sharded');
  expect(readFileSync(join(repository, 'refs/refs/pr/1'), 'latin1')).toBe(pull.commit);
  const unet = await downloadFrom(hub(), 'hf://org/pipeline/unet', 'cache');
  const [link = ''] = namesIn(unet.path);
  expect(readlinkSync(join(unet.path, link))).toMatch(/^\.\.\/\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
  const name = 'unet/diffusion_pytorch_model.safetensors';
  const { path } = await downloadFrom(hub(), `hf://org/pipeline/${name}`, 'cache');
  expect([path, lstatSync(path).isSymbolicLink()]).toEqual([join(unet.path, link), true]);
});

it('leaves a snapshot alone that has files instead of links', async () => {
  const { path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  const config = join(path, 'config.json');
  const blob = join(path, readlinkSync(config));
  rmSync(config);
  renameSync(blob, config);
  const { downloadedBytes } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  expect([downloadedBytes, readFileSync(config, 'latin1')]).toEqual([0, CONFIG]);
});

it('touches nothing when all is there', async () => {
  const { path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
  rmSync(join(cache, '.locks'), { recursive: true });
  rmSync(join(cache, 'CACHEDIR.TAG'));
  const state = (): unknown =>
    readdirSync(cache, { recursive: true, encoding: 'utf8' })
      .sort()
      .map((name) => [
        name,
        lstatSync(join(cache, name)).mtimeMs,
        lstatSync(join(cache, name)).ino,
      ]);
  const before = state();
  const progress: unknown[] = [];
  const again = await downloadFrom(hub(), 'hf://org/sharded', 'cache', {
    onProgress: (event) => progress.push(event),
  });
  expect(again).toMatchObject({ path, downloadedBytes: 0 });
  const totalBytes = again.reusedBytes;
  expect(totalBytes).toBeGreaterThan(LARGE_BYTE_LENGTH);
  expect(progress.at(-1)).toEqual({ bytes: totalBytes, totalBytes });
  expect(state()).toEqual(before);
});

it.each(['blobs', 'refs', 'snapshots'])(
  'refuses a repository whose folder %s is a link',
  async (name) => {
    const outside = emptyFolder('outside');
    linkTo(outside, join(cache, 'models--org--sharded', name));
    hub().requests.length = 0;
    await expect(downloadFrom(hub(), 'hf://org/sharded', 'cache')).rejects.toMatchObject({
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
      message: expect.stringContaining(`found a link: "${name}"; remove it`),
    });
    expect(namesIn(outside)).toEqual([]);
    expect(hub().requests.filter(({ server }) => server === 'network')).toEqual([]);
  },
);

it('refuses a snapshot with a folder that is a link', async () => {
  const outside = emptyFolder('outside');
  const { path, commit } = await downloadFrom(hub(), 'hf://org/pipeline/unet', 'cache');
  rmSync(path, { recursive: true });
  linkTo(outside, join(path, '.'));
  await expect(downloadFrom(hub(), 'hf://org/pipeline/unet', 'cache')).rejects.toMatchObject({
    code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
    message: expect.stringContaining(`found a link: "snapshots/${commit}/unet"`),
  });
  expect(namesIn(outside)).toEqual([]);
});

it('refuses sources that are not on the Hub', async () => {
  const source = `${hub().url}/files/model.safetensors`;
  const settings = {
    endpoint: 'https://hub.example',
    isOffline: false,
    readToken: () => undefined,
  };
  await expect(runDownload(source, 'cache', { durable: false }, settings)).rejects.toThrow(
    RangeError,
  );
});

const python = findPython('huggingface_hub', 'transformers');

it.skipIf(isSkipped(python))(
  titleWith(python, 'the Python library finds all of it, offline'),
  async () => {
    const { commit, path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    const script = `
import json
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download, try_to_load_from_cache
from transformers.utils import cached_file
found = scan_cache_dir()
[repo] = found.repos
[revision] = repo.revisions
print(json.dumps({
  'file': hf_hub_download('org/sharded', 'config.json', local_files_only=True),
  'snapshot': snapshot_download('org/sharded', local_files_only=True),
  'cached': try_to_load_from_cache('org/sharded', 'model-00001-of-00002.safetensors'),
  'transformers': cached_file('org/sharded', 'config.json'),
  'warnings': [str(warning) for warning in found.warnings],
  'commit': revision.commit_hash,
  'refs': sorted(revision.refs),
  'files': sorted(file.file_name for file in revision.files),
  'bytes': repo.size_on_disk,
}))`;
    const said = JSON.parse(runPython(python, ['-c', script]).trim().split('\n').at(-1) ?? '');
    const names = namesIn(path);
    expect(said).toMatchObject({
      file: join(path, 'config.json'),
      snapshot: path,
      cached: join(path, names[1] ?? ''),
      transformers: join(path, 'config.json'),
      warnings: [],
      commit,
      refs: ['main'],
      files: names,
    });
    expect(said.bytes).toBeGreaterThan(LARGE_BYTE_LENGTH);
  },
);

describe.skipIf(isSkipped(python))(titleWith(python, 'a download into the cache'), () => {
  const name = 'model-00001-of-00002.safetensors';
  const shard = SHARDED[name] as Uint8Array;
  const repository = (): string => join(cache, 'models--org--sharded');
  const blobs = (): string[] => namesIn(join(repository(), 'blobs'));

  /** Runs Python next to the Hub, which is of this process. */
  async function python3(script: string): Promise<number | null> {
    // It follows redirects to the same host, whatever the port: the content network must be another one.
    const endpoint = hub().url.replace('127.0.0.1', 'localhost');
    const environment = {
      HF_ENDPOINT: endpoint,
      HF_HUB_CACHE: cache,
      HF_HUB_DISABLE_XET: '1',
      HF_HUB_DISABLE_PROGRESS_BARS: '1',
    };
    const child = spawn(String(python.executable), ['-c', script], {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [status] = await once(child, 'exit');
    return status;
  }

  it('that we began is finished by the Python library, and nothing of ours stays', async () => {
    const cut = downloadFrom(hub(), 'hf://org/sharded', 'cache', {
      fetch: breakingFetch(9_000_000),
    });
    await expect(cut).rejects.toThrow('the line is cut');
    expect(blobs().filter((name) => name.endsWith('.incomplete'))).not.toEqual([]);
    const status = await python3(
      'from huggingface_hub import snapshot_download; snapshot_download("org/sharded")',
    );
    expect(status).toBe(0);
    const { downloadedBytes, path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
    expect(downloadedBytes).toBe(0);
    expect(readFileSync(join(path, name)).equals(shard)).toBe(true);
    expect(blobs().filter((name) => name.endsWith('.incomplete'))).toEqual([]);
  });

  it('that the Python library began, and that was killed half way, is finished by us', async () => {
    const status = await python3(`
import os
from huggingface_hub import file_download, hf_hub_download
get = file_download.http_get
class Half:
    def __init__(self, file):
        self.file, self.left = file, 4_000_000
    def __getattr__(self, name):
        return getattr(self.file, name)
    def write(self, data):
        self.file.write(data)
        self.left -= len(data)
        if self.left < 0:
            self.file.flush()
            os._exit(7)
file_download.http_get = lambda url, file, **others: get(url, Half(file), **others)
hf_hub_download("org/sharded", "${name}")`);
    expect(status).toBe(7);
    expect(blobs()).toEqual([expect.stringMatching(/\.incomplete$/)]);
    const { path } = await downloadFrom(hub(), 'hf://org/sharded', 'cache');
    expect(readFileSync(join(path, name)).equals(shard)).toBe(true);
    using checkpoint = safeOpen('org/sharded');
    expect(checkpoint.keys()).toEqual(['embed', 'norm']);
    expect(
      await python3(
        'from huggingface_hub import snapshot_download as s; s("org/sharded", local_files_only=True)',
      ),
    ).toBe(0);
  });
});
