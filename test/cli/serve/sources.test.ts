import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { ServedSource } from '../../../src/cli/serve/model-files.js';
import { servedSources } from '../../../src/cli/serve/sources.js';
import type { VirtualFile } from '../../../src/cli/sources/virtual-file.js';
import { FILES } from '../../foreign/dduf/pipeline-files.js';
import { storedArchive } from '../../foreign/stored-archive.js';
import { type Checkpoint, openPipeline, parse } from '../../support/api.js';
import { HubCache } from '../../support/hub-cache.js';
import { filesOf, TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';

const SHARDS = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
const INDEX = 'model.safetensors.index.json';
const FILE = fileBytes([{ name: 'a', dtype: 'U8', shape: [4] }]);

async function find(source: string): Promise<readonly ServedSource[]> {
  return (await servedSources(source, {}, new AbortController().signal)).sources;
}

/** The names of a source, and of its files. */
async function namesOf(source: string): Promise<[string, readonly string[]][]> {
  return (await find(source)).map(({ name, files }) => [name, files.map((file) => file.name)]);
}

describe('a source', () => {
  it('that is a DDUF archive has each of its models as a safetensors file', async () => {
    const path = temporaryPath('pipeline.dduf');
    writeFileSync(path, storedArchive(FILES));
    const sources = await find(path);
    const names = sources.map(({ name, files }) => [name, files.map((file) => file.name)]);
    expect(names).toEqual([
      ['pipeline.dduf/text_encoder', ['text_encoder.safetensors']],
      ['pipeline.dduf/unet', ['unet.safetensors']],
    ]);
    const archived = await openPipeline(path);
    for (const { name, files } of sources) {
      const { virtual } = files[0] as { virtual: VirtualFile };
      const found = parse(Buffer.concat([...virtual.read(0, virtual.byteLength)]));
      const expected = archived.models.get(name.split('/')[1] as string) as Checkpoint;
      expect([...found.keys()]).toEqual([...expected.keys()]);
      expect(found.metadata).toEqual(expected.metadata);
      for (const key of expected.keys()) {
        const [a, b] = [found.getTensor(key), expected.getTensor(key)];
        expect(Buffer.compare(a.bytes, b.bytes)).toBe(0);
      }
    }
    archived.close();
  });

  it('that is a file has no other file', async () => {
    const folder = temporaryPath('folder');
    const path = writeBelow(folder, 'model.safetensors', FILE);
    writeBelow(folder, 'other.safetensors', FILE);
    writeBelow(folder, 'tokenizer.json', '{}');
    const expected = {
      name: 'model.safetensors',
      files: [{ name: 'model.safetensors', path: realpathSync(path) }],
      missing: [],
    };
    expect(await find(path)).toEqual([expected]);
    expect(await find(pathToFileURL(path).href)).toEqual([expected]);
  });

  it('that is a folder or an index has the index, its shards, and what says how weights are quantized', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    for (const name of ['config.json', 'hf_quant_config.json', 'tokenizer.json', 'README.md']) {
      writeBelow(folder, name, '{}');
    }
    writeBelow(folder, 'other-00001-of-00001.safetensors', FILE);
    mkdirSync(join(folder, 'quantize_config.json'));
    const files = [INDEX, ...SHARDS, 'config.json', 'hf_quant_config.json'];
    expect(await namesOf(folder)).toEqual([[basename(folder), files]]);
    expect(await namesOf(join(folder, INDEX))).toEqual([[INDEX, files]]);
    expect(await namesOf(`${folder}/../${basename(folder)}/.`)).toEqual([
      [basename(folder), files],
    ]);
  });

  it('with shards in folders names them as its index does', async () => {
    const folder = writeCheckpoint({
      shards: { 'a/b.safetensors': [{ name: 'a', dtype: 'U8', shape: [1] }] },
    });
    expect(await namesOf(folder)).toEqual([[basename(folder), [INDEX, 'a/b.safetensors']]]);
  });

  it('without some of its shards has the others', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    rmSync(join(folder, SHARDS[0] as string));
    const [found] = await find(folder);
    expect(found?.files.map(({ name }) => name)).toEqual([INDEX, SHARDS[1]]);
    expect(found?.missing).toEqual([SHARDS[0]]);
  });

  it('that is a pipeline is a source for each of its models', async () => {
    const folder = temporaryPath('pipeline');
    writeBelow(folder, 'model_index.json', '{}');
    writeBelow(folder, 'vae/diffusion_pytorch_model.safetensors', FILE);
    writeBelow(folder, 'vae/config.json', '{}');
    writeBelow(folder, 'unet/diffusion_pytorch_model.fp16.safetensors', FILE);
    writeBelow(folder, 'scheduler/config.json', '{}');
    expect(await namesOf(folder)).toEqual([
      [`${basename(folder)}/unet`, ['diffusion_pytorch_model.fp16.safetensors']],
      [`${basename(folder)}/vae`, ['diffusion_pytorch_model.safetensors', 'config.json']],
    ]);
  });

  it('that is a pipeline has no source for a listed model of another format', async () => {
    const folder = temporaryPath('pipeline');
    const listed = { unet: ['diffusers', 'UNet'], safety_checker: ['diffusers', 'Checker'] };
    writeBelow(folder, 'model_index.json', JSON.stringify(listed));
    writeBelow(folder, 'safety_checker/pytorch_model.bin', 'torch');
    const only = 'SAFETENSORS_CHECKPOINT_NOT_FOUND';
    await expect(find(folder)).rejects.toMatchObject({ code: only });
    const weights = 'diffusion_pytorch_model.safetensors';
    writeBelow(folder, `unet/${weights}`, FILE);
    expect(await namesOf(folder)).toEqual([[`${basename(folder)}/unet`, [weights]]]);
  });
});

