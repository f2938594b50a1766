/** Pipelines of diffusers: in a repository as in a folder. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { openPipeline } from '../../src/file/checkpoint/open-pipeline.js';
import { openRemotePipeline } from '../../src/remote/node/open-remote.js';
import { call } from '../cli/call.js';
import { storedArchive } from '../foreign/stored-archive.js';
import { verify } from '../support/api.js';
import { HubServer } from '../support/hub-server.js';
import { writeBelow } from '../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';

const INDEX = JSON.stringify({
  _class_name: 'StableDiffusionPipeline',
  requires_safety_checker: true,
  safety_checker: [null, null],
  scheduler: ['diffusers', 'EulerDiscreteScheduler'],
  text_encoder: ['transformers', 'CLIPTextModel'],
  unet: ['diffusers', 'UNet2DConditionModel'],
});

function weights(name: string): Uint8Array {
  return fileBytes([{ name, dtype: 'U8', shape: [4] }]);
}

const FILES = {
  'model_index.json': INDEX,
  'scheduler/scheduler_config.json': '{}',
  'text_encoder/model.safetensors': weights('encoder'),
  'unet/diffusion_pytorch_model.safetensors': weights('unet'),
  'unet/diffusion_pytorch_model.fp16.safetensors': weights('half'),
};
const { 'text_encoder/model.safetensors': _, ...PARTIAL } = FILES;

const BROKEN = { ...FILES, 'unet/diffusion_pytorch_model.safetensors': 'broken' };

let hub: HubServer;

beforeAll(async () => {
  hub = await HubServer.start({
    'org/pipe': {
      files: FILES,
      revisions: { old: { ...FILES, 'vae/model.safetensors': weights('vae') } },
    },
    'org/partial': { files: PARTIAL },
    'org/one-broken': { files: BROKEN },
    'org/broken': { files: { ...FILES, 'model_index.json': '[' } },
    'org/plain': { files: { 'config.json': '{}' } },
  });
});

beforeEach(() => {
  vi.stubEnv('HF_ENDPOINT', hub.url);
  vi.stubEnv('HF_HUB_OFFLINE', '');
});

afterEach(() => vi.unstubAllEnvs());

afterAll(() => hub.close());

function onDisk(
  files: Readonly<Record<string, string | Uint8Array>> = FILES,
  name = 'pipeline',
): string {
  const folder = temporaryPath(name);
  for (const [path, content] of Object.entries(files)) writeBelow(folder, path, content);
  return folder;
}

/** The names of all tensors by folder. */
function namesIn(pipeline: {
  readonly models: ReadonlyMap<string, { keys(): string[] }>;
}): Record<string, string[]> {
  return Object.fromEntries(Array.from(pipeline.models, ([name, model]) => [name, model.keys()]));
}

const OPENERS = {
  local: async (_: string, options = {}) => openPipeline(onDisk(), options),
  remote: async (id: string, options = {}) => await openRemotePipeline(id, options),
};

describe.each(Object.entries(OPENERS))('a %s pipeline', (_, open) => {
  it('has its models by folder, without folders that have no weights', async () => {
    using pipeline = await open('hf://org/pipe');
    expect(namesIn(pipeline)).toEqual({ text_encoder: ['encoder'], unet: ['unet'] });
    expect(pipeline.missing).toEqual([]);
    expect((await pipeline.verify()).problems).toEqual([]);
  });

  it('takes a variant where a folder has it', async () => {
    using pipeline = await open('hf://org/pipe', { variant: 'fp16' });
    expect(namesIn(pipeline)).toEqual({ text_encoder: ['encoder'], unet: ['half'] });
  });

  it('refuses a variant that no folder has', async () => {
    await expect(open('hf://org/pipe', { variant: 'int8' })).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    });
  });
});

