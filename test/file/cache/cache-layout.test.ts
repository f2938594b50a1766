import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { cachedSha256 } from '../../../src/file/cache/cache-layout.js';
import { runSync } from '../../../src/work/work.js';
import { call } from '../../cli/call.js';
import { safeOpen, safeOpenAsync } from '../../support/api.js';
import { openBoth } from '../../support/both-ways.js';
import { COMMIT, HubCache, linkTo, sha256 } from '../../support/hub-cache.js';
import { filesOf, TWO_SHARDS, writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

const FILES = filesOf(TWO_SHARDS);
const INDEX = 'model.safetensors.index.json';
const SHARD = 'model-00002-of-00002.safetensors';
const SHARD_BYTES = FILES.get(SHARD) as Uint8Array;

afterEach(() => vi.unstubAllEnvs());

/** A model of two shards: the index small, the weights shared. */
function addModel(cache: HubCache, name?: string, folder = ''): void {
  for (const [file, bytes] of FILES) {
    if (file === INDEX) cache.addPlain(folder + file, bytes, name);
    else cache.addShared(folder + file, bytes, name);
  }
}

async function keysOf(id: string): Promise<string[]> {
  using checkpoint = await openBoth(id);
  return checkpoint.offsetKeys();
}

describe('a model whose bytes are in the store of all repositories', () => {
  let cache: HubCache;
  beforeEach(() => {
    cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    addModel(cache);
  });

  it('opens by its id, as a folder, by its index and by its files', async () => {
    for (const source of [
      'org/name',
      'hf://org/name',
      cache.snapshot(),
      join(cache.snapshot(), INDEX),
    ]) {
      expect(await keysOf(source)).toHaveLength(4);
    }
    for (const source of [`hf://org/name/${SHARD}`, join(cache.snapshot(), SHARD)]) {
      expect(await keysOf(source)).toEqual(['b.weight', 'b.bias']);
    }
  });

  it('is what offline addresses of the Hub mean', async () => {
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    for (const command of ['inspect', 'verify', 'hash']) {
      const { code, stdout, stderr } = await call([command, 'hf://org/name']);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain(command === 'verify' ? 'no problems' : SHARD);
    }
  });

  it('opens in any cache, whatever the environment says', async () => {
    vi.stubEnv('HF_HUB_CACHE', temporaryPath('another'));
    expect(await keysOf(cache.snapshot())).toHaveLength(4);
  });

  it('opens with the marker that Python writes on Windows', async () => {
    cache = new HubCache('of-windows', '1\r\n');
    addModel(cache);
    expect(await keysOf(cache.snapshot())).toHaveLength(4);
  });

  it('opens when the cache, or the snapshot, is reached by a link', async () => {
    symlinkSync(cache.folder, temporaryPath('link'));
    vi.stubEnv('HF_HUB_CACHE', temporaryPath('link'));
    expect(await keysOf('org/name')).toHaveLength(4);
    symlinkSync(cache.snapshot(), temporaryPath('model'));
    expect(await keysOf(temporaryPath('model'))).toHaveLength(4);
  });

  it('opens as a dataset, a space, and as a model of a pipeline', async () => {
    for (const kind of ['datasets', 'spaces', 'kernels']) {
      addModel(cache, `${kind}--org--name`);
      expect(await keysOf(`hf://${kind}/org/name`)).toHaveLength(4);
    }
    addModel(cache, 'models--org--pipeline', 'unet/');
    cache.addPlain('model_index.json', '{}', 'models--org--pipeline');
    expect(await keysOf('hf://org/pipeline/unet')).toHaveLength(4);
    expect(() => safeOpen('org/pipeline')).toThrow('safeOpen("hf://org/pipeline/unet")');
    const { code, stdout } = await call(['verify', cache.snapshot('models--org--pipeline')]);
    expect([code, stdout]).toEqual([
      0,
      'no problems; checked: headers, index, digests (2 of 2 files)\n',
    ]);
  });

  it('has blobs beside it that are regular files, of writers that do not know the store', async () => {
    const blob = join(cache.repository(), 'blobs', sha256(SHARD_BYTES));
    rmSync(blob);
    writeFileSync(blob, SHARD_BYTES);
    expect(await keysOf('org/name')).toHaveLength(4);
  });

  it('opens by a link in blobs that is absolute', async () => {
    const blob = join(cache.repository(), 'blobs', sha256(SHARD_BYTES));
    rmSync(blob);
    symlinkSync(cache.entryOf(SHARD_BYTES), blob);
    expect(await keysOf('org/name')).toHaveLength(4);
  });

  it('is incomplete without an entry of the store', async () => {
    rmSync(cache.entryOf(SHARD_BYTES));
    await expect(openBoth('org/name')).rejects.toThrow(
      /the Hub cache is incomplete: .*1 of them missing: "model-00002-of-00002/,
    );
    await expect(openBoth(`hf://org/name/${SHARD}`)).rejects.toMatchObject({
      code: 'SAFETENSORS_NOT_IN_CACHE',
    });
  });
});

describe('what is no file of a repository', () => {
  let cache: HubCache;
  /** The link in the snapshot, the blob of the repository, the entry of the store. */
  let link = '';
  let blob = '';
  let entry = '';
  const marker = (): string => join(cache.folder, 'blobs/.huggingface-shared-blobs');

  beforeEach(() => {
    cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    addModel(cache);
    link = join(cache.snapshot(), SHARD);
    blob = join(cache.repository(), 'blobs', sha256(SHARD_BYTES));
    entry = cache.entryOf(SHARD_BYTES);
  });

  /** Moves the entry to another place of the store, with the blob after it. */
  function moveEntry(name: string): void {
    const path = join(cache.folder, 'blobs', name);
    mkdirSync(dirname(path), { recursive: true });
    renameSync(entry, path);
    replaceLink(blob, path);
  }

  function replaceLink(path: string, target: string): void {
    rmSync(path);
    linkTo(target, path);
  }

  function replaceMarker(text: string): void {
    rmSync(marker());
    writeFileSync(marker(), text);
  }

  const shapes: Record<string, () => void> = {
    'a link straight into the store': () => replaceLink(link, entry),
    'a blob of another repository': () => {
      addModel(cache, 'models--org--other');
      replaceLink(link, join(cache.folder, 'models--org--other/blobs', basename(blob)));
    },
    'a file of another snapshot, which is shared': () => {
      addModel(cache, 'models--org--other');
      replaceLink(link, join(cache.snapshot('models--org--other'), SHARD));
    },
    'a file outside of the cache': () => {
      writeFileSync(temporaryPath('outside'), SHARD_BYTES);
      replaceLink(blob, temporaryPath('outside'));
    },
    'a store without its marker': () => rmSync(marker()),
    'a store of another layout': () => replaceMarker('2\n'),
    'a marker without the end of its line': () => replaceMarker('1'),
    'a marker that goes on': () => replaceMarker(`1\n${'x'.repeat(1_000_000)}`),
    'an empty marker': () => replaceMarker(''),
    'a marker that is a folder': () => {
      rmSync(marker());
      mkdirSync(marker());
    },
    'a marker that is a link': () => {
      renameSync(marker(), temporaryPath('marker'));
      symlinkSync(temporaryPath('marker'), marker());
    },
    'a store that is a link': () => {
      renameSync(join(cache.folder, 'blobs'), temporaryPath('moved'));
      symlinkSync(temporaryPath('moved'), join(cache.folder, 'blobs'));
    },
    'a folder of the store that is a link': () => {
      renameSync(dirname(entry), temporaryPath('moved'));
      symlinkSync(temporaryPath('moved'), dirname(entry));
    },
    'an entry that is a link to another entry': () => {
      const other = join(cache.folder, 'blobs/ab', 'ab'.repeat(32));
      mkdirSync(dirname(other), { recursive: true });
      renameSync(entry, other);
      linkTo(other, entry);
    },
    'an entry in the folder of other digits': () => moveEntry(`00/${'ab'.repeat(32)}`),
    'an entry of 62 digits': () => moveEntry(`ab/${'ab'.repeat(31)}`),
    'an entry of 66 digits': () => moveEntry(`ab/${'ab'.repeat(33)}`),
    'an entry in upper case': () => moveEntry(`AB/${'AB'.repeat(32)}`),
    'an entry that is not named by digits': () => moveEntry(`ab/ab${'xy'.repeat(31)}`),
    'an entry right in the store': () => moveEntry('ab'.repeat(32)),
    'an entry below an entry’s folder': () => moveEntry(`ab/${'ab'.repeat(32)}/x`),
    'the list of references': () => moveEntry(`ab/${'ab'.repeat(32)}.refs`),
    'a store in another cache': () => {
      const other = new HubCache('other-cache');
      other.addShared(SHARD, SHARD_BYTES);
      replaceLink(blob, other.entryOf(SHARD_BYTES));
    },
    'the blobs of a repository as a store': () => {
      renameSync(join(cache.folder, 'blobs'), join(cache.folder, 'models--org--store'));
      replaceLink(
        blob,
        join(cache.folder, 'models--org--store', entry.slice(cache.folder.length + 6)),
      );
    },
  };

  it.each(Object.keys(shapes))('is refused: %s', async (shape) => {
    shapes[shape]?.();
    expect(readFileSync(realpathSync(link))).toEqual(Buffer.from(SHARD_BYTES));
    const refused = expect.objectContaining({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
    await expect(openBoth('org/name')).rejects.toThrow(refused);
    await expect(openBoth(cache.snapshot())).rejects.toThrow(refused);
    await expect(openBoth(`hf://org/name/${SHARD}`)).rejects.toThrow(/found a link out of it/);
  });
});

describe('links of the old layout', () => {
  it('open, and a store beside them does not matter', async () => {
    for (const marker of ['1\n', '2\n', null]) {
      const cache = new HubCache(`cache-${JSON.stringify(marker)}`, marker);
      vi.stubEnv('HF_HUB_CACHE', cache.folder);
      for (const [file, bytes] of FILES) cache.addPlain(file, bytes);
      expect(await keysOf('org/name')).toHaveLength(4);
      const files = await call(['hash', '--json', cache.snapshot()]);
      expect(JSON.parse(files.stdout).ok).toBe(true);
    }
  });

  it('in circles end', async () => {
    const cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    cache.addPlain(INDEX, FILES.get(INDEX) as Uint8Array);
    const blob = join(cache.repository(), 'blobs', sha256(SHARD_BYTES));
    linkTo(blob, join(cache.snapshot(), SHARD));
    symlinkSync(basename(blob), blob);
    for (const open of [safeOpen, safeOpenAsync]) {
      await expect((async () => open('org/name'))()).rejects.toThrow(/ELOOP/);
    }
  });
});

describe('the hash by which the cache knows a file', () => {
  it('is the name of the first blob, not of the entry of the store', () => {
    const cache = new HubCache();
    const link = cache.addShared('model.safetensors', SHARD_BYTES);
    expect(runSync(cachedSha256(link))).toBe(sha256(SHARD_BYTES));
    expect(runSync(cachedSha256(join(cache.repository(), 'blobs', sha256(SHARD_BYTES))))).toBe(
      sha256(SHARD_BYTES),
    );
    expect(runSync(cachedSha256(linkTo(link, temporaryPath('model.safetensors'))))).toBe(
      sha256(SHARD_BYTES),
    );
    expect(runSync(cachedSha256(cache.entryOf(SHARD_BYTES)))).toBeNull();
    const small = writeBelow(cache.repository(), `blobs/${COMMIT}`, '{}');
    expect(runSync(cachedSha256(linkTo(small, join(cache.snapshot(), 'config.json'))))).toBeNull();
    expect(runSync(cachedSha256(writeBelow(temporaryPath('blobs'), sha256(''), '')))).toBeNull();
  });

  it('tells of damage to bytes that repositories share', async () => {
    const cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    const bytes = fileBytes([{ name: 't', dtype: 'U8', shape: [64] }]);
    cache.addShared('model.safetensors', bytes);
    cache.addShared('model.safetensors', bytes, 'models--org--other');
    for (const name of ['org/name', 'org/other']) {
      expect((await call(['verify', name])).code).toBe(0);
      expect((await call(['hash', name])).stdout).toContain('Hub cache: as declared\n');
    }
    const entry = cache.entryOf(bytes);
    chmodSync(entry, 0o644);
    writeFileSync(
      entry,
      Uint8Array.from(bytes, (byte, i) => (i === bytes.length - 1 ? byte ^ 1 : byte)),
    );
    for (const name of ['org/name', 'org/other']) {
      const { code, stdout } = await call(['verify', name]);
      expect([code, stdout]).toEqual([
        1,
        expect.stringContaining(
          `SAFETENSORS_VERIFICATION_FAILED: Hub cache declares ${sha256(bytes)}`,
        ),
      ]);
      expect((await call(['hash', name])).code).toBe(1);
    }
  });

  it('is undefined for a copy in the snapshot, as on Windows without links', () => {
    const cache = new HubCache();
    const link = cache.addShared('model.safetensors', SHARD_BYTES);
    rmSync(link);
    linkSync(cache.entryOf(SHARD_BYTES), link);
    expect(runSync(cachedSha256(link))).toBeNull();
  });
});
