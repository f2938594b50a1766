/** Offline, `hf://` is answered by the Hub cache, as the Hub would answer it. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type OpenSourceOptions,
  open,
  openPipeline,
  openRemote,
  parseSafetensorsMetadata,
  type RemoteCheckpoint,
  safeOpen,
} from '../../support/api.js';
import { COMMIT, HubCache } from '../../support/hub-cache.js';
import { useHub } from '../../support/hub-environment.js';
import { HubServer } from '../../support/hub-server.js';
import { filesOf, TWO_SHARDS, writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';

const INDEX = 'model.safetensors.index.json';
const SHARD = 'model-00002-of-00002.safetensors';

function weights(name: string): Uint8Array {
  return fileBytes([{ name, dtype: 'U8', shape: [4] }]);
}

const MODEL = {
  ...Object.fromEntries(filesOf(TWO_SHARDS)),
  'model.fp16.safetensors': weights('half'),
  'config.json': '{"model_type":"bert"}',
  'text/model.safetensors': weights('text'),
};
const PIPELINE = {
  'model_index.json': JSON.stringify({
    text_encoder: ['transformers', 'CLIPTextModel'],
    unet: ['diffusers', 'UNet2DConditionModel'],
  }),
  'text_encoder/model.safetensors': weights('encoder'),
  'unet/diffusion_pytorch_model.safetensors': weights('unet'),
  'unet/diffusion_pytorch_model.fp16.safetensors': weights('half'),
};

let hub: HubServer;
let cache: HubCache;
/** Fails where it is called. */
let noFetch: typeof fetch;

/** Puts files into the cache as the Hub's tools do: weights into the shared store. */
function addFiles(files: Readonly<Record<string, string | Uint8Array>>, repository: string): void {
  for (const [path, content] of Object.entries(files)) {
    if (path.endsWith('.safetensors')) cache.addShared(path, content, repository);
    else cache.addPlain(path, content, repository);
  }
}

beforeEach(async () => {
  hub = await HubServer.start({
    'org/name': { files: MODEL, revisions: { v1: MODEL } },
    'org/pipe': { files: PIPELINE },
  });
  useHub(hub.url);
  cache = new HubCache();
  vi.stubEnv('HF_HUB_CACHE', cache.folder);
  addFiles(MODEL, 'models--org--name');
  addFiles(PIPELINE, 'models--org--pipe');
  writeBelow(cache.repository(), 'refs/v1', COMMIT);
  noFetch = vi.fn(() => Promise.reject(new Error('no request may be made')));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
  await hub.close();
});

function goOffline(variable = 'HF_HUB_OFFLINE'): void {
  vi.stubEnv(variable, '1');
  vi.stubGlobal('fetch', noFetch);
  hub.requests.length = 0;
}

function expectNoRequest(): void {
  expect(noFetch).not.toHaveBeenCalled();
  expect(hub.requests).toEqual([]);
}

/** Everything that a checkpoint shows. */
async function contentsOf(checkpoint: RemoteCheckpoint): Promise<object> {
  const tensors: [string, Uint8Array][] = [];
  for await (const [name, { bytes }] of checkpoint.stream()) tensors.push([name, bytes]);
  expect(tensors).toHaveLength(checkpoint.size);
  const { local, path, format, size, metadata, problems } = checkpoint;
  const keys = checkpoint.keys();
  const config = await checkpoint.sibling('config.json');
  const missing = await checkpoint.sibling('tokenizer.json');
  const report = await checkpoint.verify();
  return { local, path, format, size, metadata, problems, keys, tensors, config, missing, report };
}

const SOURCES: [source: string, options?: OpenSourceOptions][] = [
  ['hf://org/name'],
  ['hf://org/name@v1'],
  ['hf://org/name', { revision: 'v1' }],
  ['hf://org/name', { variant: 'fp16' }],
  ['hf://org/name/text'],
  [`hf://org/name/${INDEX}`],
  [`hf://org/name@v1/${SHARD}`],
];

