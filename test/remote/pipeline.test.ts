/** Pipelines of diffusers: in a repository as in a folder. */
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { openPipeline } from '../../src/file/checkpoint/open-pipeline.js';
import { VerificationError } from '../../src/index.js';
import { openRemotePipeline } from '../../src/remote/node/open-remote.js';
import { call } from '../cli/call.js';
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

let hub: HubServer;

beforeAll(async () => {
  hub = await HubServer.start({
    'org/pipe': {
      files: FILES,
      revisions: { old: { ...FILES, 'vae/model.safetensors': weights('vae') } },
    },
    'org/partial': { files: PARTIAL },
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

function onDisk(files: Readonly<Record<string, string | Uint8Array>> = FILES): string {
  const folder = temporaryPath('pipeline');
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
    await pipeline.verify();
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
    const error = await pipeline.verify().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(VerificationError);
    const [{ file, code, message }] = (error as VerificationError).problems as never as [
      { file: string; code: string; message: string },
    ];
    expect([file, code]).toEqual(['model_index.json', 'SAFETENSORS_INVALID_PIPELINE']);
    expect(message).toContain('text_encoder');
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
    const { stdout } = await call(['inspect', 'hf://org/partial']);
    expect(stdout).toMatch(/warning: .*text_encoder, which is missing/);
  });
});
