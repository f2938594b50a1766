/** Sources of `parseSafetensorsMetadata`: local paths, URLs, files in memory. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseSafetensorsMetadata } from '../../support/api.js';
import { useHub } from '../../support/hub-environment.js';
import { HubServer, TOKEN } from '../../support/hub-server.js';
import { writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

const SHARDS = {
  'a.safetensors': [{ name: 'x', dtype: 'U8', shape: [4, 2] }],
  'b.safetensors': [{ name: 'y', dtype: 'F16', shape: [3] }],
} as const;
const INDEX = 'model.safetensors.index.json';
const CONFIG = '{"quantization_config":{"load_in_4bit":true}}';

/** The result for these shards, below a folder. */
function expectedBelow(folder: string): object {
  const weight_map = { x: 'a.safetensors', y: 'b.safetensors' };
  return {
    sharded: true,
    index: { metadata: { total_size: 14 }, weight_map },
    headers: {
      'a.safetensors': { x: { dtype: 'U8', shape: [4, 2], data_offsets: [0, 8] } },
      'b.safetensors': { y: { dtype: 'F16', shape: [3], data_offsets: [0, 6] } },
    },
    parameterCount: { U8: 16, F16: 3 },
    filepaths: [INDEX, 'a.safetensors', 'b.safetensors'].map((name) => folder + name),
  };
}

let hub: HubServer;
beforeEach(async () => {
  const files = {
    [INDEX]: JSON.stringify({
      metadata: { total_size: 14 },
      weight_map: { x: 'a.safetensors', y: 'b.safetensors' },
    }),
    'a.safetensors': fileBytes(SHARDS['a.safetensors']),
    'b.safetensors': fileBytes(SHARDS['b.safetensors']),
    'config.json': CONFIG,
  };
  hub = await HubServer.start({
    'org/model': { files },
    'org/private': { files, access: 'private' },
  });
  useHub(hub.url);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub.close();
});

const counted = { computeParametersCount: true } as const;

describe('a local path', () => {
  it.each([
    ['a folder', (folder: string) => folder],
    ['an index', (folder: string) => join(folder, INDEX)],
    ['a file: URL', (folder: string) => pathToFileURL(folder)],
  ])('may be %s', async (_, sourceOf) => {
    const folder = writeCheckpoint({ shards: SHARDS, metadata: { total_size: 14 } });
    writeBelow(folder, 'config.json', CONFIG);
    const result = await parseSafetensorsMetadata({ source: sourceOf(folder), ...counted });
    expect(result).toEqual(expectedBelow(`${folder}/`));
    const { parameterCount, ...plain } = result;
    expect(await parseSafetensorsMetadata({ source: sourceOf(folder) })).toEqual(plain);
    expect(hub.requests).toEqual([]);
  });

  it('may be one file', async () => {
    const path = writeBelow(
      temporaryPath('f'),
      'x.safetensors',
      fileBytes(SHARDS['a.safetensors']),
    );
    expect(await parseSafetensorsMetadata({ source: path, ...counted })).toEqual({
      sharded: false,
      header: { x: { dtype: 'U8', shape: [4, 2], data_offsets: [0, 8] } },
      parameterCount: { U8: 8 },
      filepaths: [path],
    });
  });

  it('that is missing, or no model, is rejected as by safeOpen', async () => {
    const folder = temporaryPath('empty');
    await expect(parseSafetensorsMetadata({ source: folder })).rejects.toThrow(/ENOENT/);
    writeBelow(folder, 'config.json', CONFIG);
    await expect(parseSafetensorsMetadata({ source: folder })).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    });
  });

  it('is not read after an abort', async () => {
    const folder = writeCheckpoint({ shards: SHARDS });
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(parseSafetensorsMetadata({ source: folder, signal })).rejects.toThrow('enough');
  });
});

describe('an address', () => {
  it.each([
    ['an hf:// id', 'hf://org/model'],
    ['an hf:// id of an index', `hf://org/model@main/${INDEX}`],
  ])('may be %s', async (_, source) => {
    const below = `${hub.url}/org/model/resolve/main/`;
    expect(await parseSafetensorsMetadata({ source, ...counted })).toEqual(expectedBelow(below));
  });

  it('may be a URL', async () => {
    const below = `${hub.url}/org/model/resolve/main/`;
    for (const source of [below + INDEX, new URL(below + INDEX)]) {
      expect(await parseSafetensorsMetadata({ source, ...counted })).toEqual(expectedBelow(below));
    }
  });

  it.each(['s3://bucket/model.safetensors', 'file:///model.safetensors', 'ftp://host/x'])(
    '%s is refused',
    async (source) => {
      await expect(parseSafetensorsMetadata({ source })).rejects.toMatchObject({
        code: 'SAFETENSORS_UNSAFE_URL',
      });
    },
  );
});

describe('a source in memory', () => {
  const bytes = fileBytes(SHARDS['a.safetensors']);
  const blob = new Blob([bytes as Uint8Array<ArrayBuffer>]);
  const reader = {
    byteLength: bytes.length,
    read: async (begin: number, end: number) => bytes.slice(begin, end),
  };

  it.each([
    ['a Blob', blob, 'Blob'],
    ['a File', new File([blob], 'dropped.safetensors'), 'dropped.safetensors'],
    ['a reader of the caller', reader, 'Object'],
  ])('may be %s', async (_, source, name) => {
    expect(await parseSafetensorsMetadata({ source, ...counted })).toEqual({
      sharded: false,
      header: { x: { dtype: 'U8', shape: [4, 2], data_offsets: [0, 8] } },
      parameterCount: { U8: 8 },
      filepaths: [name],
    });
  });
});

describe('the environment', () => {
  it('names the Hub and has the token', async () => {
    const repo = 'org/private';
    await expect(parseSafetensorsMetadata({ repo })).rejects.toMatchObject({
      code: 'SAFETENSORS_REPOSITORY_NOT_FOUND',
    });
    vi.stubEnv('HF_TOKEN', TOKEN);
    expect(await parseSafetensorsMetadata({ repo })).toMatchObject({ sharded: true });
    // The same Hub, named twice.
    const hubUrl = `${hub.url}/`;
    expect(await parseSafetensorsMetadata({ repo, hubUrl })).toMatchObject({ sharded: true });
    await expect(
      parseSafetensorsMetadata({ repo, accessToken: 'hf_stranger' }),
    ).rejects.toMatchObject({ code: 'SAFETENSORS_REPOSITORY_NOT_FOUND' });
  });

  it('has no token for another Hub', async () => {
    vi.stubEnv('HF_TOKEN', TOKEN);
    vi.stubEnv('HF_ENDPOINT', undefined);
    await parseSafetensorsMetadata({ repo: 'org/model', hubUrl: hub.url });
    expect(hub.requests.map(({ headers }) => headers.authorization).filter(Boolean)).toEqual([]);
  });

  it('forbids requests to the Hub: only the Hub cache is read', async () => {
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    await expect(parseSafetensorsMetadata({ repo: 'org/model' })).rejects.toMatchObject({
      code: 'SAFETENSORS_NOT_IN_CACHE',
    });
    expect(hub.requests).toEqual([]);
  });
});