describe('a source in the cache', () => {
  it.each(SOURCES)(
    'is what the Hub has: %s %o',
    async (source: string, options?: OpenSourceOptions) => {
      using requested = await openRemote(source, options);
      const expected = await contentsOf(requested);
      expect(hub.requests).not.toEqual([]);
      goOffline();
      using cached = await openRemote(source, options);
      expect(await contentsOf(cached)).toEqual(expected);
      expectNoRequest();
    },
  );

  it('is also found by the address of its page, with TRANSFORMERS_OFFLINE and a fetch', async () => {
    goOffline('TRANSFORMERS_OFFLINE');
    const page = `${hub.url}/org/name/blob/main/${SHARD}` as const;
    using checkpoint = await open(page as 'http://', { fetch: noFetch, token: 'hf_x' });
    expect(checkpoint.path).toBe(`${hub.url}/org/name/resolve/main/${SHARD}`);
    const half = await checkpoint.getSlice('b.weight', 1);
    expect(half.shape).toEqual([3]);
    expectNoRequest();
  });

  it('may be a pipeline', async () => {
    const shown = async (variant?: string): Promise<unknown[]> => {
      using pipeline = await openPipeline('hf://org/pipe', { variant });
      const models = [...pipeline.models].map(async ([name, model]) => {
        return [name, await contentsOf(model)];
      });
      return [pipeline.path, pipeline.missing, await Promise.all(models)];
    };
    const expected = [await shown(), await shown('fp16')];
    const asModel = await open('hf://org/pipe').catch((error: unknown) => error);
    goOffline();
    expect([await shown(), await shown('fp16')]).toEqual(expected);
    expect(await open('hf://org/pipe').catch((error: unknown) => error)).toEqual(asModel);
    expect(asModel).toMatchObject({ code: 'SAFETENSORS_DIFFUSERS_PIPELINE' });
    expectNoRequest();
  });

  it('is read by parseSafetensorsMetadata', async () => {
    const counted = { computeParametersCount: true } as const;
    const params = [
      { repo: 'org/name', ...counted },
      { repo: 'org/name', revision: 'v1', path: SHARD },
      { source: 'hf://org/name', ...counted },
    ];
    const expected = await Promise.all(params.map((one) => parseSafetensorsMetadata(one)));
    goOffline();
    for (const [i, one] of params.entries()) {
      expect(await parseSafetensorsMetadata(one)).toEqual(expected[i]);
    }
    const empty = parseSafetensorsMetadata({ repo: 'org/pipe' });
    await expect(empty).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_IN_CACHE' });
    expectNoRequest();
  });
});

describe('what is not in the cache', () => {
  it.each([
    ['a repository', 'hf://org/other'],
    ['a revision', 'hf://org/name@v2'],
    ['a file', 'hf://org/name/other.safetensors'],
    ['a folder', 'hf://org/name@v1/other'],
  ])('has the error of safeOpen: %s', async (_, source) => {
    goOffline();
    const error = await openRemote(source).catch((thrown: unknown) => thrown);
    expect(() => safeOpen(source)).toThrow(error as Error);
    expect(error).toMatchObject({ code: 'SAFETENSORS_NOT_IN_CACHE', path: source });
    expect(String(error)).toMatch(
      /fetches it, as does .*; unset HF_HUB_OFFLINE first, which forbids requests to the Hub$/,
    );
    expectNoRequest();
  });

  it('makes a model incomplete', async () => {
    rmSync(join(cache.snapshot(), SHARD));
    goOffline('TRANSFORMERS_OFFLINE');
    for (const source of ['hf://org/name', 'hf://org/pipe/other', 'hf://org/name/tokenizer.json']) {
      const opened = openRemote(source);
      await expect(opened).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_IN_CACHE' });
      await expect(opened).rejects.toThrow('unset TRANSFORMERS_OFFLINE first');
    }
    const message = `the Hub cache is incomplete: ${hub.url}/org/name`;
    await expect(open('hf://org/name')).rejects.toThrow(message);
    using listed = await open(`hf://org/name/${INDEX}`);
    const tensor = listed.getTensor('b.weight');
    await expect(tensor).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_IN_CACHE' });
    const noVariant = open('hf://org/name', { variant: 'other' });
    await expect(noVariant).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_IN_CACHE' });
    expectNoRequest();
  });

  it('includes blobs that were deleted, and links out of the cache', async () => {
    const outside = temporaryPath('outside.safetensors');
    writeFileSync(outside, weights('outside'));
    for (const [name, target] of [
      ['models--org--gone', temporaryPath('missing')],
      ['models--org--out', outside],
    ] as const) {
      const link = join(cache.snapshot(name), 'model.safetensors');
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(target, link);
    }
    goOffline();
    for (const source of ['hf://org/gone', 'hf://org/out', 'hf://org/out/model.safetensors']) {
      await expect(openRemote(source)).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_IN_CACHE' });
    }
  });
});

describe('an open checkpoint', () => {
  it('keeps no descriptor open, and reads nothing once it is closed', async () => {
    goOffline();
    const checkpoint = await open('hf://org/name');
    await checkpoint.readTensors();
    expect(openDescriptors()).toEqual([]);
    const reading = checkpoint.getTensor('embed');
    checkpoint.close();
    await expect(reading).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
    const later = checkpoint.getTensor('embed');
    await expect(later).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
    await expect.poll(() => openDescriptors()).toEqual([]);
  });

  it('notices a blob that is replaced or deleted', async () => {
    goOffline();
    using checkpoint = await open('hf://org/name/text');
    const entry = cache.entryOf(MODEL['text/model.safetensors']);
    rmSync(entry);
    const deleted = checkpoint.getTensor('text');
    await expect(deleted).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
    writeFileSync(entry, weights('more'));
    const replaced = checkpoint.getTensor('text');
    await expect(replaced).rejects.toThrow('replaced or deleted; open the checkpoint again');
  });

  it('stops when it is aborted', async () => {
    goOffline();
    const reason = new Error('enough');
    const controller = new AbortController();
    const { signal } = controller;
    const opening = open('hf://org/name', { signal });
    controller.abort(reason);
    await expect(opening).rejects.toBe(reason);
    await expect.poll(() => openDescriptors()).toEqual([]);
  });
});
