/** `safeOpen` of a Diffusers pipeline: its error lists calls that work. */
import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadFile, openPipeline, type SafetensorsError, safeOpen } from '../../support/api.js';
import { intercept } from '../../support/intercept.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

const TEXT = JSON.stringify({
  _class_name: 'StableDiffusionXLPipeline',
  scheduler: ['diffusers', 'EulerDiscreteScheduler'],
  text_encoder: ['transformers', 'CLIPTextModel'],
  transformer: ['diffusers', 'FluxTransformer2DModel'],
  unet: ['diffusers', 'UNet2DConditionModel'],
  vae: ['diffusers', 'AutoencoderKL'],
});

/** Writes files of one tensor, which has the file's path as its name; other files have no content. */
function write(folder: string, paths: readonly string[]): void {
  for (const path of paths) {
    const isTensors = path.endsWith('.safetensors');
    const tensors = fileBytes([{ name: path, dtype: 'U8', shape: [1] }]);
    writeBelow(folder, path, isTensors ? tensors : '{}');
  }
}

function writePipeline(folder: string, paths: readonly string[], text: string = TEXT): string {
  writeBelow(folder, 'model_index.json', text);
  write(folder, paths);
  return folder;
}

function pipeline(...paths: string[]): string {
  return writePipeline(temporaryPath('pipeline'), paths);
}

function errorOf(path: string, options = {}): SafetensorsError {
  try {
    safeOpen(path, options).close();
  } catch (error) {
    return error as SafetensorsError;
  }
  throw new Error('it opened');
}

