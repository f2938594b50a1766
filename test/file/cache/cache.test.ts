import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { hubCacheFolder } from '../../../src/file/cache/cache.js';
import { openBoth } from '../../support/both-ways.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

const COMMIT = '0123456789abcdef0123456789abcdef01234567';
const file = fileBytes([{ name: 't', dtype: 'U8', shape: [1] }]);
let repository = '';

beforeEach(() => {
  const cache = temporaryPath('cache');
  vi.stubEnv('HF_HUB_CACHE', cache);
  repository = join(cache, 'models--org--name');
  writeBelow(repository, 'refs/main', COMMIT);
});

afterEach(() => vi.unstubAllEnvs());

/** A file as the Hub's library stores it: a link in the snapshot to a blob. */
function addFile(path: string, content: string | Uint8Array): void {
  const blob = writeBelow(repository, `blobs/${path.replaceAll('/', '-')}`, content);
  const link = join(repository, 'snapshots', COMMIT, path);
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(relative(dirname(link), blob), link);
}

function addCheckpoint(): void {
  addFile(
    'model.safetensors.index.json',
    JSON.stringify({ weight_map: { embed: 's/x.safetensors' } }),
  );
  addFile(
    's/x.safetensors',
    fileBytes(TWO_SHARDS.shards['model-00001-of-00002.safetensors'] ?? []),
  );
}

async function keysOf(id: string, options = {}): Promise<string[]> {
  using checkpoint = await openBoth(id, options);
  return checkpoint.offsetKeys();
}