describe('a remote pipeline', () => {
  it('is of the revision, and reads tensors', async () => {
    using pipeline = await openRemotePipeline(`${hub.url}/org/pipe`, { revision: 'old' });
    expect(Object.keys(namesIn(pipeline))).toEqual(['text_encoder', 'unet', 'vae']);
    const tensor = await pipeline.models.get('vae')?.getTensor('vae');
    expect(tensor?.shape).toEqual([4]);
    await expect(openRemotePipeline('hf://org/pipe', { revision: '' })).rejects.toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
    });
  });

  it.each([undefined, null, 5, {}, new Blob([])])('is not opened from %s', async (source) => {
    await expect(openRemotePipeline(source as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringContaining('source'),
    });
  });

  it('ends its requests with close', async () => {
    const pipeline = await openRemotePipeline('hf://org/pipe');
    const unet = pipeline.models.get('unet');
    pipeline.close();
    pipeline.close();
    await expect(unet?.getTensor('unet')).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CLOSED',
    });
  });

  it.each([
    ['a bad model_index.json', 'hf://org/broken', 'SAFETENSORS_INVALID_PIPELINE'],
    ['a repository without one', 'hf://org/plain', 'SAFETENSORS_CHECKPOINT_NOT_FOUND'],
    ['a URL that is not on the Hub', 'http://127.0.0.1:9/x.json', 'ERR_OUT_OF_RANGE'],
  ])('refuses %s', async (_, source, code) => {
    await expect(openRemotePipeline(source)).rejects.toMatchObject({ code });
  });
});

describe('a folder that model_index.json names and that is missing', () => {
  it.each([
    ['here', async () => openPipeline(onDisk(PARTIAL))],
    ['on the Hub', async () => await openRemotePipeline('hf://org/partial')],
  ])('is a problem %s', async (_, open) => {
    using pipeline = await open();
    expect(pipeline.missing).toEqual(['text_encoder']);
    const { ok, problems } = await pipeline.verify();
    expect(ok).toBe(false);
    expect(problems).toMatchObject([
      {
        ...{ file: 'model_index.json', code: 'SAFETENSORS_INVALID_PIPELINE' },
        message: expect.stringContaining('text_encoder'),
      },
    ]);
  });
});

describe('a model that cannot be opened', () => {
  it.each([
    ['here', async (options = {}) => openPipeline(onDisk(BROKEN), options)],
    [
      'on the Hub',
      async (options = {}) => await openRemotePipeline('hf://org/one-broken', options),
    ],
  ])('is an error %s, and with skipFailed a problem of one folder', async (_, open) => {
    await expect(open()).rejects.toMatchObject({ code: 'SAFETENSORS_HEADER_TOO_SMALL' });
    using pipeline = await open({ skipFailed: true });
    expect(namesIn(pipeline)).toEqual({ text_encoder: ['encoder'] });
    expect([...pipeline.failed.keys()]).toEqual(['unet']);
    expect((await pipeline.verify()).problems).toMatchObject([
      { file: 'unet/diffusion_pytorch_model.safetensors', code: 'SAFETENSORS_HEADER_TOO_SMALL' },
    ]);
  });

  it('is never left out for other reasons, such as an abort', async () => {
    const reason = new Error('enough');
    const options = { skipFailed: true, signal: AbortSignal.abort(reason) };
    await expect(openRemotePipeline('hf://org/pipe', options)).rejects.toBe(reason);
    const code = 'ERR_INVALID_ARG_TYPE';
    for (const open of [openPipeline, openRemotePipeline]) {
      const opened = async () => await open('hf://org/pipe', { skipFailed: 1 as never });
      await expect(opened()).rejects.toMatchObject({ code });
    }
  });
});