/** Arguments of the calls in a message. */
function callsIn({ message }: Error): [string, { variant: string }?][] {
  const calls = message.matchAll(/safeOpen\(("(?:[^"\\]|\\.)*"(?:, \{ variant: "\w+" \})?)\)/g);
  return Array.from(calls, ([, list = '']) =>
    JSON.parse(`[${list.replace('{ variant', '{ "variant"')}]`),
  );
}

/** Names of the tensors that each call opens. */
function openedBy(error: Error): string[][] {
  return callsIn(error).map((call) => [...loadFile(...call).keys()]);
}

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('a pipeline', () => {
  it('is an error with every component that has weights, and the calls that open it', () => {
    const folder = pipeline(
      'scheduler/scheduler_config.json',
      'text_encoder/model.safetensors',
      'text_encoder/model.fp16.safetensors',
      'unet/diffusion_pytorch_model.safetensors',
      'unet/diffusion_pytorch_model.fp16.safetensors',
      'unet/diffusion_pytorch_model.non_ema.safetensors',
      'vae/diffusion_pytorch_model.fp16.safetensors',
      'vae/config.json',
      'vae_1_0/pytorch_model.bin',
    );
    const indexName = 'diffusion_pytorch_model.safetensors.index.json';
    writeCheckpoint({ ...TWO_SHARDS, indexName }, join(folder, 'transformer'));
    const error = errorOf(folder);
    expect([error.code, error.path]).toEqual(['SAFETENSORS_DIFFUSERS_PIPELINE', folder]);
    expect(error.message).toContain(
      `safeOpen(${JSON.stringify(join(folder, 'unet'))}, { variant: "fp16" })`,
    );
    expect(openedBy(error)).toEqual([
      ['text_encoder/model.safetensors'],
      ['text_encoder/model.fp16.safetensors'],
      ['embed', 'a.weight', 'b.weight', 'b.bias'],
      ['unet/diffusion_pytorch_model.safetensors'],
      ['unet/diffusion_pytorch_model.fp16.safetensors'],
      ['unet/diffusion_pytorch_model.non_ema.safetensors'],
      ['vae/diffusion_pytorch_model.fp16.safetensors'],
    ]);
  });

  it('may have variants alone, in shards too, or files of any names', () => {
    const folder = pipeline(
      'a/diffusion_pytorch_model.fp16.safetensors',
      'a/diffusion_pytorch_model.non_ema.safetensors',
      'c/first.safetensors',
      'c/second.safetensors',
    );
    const shard = 'diffusion_pytorch_model.fp16-00001-of-00001.safetensors';
    const shards = { [shard]: [{ name: 'shard', dtype: 'U8' as const, shape: [1] }] };
    const indexName = 'diffusion_pytorch_model.safetensors.index.fp16.json';
    writeCheckpoint({ shards, indexName }, join(folder, 'b'));
    expect(openedBy(errorOf(folder, { variant: 'fp16' }))).toEqual([
      ['a/diffusion_pytorch_model.fp16.safetensors'],
      ['a/diffusion_pytorch_model.non_ema.safetensors'],
      ['shard'],
      ['c/first.safetensors'],
      ['c/second.safetensors'],
    ]);
  });

  it('may have files beside the components; a single one is opened', () => {
    const folder = pipeline('unet/model.safetensors', 'v1.safetensors');
    expect([...loadFile(folder).keys()]).toEqual(['v1.safetensors']);
    write(folder, ['v1-ema.safetensors']);
    expect(openedBy(errorOf(folder))).toEqual([
      ['unet/model.safetensors'],
      ['v1-ema.safetensors'],
      ['v1.safetensors'],
    ]);
  });

  it('may have hidden folders, which are passed over as on the Hub', async () => {
    const folder = pipeline('.cache/model.safetensors', 'unet/model.safetensors');
    expect(errorOf(folder).message).not.toContain('.cache');
    using opened = await openPipeline(folder);
    expect([...opened.models.keys()]).toEqual(['unet']);
  });

  it('without weights, and a folder without model_index.json, is not one', () => {
    expect(errorOf(pipeline('unet/config.json')).code).toBe('SAFETENSORS_CHECKPOINT_NOT_FOUND');
    const folder = temporaryPath('plain');
    write(folder, ['unet/model.safetensors']);
    expect(errorOf(folder).code).toBe('SAFETENSORS_CHECKPOINT_NOT_FOUND');
  });
});

describe('a pipeline in the cache of the Hub', () => {
  const commit = 'b'.repeat(40);
  const weights = ['vae/diffusion_pytorch_model.safetensors', 'scheduler/scheduler_config.json'];

  function cached(name: string, ref = 'main'): void {
    const cache = temporaryPath('hub');
    vi.stubEnv('HF_HUB_CACHE', cache);
    writeBelow(cache, `${name}/refs/${ref}`, commit);
    writePipeline(join(cache, name, 'snapshots', commit), weights);
  }

  it('gives ids', () => {
    cached('models--org--sd');
    const error = errorOf('org/sd');
    expect([error.code, error.path]).toEqual(['SAFETENSORS_DIFFUSERS_PIPELINE', 'org/sd']);
    expect(callsIn(error)).toEqual([['hf://org/sd/vae']]);
    expect(openedBy(error)).toEqual([weights.slice(0, 1)]);
  });

  it('keeps the revision', () => {
    cached('models--org--sd', 'refs/pr/1');
    const error = errorOf('org/sd', { revision: 'refs/pr/1' });
    expect(callsIn(error)).toEqual([['hf://org/sd@refs%2Fpr%2F1/vae']]);
    expect(openedBy(error)).toEqual([weights.slice(0, 1)]);
    expect(callsIn(errorOf('hf://org/sd@refs/pr/1'))).toEqual(callsIn(error));
  });

  it('gives paths where there is no id for a folder', () => {
    cached('models--sd');
    expect(openedBy(errorOf('sd'))).toEqual([weights.slice(0, 1)]);
  });
});

describe('hostile pipelines give short messages in short time', () => {
  it.each([
    ['much text', '{'.repeat(1e6)],
    ['names that lead out', '{"../../etc":["a","b"],"\\u0000\\n":["a","b"],"__proto__":[]}'],
    ['no JSON', '\0'],
  ])('%s', (_, text) => {
    const folder = writePipeline(temporaryPath('hostile'), ['unet/model.safetensors'], text);
    expect(openedBy(errorOf(folder))).toEqual([['unet/model.safetensors']]);
  });

  it('a model_index.json of 100 MB', () => {
    const folder = pipeline('unet/model.safetensors');
    const fd = openSync(join(folder, 'model_index.json'), 'r+');
    ftruncateSync(fd, 1e8);
    closeSync(fd);
    let read = 0;
    intercept('readSync', (own, args) => {
      const count = own(...args) as number;
      read += count;
      return count;
    });
    expect(callsIn(errorOf(folder))).toHaveLength(1);
    expect(read).toBeLessThan(1000);
  });

  it('a hundred folders and files with control characters', () => {
    const folder = pipeline();
    for (let i = 0; i < 100; i++) {
      const path = join(folder, `\u0007\n${i}`, 'model.safetensors');
      mkdirSync(dirname(path));
      writeFileSync(path, '');
    }
    for (let i = 0; i < 100; i++) {
      writeFileSync(join(folder, '\u0007\n0', `model.v${i}.safetensors`), '');
    }
    const { code, message } = errorOf(folder);
    expect(code).toBe('SAFETENSORS_DIFFUSERS_PIPELINE');
    expect(message.length).toBeLessThan(20_000);
    expect(message).toMatch(/ and more$/);
    expect(message).not.toMatch(/\p{Cc}/u);
  });
});