describe('hubCacheFolder', () => {
  it.each([
    [{ HF_HUB_CACHE: '/a', HUGGINGFACE_HUB_CACHE: '/b', HF_HOME: '/c' }, '/a'],
    [{ HUGGINGFACE_HUB_CACHE: '/b', HF_HOME: '/c' }, '/b'],
    [{ HF_HOME: '/c', XDG_CACHE_HOME: '/d' }, '/c/hub'],
    [{ XDG_CACHE_HOME: '/d' }, '/d/huggingface/hub'],
    [{ HF_HUB_CACHE: '' }, '/h/.cache/huggingface/hub'],
    [{ HF_HOME: '~/x' }, '/h/x/hub'],
    [{ HF_HOME: '~other' }, '~other/hub'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell's notation
    [{ HF_HUB_CACHE: '$A/${B}/$NONE/$A$A', A: '/a', B: '$A' }, '/a/$A/$NONE//a/a'],
    [{ HF_HUB_CACHE: '/$toString/$__proto__/$constructor' }, '/$toString/$__proto__/$constructor'],
  ])('%j is %s', (environment, folder) => {
    expect(hubCacheFolder({ HOME: '/h', ...environment })).toBe(folder);
  });
});

describe('a repository in the cache', () => {
  it('opens by id, its blobs behind links', async () => {
    addCheckpoint();
    for (const id of ['org/name', 'hf://org/name', `hf://org/name@${COMMIT}`]) {
      expect(await keysOf(id)).toEqual(['embed']);
    }
    expect(await keysOf('hf://org/name/s/x.safetensors')).toEqual(['embed', 'a.weight']);
    expect(await keysOf('hf://org/name@main/s')).toEqual(['embed', 'a.weight']);
  });

  it('opens by branch, ref and commit', async () => {
    addCheckpoint();
    writeBelow(repository, 'refs/refs/pr/1', `${COMMIT}\n`);
    for (const revision of ['main', 'refs/pr/1', COMMIT]) {
      expect(await keysOf('org/name', { revision })).toEqual(['embed']);
    }
    expect(await keysOf('hf://org/name@refs/pr/1/s')).toEqual(['embed', 'a.weight']);
    expect(await keysOf('hf://org/name@main', { revision: 'main' })).toEqual(['embed']);
  });

  it('is found with its revision after an @', async () => {
    addCheckpoint();
    expect(await keysOf('org/name@main')).toEqual(['embed']);
    expect(await keysOf(`org/name@${COMMIT}`)).toEqual(['embed']);
    for (const id of ['org/name@other', 'hf://org/name@other']) {
      await expect(keysOf(id, { revision: 'main' })).rejects.toThrow(
        'revision must be "other", as in the id, or left out, but is "main"',
      );
    }
  });

  it('gives way to a local path', async () => {
    addCheckpoint();
    writeCheckpoint(TWO_SHARDS, temporaryPath('here/org/name'));
    const before = process.cwd();
    process.chdir(temporaryPath('here'));
    try {
      expect(await keysOf('org/name')).toHaveLength(4);
      expect(await keysOf('hf://org/name')).toEqual(['embed']);
    } finally {
      process.chdir(before);
    }
  });

  it.each([
    [
      'another repository',
      'hf://org/other',
      {},
      /found no .*models--org--other.refs.main; `hf download org\/other` fetches it, as does `npx safetensors-mmap download hf:\/\/org\/other cache`$/,
    ],
    [
      'another revision',
      'org/name',
      { revision: 'v2' },
      /revision v2 .*refs.v2; `hf download org\/name --revision v2` fetches it, as does `npx safetensors-mmap download hf:\/\/org\/name@v2 /,
    ],
    [
      'a repository that has no hf:// id',
      'gpt2',
      {},
      /^ENOENT: .*; no repository of that name is in the Hub cache .* either; check the path$/,
    ],
    [
      'a cut commit',
      'org/name',
      { revision: COMMIT.slice(0, 7) },
      /found no .*refs.0123456; .*--revision 0123456`/,
    ],
    [
      'another commit',
      'org/name',
      { revision: 'f'.repeat(40) },
      /found no folder .*snapshots.f{40}; .*--revision f{40}`/,
    ],
    [
      'another file',
      'hf://org/name/x.safetensors',
      {},
      /found no .*snapshots.*x\.safetensors; `hf download org\/name`/,
    ],
    [
      'a file that is not',
      'hf://org/name/no.safetensors',
      {},
      /according to the cache the repository has no/,
    ],
    ['weights', 'org/name', {}, /the Hub cache is incomplete: .*no safetensors file/],
    [
      'a revision after @',
      'org/name@v3',
      {},
      /revision v3 .*`hf download org\/name --revision v3`/,
    ],
  ])('without %s says what it looked for and where', async (_, id, options, message) => {
    addFile('config.json', '{}');
    writeBelow(repository, `.no_exist/${COMMIT}/no.safetensors`, '');
    const opening = openBoth(id, options);
    await expect(opening).rejects.toThrow(message);
    const code = id === 'gpt2' ? 'ENOENT' : 'SAFETENSORS_NOT_IN_CACHE';
    await expect(opening).rejects.toMatchObject({ code });
  });

  it.each([
    ['modle', false],
    ['dir/modle', true],
    ['model.bin', false],
    ['dir/modle.pt', false],
    ['org/modle-2.5', true],
    ['name@main', false],
  ])('of a mistyped path advises to check it first: %s', async (path, isLikeHubId) => {
    const { message } = await openBoth(path).catch((error) => error);
    const { source: cached } = /no repository of that name is in the Hub cache [^\s;]+ either/;
    const start = RegExp(
      `^ENOENT: no such file or directory, stat '[^ ]+'; ${cached}; check the path`,
    );
    expect(message).toMatch(start);
    const advice = message.replace(start, '');
    if (isLikeHubId)
      expect(advice).toMatch(/^; if it is a repository, `hf download \S+` fetches it/);
    else expect(advice).toBe('');
    expect(message).not.toMatch(/refs|snapshots|models--/);
  });

  it.each(['modle.safetensors', './modle', '../dir/modle', 'a/b/modle', 'dir/modle.safetensors'])(
    'is not looked for by what can only be a path: %s',
    async (path) => {
      await expect(openBoth(path)).rejects.toThrow(
        expect.objectContaining({
          code: 'ENOENT',
          message: `ENOENT: no such file or directory, open '${path}'`,
        }),
      );
    },
  );

  it('without one of its shards says which', async () => {
    addFile('model.safetensors.index.json', '{"weight_map":{"a":"x.safetensors"}}');
    mkdirSync(join(repository, 'blobs'), { recursive: true });
    symlinkSync('../../blobs/none', join(repository, 'snapshots', COMMIT, 'x.safetensors'));
    await expect(openBoth('org/name')).rejects.toThrow(
      /expected 1 shard, found it missing: "x\.safetensors"/,
    );
  });

  it('with links to blobs that were removed is incomplete', async () => {
    const snapshot = join(repository, 'snapshots', COMMIT);
    mkdirSync(snapshot, { recursive: true });
    symlinkSync('../../blobs/none', join(snapshot, 'model.safetensors.index.json'));
    await expect(openBoth('org/name')).rejects.toThrow(
      expect.objectContaining({
        code: 'SAFETENSORS_NOT_IN_CACHE',
        message: expect.stringContaining('index.json'),
      }),
    );
  });

  it.each(['', '0'.repeat(41), '../../../x', 'x'.repeat(5000)])(
    'with the ref %j is refused',
    async (ref) => {
      addCheckpoint();
      writeFileSync(join(repository, 'refs/main'), ref);
      await expect(openBoth('org/name')).rejects.toThrow(/expected the hash of a commit/);
    },
  );

  it.each(['..', '../main', '/etc', 'a/../../b', 'C:x', 'a\\b', 'a\0', ''])(
    'by the revision %j is refused',
    async (revision) => {
      addCheckpoint();
      await expect(openBoth('org/name', { revision })).rejects.toThrow(RangeError);
    },
  );

  it('with links out of it is refused', async () => {
    addCheckpoint();
    writeFileSync(temporaryPath('outside.safetensors'), file);
    const snapshot = join(repository, 'snapshots', COMMIT);
    symlinkSync(temporaryPath('outside.safetensors'), join(snapshot, 'out.safetensors'));
    await expect(openBoth('hf://org/name/out.safetensors')).rejects.toThrow(
      /found a link out of it/,
    );
    writeBelow(
      repository,
      'blobs/model.safetensors.index.json',
      '{"weight_map":{"t":"out.safetensors"}}',
    );
    await expect(openBoth('org/name')).rejects.toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' }),
    );
  });
});