describe('a folder of models', () => {
  /** The names of what is served, with their files, and what is skipped, by names in the folder. */
  async function servedIn(
    folder: string,
    choice: { readonly variant?: string } = {},
  ): Promise<{ served: Record<string, readonly string[]>; skipped: Record<string, string> }> {
    const { signal } = new AbortController();
    const { sources, skipped } = await servedSources(folder, choice, signal);
    const names = sources.map(({ name, files }) => [
      relative(basename(folder), name),
      files.map((file) => file.name),
    ]);
    const reasons = skipped.map(({ path, reason }) => [relative(folder, path), reason]);
    return { served: Object.fromEntries(names), skipped: Object.fromEntries(reasons) };
  }

  it('has every model in it and below it', async () => {
    const folder = temporaryPath('models');
    writeBelow(folder, 'loras/a.safetensors', FILE);
    writeBelow(folder, 'loras/b.safetensors', FILE);
    writeBelow(folder, 'loras/more/c.safetensors', FILE);
    writeCheckpoint(TWO_SHARDS, join(folder, 'llm'));
    writeBelow(folder, 'llm/config.json', '{}');
    writeBelow(folder, 'llm/adapter.safetensors', FILE);
    writeBelow(folder, 'pipe/model_index.json', '{}');
    writeBelow(folder, 'pipe/unet/diffusion_pytorch_model.safetensors', FILE);
    writeBelow(folder, 'pipe/vae/diffusion_pytorch_model.safetensors', FILE);
    writeBelow(folder, 'docs/README.md', 'text');
    writeBelow(folder, 'z.safetensors', FILE);
    writeBelow(folder, 'a.safetensors', FILE);
    const single = (name: string): [string, readonly string[]] => [name, [basename(name)]];
    const weights = 'diffusion_pytorch_model.safetensors';
    expect(await servedIn(folder)).toEqual({
      served: Object.fromEntries([
        ...['a.safetensors', 'z.safetensors', 'loras/a.safetensors'].map(single),
        single('loras/b.safetensors'),
        ['loras/more', ['c.safetensors']],
        ['llm', [INDEX, ...SHARDS, 'config.json']],
        ['llm/adapter.safetensors', ['adapter.safetensors', 'config.json']],
        ['pipe/unet', [weights]],
        ['pipe/vae', [weights]],
      ]),
      skipped: {},
    });
    // A folder that is a model is that model, whatever is below it.
    expect(await namesOf(join(folder, 'llm'))).toEqual([
      ['llm', [INDEX, ...SHARDS, 'config.json']],
    ]);
  });

  it('has files of other formats as safetensors files', async () => {
    const folder = temporaryPath('models');
    writeBelow(folder, 'a.safetensors', FILE);
    writeBelow(folder, 'b.safetensors', FILE);
    const torch = readFileSync(join(root, 'test/fixtures/torch/zip-state-dict.pt'));
    writeBelow(folder, 'old/weights.ckpt', torch);
    writeBelow(folder, 'old/shard-00001-of-00002.bin', torch);
    writeBelow(folder, 'old/broken.gguf', 'GGUF');
    writeBelow(folder, 'pipeline.dduf', storedArchive(FILES));
    const { served, skipped } = await servedIn(folder);
    expect(served).toEqual({
      'a.safetensors': ['a.safetensors'],
      'b.safetensors': ['b.safetensors'],
      'old/weights.ckpt': ['weights.ckpt.safetensors'],
      'pipeline.dduf/text_encoder': ['text_encoder.safetensors'],
      'pipeline.dduf/unet': ['unet.safetensors'],
    });
    expect(Object.keys(skipped).sort()).toEqual([
      'old/broken.gguf',
      'old/shard-00001-of-00002.bin',
    ]);
  });

  it('that has a model lists files of other formats next to it', async () => {
    const folder = temporaryPath('model');
    writeBelow(folder, 'model.safetensors', FILE);
    writeBelow(folder, 'pytorch_model.bin', 'torch');
    writeBelow(folder, 'pytorch_model.bin.index.json', '{}');
    const reason = 'next to the model of its folder; serve it by its path';
    expect((await servedIn(folder)).skipped).toEqual({ 'pytorch_model.bin': reason });
  });

  it('names what is skipped, and why', async () => {
    const folder = temporaryPath('models');
    writeBelow(folder, 'good/model.safetensors', FILE);
    writeBelow(folder, 'bad/model.safetensors', Buffer.from('GGUF\x03\0\0\0'));
    writeBelow(folder, 'torch/pytorch_model.bin', 'torch');
    writeBelow(folder, 'part/model-00001-of-00003.safetensors', FILE);
    writeBelow(folder, `${'deep/'.repeat(12)}model.safetensors`, FILE);
    const { served, skipped } = await servedIn(folder);
    // The page shows what is wrong with a header.
    expect(served).toEqual({ bad: ['model.safetensors'], good: ['model.safetensors'] });
    const deep = 'deep/'.repeat(11).slice(0, -1);
    expect(Object.keys(skipped).sort()).toEqual([
      deep,
      'part/model-00001-of-00003.safetensors',
      'torch/pytorch_model.bin',
    ]);
    expect(skipped[deep]).toBe('more than 10 folders deep');
    expect(skipped['part/model-00001-of-00003.safetensors']).toContain('without the index');
  });

  it('has only the models of a variant, if one is requested', async () => {
    const folder = temporaryPath('models');
    writeBelow(folder, 'a/model.safetensors', FILE);
    writeBelow(folder, 'a/model.fp16.safetensors', FILE);
    writeBelow(folder, 'b/model.safetensors', FILE);
    const { served, skipped } = await servedIn(folder, { variant: 'fp16' });
    expect(served).toEqual({ a: ['model.fp16.safetensors'] });
    expect(Object.keys(skipped)).toEqual(['b']);
  });

  it('that is the Hub cache has the models of its snapshots', async () => {
    const cache = new HubCache();
    for (const [name, bytes] of filesOf(TWO_SHARDS)) cache.addShared(name, bytes);
    const { served, skipped } = await servedIn(cache.folder);
    expect(Object.values(served)).toEqual([[INDEX, ...SHARDS]]);
    expect(Object.keys(served)[0]).toMatch(/snapshots/);
    expect(skipped).toEqual({});
  });

  it.skipIf(process.platform === 'win32')('follows no link out of it', async () => {
    const outside = temporaryPath('outside');
    writeBelow(outside, 'model.safetensors', FILE);
    const folder = temporaryPath('models');
    writeBelow(folder, 'a/model.safetensors', FILE);
    symlinkSync(outside, join(folder, 'folder'));
    symlinkSync(join(outside, 'model.safetensors'), join(folder, 'file.safetensors'));
    symlinkSync(join(folder, 'lost'), join(folder, 'nowhere'));
    symlinkSync(join(folder, 'a'), join(folder, 'inside'));
    symlinkSync(folder, join(folder, 'a/loop'));
    const { served, skipped } = await servedIn(folder);
    expect(served).toEqual({ a: ['model.safetensors'] });
    expect(skipped).toEqual({
      folder: 'a link that leads out of the folder',
      'file.safetensors': 'a link that leads out of the folder',
      nowhere: expect.stringContaining('ENOENT'),
    });
  });
});