describe('verify of a local pipeline', () => {
  it('reports folders that are missing, and goes on', async () => {
    const { 'text_encoder/model.safetensors': _, ...files } = BROKEN;
    const { ok, problems } = await verify(onDisk(files));
    expect(ok).toBe(false);
    expect(problems).toMatchObject([
      { file: 'model_index.json', code: 'SAFETENSORS_INVALID_PIPELINE' },
      { file: 'unet/diffusion_pytorch_model.safetensors', code: 'SAFETENSORS_HEADER_TOO_SMALL' },
    ]);
    expect(problems[0]?.message).toContain('text_encoder');
  });

  it('takes a variant, and reports a bad model_index.json beside the models', async () => {
    expect(await verify(onDisk(BROKEN), { variant: 'fp16' })).toMatchObject({ ok: true });
    const { problems } = await verify(onDisk({ ...BROKEN, 'model_index.json': '[' }));
    expect(problems.map(({ file }) => file)).toEqual([
      'model_index.json',
      'unet/diffusion_pytorch_model.safetensors',
    ]);
    const none = await verify(onDisk(), { variant: 'int8' });
    expect(none.problems).toMatchObject([{ code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND' }]);
  });
});

describe('a local pipeline', () => {
  it('refuses a bad or very long model_index.json', () => {
    const code = 'SAFETENSORS_INVALID_PIPELINE';
    for (const text of ['[', 'null', ' '.repeat(2 ** 20 + 1)]) {
      const folder = onDisk({ ...FILES, 'model_index.json': text });
      expect(() => openPipeline(folder)).toThrow(expect.objectContaining({ code }));
    }
  });

  it('names the model that cannot be opened, and needs model_index.json', () => {
    const path = 'unet/diffusion_pytorch_model.safetensors';
    const folder = onDisk({ ...FILES, [path]: 'broken' });
    expect(() => openPipeline(folder)).toThrow(join(folder, path));
    expect(() => openPipeline(join(folder, 'unet'))).toThrow(/no model_index.json/);
  });
});

describe('the command line', () => {
  it('inspects, hashes and verifies a pipeline on the Hub as one here', async () => {
    const folder = onDisk();
    const of = async (command: string, source: string) => {
      const { code, stdout } = await call([command, source, '--json']);
      return { code, ...JSON.parse(stdout) };
    };
    const [here, there] = [await of('inspect', folder), await of('inspect', 'hf://org/pipe')];
    expect(Object.keys(there.components)).toEqual(['text_encoder', 'unet']);
    expect([there.byteLength, there.parameters]).toEqual([here.byteLength, here.parameters]);
    const hashes = [await of('hash', folder), await of('hash', 'hf://org/pipe')];
    expect(hashes[1].files).toEqual(hashes[0].files);
    expect(hashes[1].files).toHaveLength(2);
    expect(await of('verify', 'hf://org/pipe')).toMatchObject({ code: 0, ok: true });
    const { code, problems } = await of('verify', 'hf://org/partial');
    expect([code, problems.length]).toEqual([1, 1]);
    for (const source of [onDisk(BROKEN), 'hf://org/one-broken']) {
      const broken = await of('inspect', source);
      expect([broken.code, Object.keys(broken.components)]).toEqual([1, ['text_encoder']]);
      expect(broken.failed.unet.code).toBe('SAFETENSORS_HEADER_TOO_SMALL');
      expect(await of('verify', source)).toMatchObject({
        code: 1,
        problems: [{ file: 'unet/diffusion_pytorch_model.safetensors' }],
      });
      expect((await call(['inspect', source])).stdout).toMatch(
        /^unet\nSAFETENSORS_HEADER_TOO_SMALL: /m,
      );
    }
    const { stdout } = await call(['inspect', 'hf://org/partial']);
    expect(stdout).toMatch(/warning: .*text_encoder, which is missing/);
  });
});

describe('the options --variant and --revision', () => {
  async function of(...given: string[]): Promise<{ code: number; [key: string]: unknown }> {
    const { code, stdout, stderr } = await call([...given, '--json']);
    return { code, ...(code === 2 ? { stderr } : JSON.parse(stdout)) };
  }

  it.each([
    ['a folder', () => onDisk()],
    ['a repository', () => 'hf://org/pipe'],
  ])('choose in %s', async (_, source) => {
    const half = 'unet/diffusion_pytorch_model.fp16.safetensors';
    const { components } = await of('inspect', source(), '--variant', 'fp16');
    expect(components).toMatchObject({ unet: { files: [{ name: half.slice(5) }] } });
    const hashed = await of('hash', source(), '--variant', 'fp16');
    expect(JSON.stringify(hashed['files'])).toContain(half);
    expect(await of('verify', source(), '--variant', 'fp16')).toMatchObject({ code: 0 });
    const unet = source().startsWith('hf:') ? `${source()}/unet` : join(source(), 'unet');
    expect(await of('header', unet, '--variant', 'fp16')).toHaveProperty('half');
    expect(await of('show', unet, 'half', '--variant', 'fp16')).toMatchObject({ shape: [4] });
    expect(await of('diff', unet, unet, '--variant', 'fp16')).toMatchObject({ same: true });
  });

  it('take a revision of a repository, and refuse one of a folder', async () => {
    const { components } = await of('inspect', 'hf://org/pipe', '--revision', 'old');
    expect(Object.keys(components as object)).toEqual(['text_encoder', 'unet', 'vae']);
    const target = temporaryPath('copy');
    await of('download', 'hf://org/pipe', target, '--revision', 'old', '--variant', 'fp16');
    expect(await of('diff', target, 'hf://org/pipe@old', '--variant', 'fp16')).toMatchObject({
      ...{ code: 0, same: true, unchanged: 3 },
    });
    for (const command of ['inspect', 'verify', 'hash']) {
      const { code, stderr } = await of(command, onDisk(), '--revision', 'old');
      expect([code, stderr]).toEqual([2, expect.stringContaining('revision')]);
    }
  });
});

describe('diff of pipelines', () => {
  it('compares them model by model', async () => {
    const changed = { ...FILES, 'unet/diffusion_pytorch_model.safetensors': weights('other') };
    const { 'text_encoder/model.safetensors': _, ...less } = changed;
    const more = onDisk({ ...less, 'vae/model.safetensors': weights('vae') }, 'more');
    const { code, stdout } = await call(['diff', 'hf://org/pipe', more, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({
      same: false,
      added: ['unet/other', 'vae/vae'],
      removed: ['text_encoder/encoder', 'unet/unet'],
      ...{ changed: [], unchanged: 0 },
    });
    expect(code).toBe(1);
    const same = await call(['diff', 'hf://org/pipe', onDisk(), '--values']);
    expect([same.code, same.stdout]).toEqual([0, 'no difference; 2 tensors\n']);
    const bytes = fileBytes([
      { name: 'unet', dtype: 'U8', shape: [4], bytes: Buffer.from('abcd') },
    ]);
    const touched = onDisk(
      { ...FILES, 'unet/diffusion_pytorch_model.safetensors': bytes },
      'touched',
    );
    const found = await call(['diff', onDisk(), touched, '--json']);
    expect(JSON.parse(found.stdout).changed).toMatchObject([
      { name: 'unet/unet', changed: 'bytes' },
    ]);
    const one = await call(['diff', onDisk(), join(onDisk(), 'unet')]);
    expect(one.stderr).toMatch(/a pipeline of several models/);
  });
});

describe('a DDUF archive', () => {
  const CONFIGURED = { ...FILES, 'text_encoder/config.json': '{}', 'unet/config.json': '{}' };

  function archive(files: Readonly<Record<string, string | Uint8Array>>, name: string): string {
    const path = temporaryPath(name);
    writeFileSync(path, storedArchive(files));
    return path;
  }

  it('is inspected, verified and compared as the folder that it holds', async () => {
    const path = archive(CONFIGURED, 'pipeline.dduf');
    const here = JSON.parse((await call(['inspect', path, '--json'])).stdout);
    const there = JSON.parse((await call(['inspect', onDisk(), '--json'])).stdout);
    expect([here.format, here.byteLength]).toEqual(['diffusers', there.byteLength]);
    expect(here.components.unet).toMatchObject({ tensors: there.components.unet.tensors });
    const diff = await call(['diff', path, onDisk(), '--values']);
    expect([diff.code, diff.stdout]).toEqual([0, 'no difference; 2 tensors\n']);
    const half = await call(['inspect', path, '--variant', 'fp16', '--json']);
    expect(JSON.parse(half.stdout).components.unet.tensors).toMatchObject([{ name: 'half' }]);
    expect((await call(['verify', path])).stdout).toMatch(/^no problems/);
    const hashes = await Promise.all(
      [path, onDisk()].map(
        async (source) => (await call(['hash', source, '--json', '--all'])).stdout,
      ),
    );
    const [packed, unpacked] = hashes.map((text) => JSON.parse(text).files);
    expect(packed).toEqual(unpacked);
  });

  it('with problems has them by their files', async () => {
    const bad = { ...CONFIGURED, 'unet/diffusion_pytorch_model.safetensors': 'broken' };
    const path = archive(bad, 'bad.dduf');
    const { code, stdout } = await call(['verify', path, '--json']);
    expect([code, JSON.parse(stdout).problems]).toMatchObject([
      1,
      [{ file: 'unet/diffusion_pytorch_model.safetensors' }],
    ]);
    writeFileSync(path, storedArchive(CONFIGURED, 'unet/config.json'));
    const compressed = JSON.parse((await call(['verify', path, '--json'])).stdout);
    expect(compressed.problems).toMatchObject([{ code: 'SAFETENSORS_INVALID_ARCHIVE' }]);
    expect((await call(['inspect', path, '--revision', 'main'])).code).toBe(2);
  });
});