describe('a repository in the cache', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it('has the blobs of its files', async () => {
    const cache = new HubCache();
    vi.stubEnv('HF_HUB_CACHE', cache.folder);
    for (const [name, bytes] of filesOf(TWO_SHARDS)) cache.addShared(name, bytes);
    cache.addPlain('config.json', '{}');
    for (const id of ['hf://org/name', 'org/name', 'hf://org/name@main']) {
      const [found, ...others] = await find(id);
      expect(others).toEqual([]);
      expect(found?.name).toBe(id.replace('hf://', ''));
      expect(found?.files.map(({ name }) => name)).toEqual([INDEX, ...SHARDS, 'config.json']);
      for (const { path } of found?.files ?? []) expect(path).toContain('/blobs/');
    }
  });

  it('that is not there is not fetched', async () => {
    vi.stubEnv('HF_HUB_CACHE', temporaryPath('cache'));
    await expect(find('hf://org/lost')).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_IN_CACHE' });
  });
});

describe.skipIf(process.platform === 'win32')('special files', () => {
  it('are refused at the start', async () => {
    const folder = temporaryPath('folder');
    mkdirSync(folder);
    const fifo = join(folder, 'model.safetensors');
    execFileSync('mkfifo', [fifo]);
    for (const path of [fifo, '/dev/zero']) {
      await expect(find(path)).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE' });
    }
    const index = writeCheckpoint(TWO_SHARDS);
    rmSync(join(index, SHARDS[0] as string));
    mkdirSync(join(index, SHARDS[0] as string));
    await expect(find(index)).rejects.toMatchObject({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE' });
  });
});

describe.skipIf(process.platform === 'win32')('links', () => {
  it('out of the folder are refused for shards, and left out for what is beside them', async () => {
    const outside = writeBelow(temporaryPath('outside'), 'secret', FILE);
    const folder = writeCheckpoint(TWO_SHARDS);
    symlinkSync(outside, join(folder, 'config.json'));
    expect(await namesOf(folder)).toEqual([[basename(folder), [INDEX, ...SHARDS]]]);
    const shard = join(folder, SHARDS[0] as string);
    rmSync(shard);
    symlinkSync(outside, shard);
    await expect(find(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
  });

  it('that are named lead to the file, for good', async () => {
    const path = writeBelow(temporaryPath('folder'), 'model.safetensors', FILE);
    const link = join(dirname(path), 'link.safetensors');
    symlinkSync(basename(path), link);
    expect((await find(link))[0]?.files).toEqual([
      { name: 'link.safetensors', path: realpathSync(path) },
    ]);
  });
});

describe('refused', () => {
  it('are addresses: the page opens them itself, and their secrets are not printed', async () => {
    const error = await find('https://host/model.safetensors?signature=secret').catch(String);
    expect(error).toContain('the page itself opens addresses');
    expect(error).not.toContain('secret');
  });

  it('is what is not there', async () => {
    await expect(find(temporaryPath('lost.safetensors'))).rejects.toMatchObject({ code: 'ENOENT' });
    const folder = temporaryPath('empty');
    mkdirSync(folder);
    writeFileSync(join(folder, 'config.json'), '{}');
    expect(readdirSync(folder)).toEqual(['config.json']);
    await expect(find(relative('.', folder))).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    });
  });
});
