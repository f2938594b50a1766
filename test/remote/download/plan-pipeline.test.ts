/** Downloads of pipelines of diffusers: every model with its folder. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { expect, it, vi } from 'vitest';
import { REPOSITORY_RECORD } from '../../../src/platform/io/temporary-names.js';
import { runDownload } from '../../../src/remote/download/run-download.js';
import { openPipeline, verify } from '../../support/api.js';
import type { Files } from '../../support/hub-server.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { MODEL_INDEX } from '../../support/model-index.js';
import { downloadFrom, emptyFolder, settingsOf, useHub } from './downloads.js';

function weights(name: string): Uint8Array {
  return fileBytes([{ name, dtype: 'U8', shape: [1000] }]);
}

const INDEX = {
  metadata: { total_size: 2000 },
  weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
};

/** What a copy has. */
const COPIED: Files = {
  'README.md': 'of the pipeline',
  'model_index.json': MODEL_INDEX,
  'scheduler/scheduler_config.json': '{}',
  'text_encoder/config.json': '{"is":"encoder"}',
  'text_encoder/model-00001-of-00002.safetensors': weights('a'),
  'text_encoder/model-00002-of-00002.safetensors': weights('b'),
  'text_encoder/model.safetensors.index.json': JSON.stringify(INDEX),
  'unet/config.json': '{"is":"unet"}',
  'unet/diffusion_pytorch_model.safetensors': weights('unet'),
};

const FILES: Files = {
  ...COPIED,
  '.gitattributes': '',
  '.git/model.safetensors': weights('hidden'),
  'onnx/config.json': '{}',
  'text_encoder/pytorch_model.bin': 'of another format',
  'unet/diffusion_pytorch_model.fp16.safetensors': weights('half'),
  'unet/examples/config.json': '{}',
};

const hub = useHub({
  'org/pipe': { files: FILES },
  'org/below': {
    files: Object.fromEntries(Object.entries(FILES).map(([path, file]) => [`v1/${path}`, file])),
  },
  'org/both': { files: { ...FILES, 'whole.safetensors': weights('whole') } },
  'org/broken': { files: { ...FILES, 'model_index.json': '[]' } },
  'org/long': { files: { ...FILES, 'model_index.json': ' '.repeat(2 ** 20 + 1) } },
});

const names = Object.keys(COPIED).sort();

function paths(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name !== REPOSITORY_RECORD)
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}

it.each([
  ['a repository', 'hf://org/pipe'],
  ['a folder of one', 'hf://org/below/v1'],
])('copies all of %s that the pipeline needs, and nothing twice', async (_, source) => {
  const folder = emptyFolder('target');
  const { files, downloadedBytes, byteLength } = await downloadFrom(hub(), source, folder);
  expect(files.map(({ name }) => name).sort()).toEqual(names);
  expect(paths(folder)).toEqual(names);
  for (const name of names) {
    expect(readFileSync(join(folder, name)), name).toEqual(Buffer.from(COPIED[name] as string));
  }
  expect(await verify(folder)).toMatchObject({ ok: true });
  using pipeline = await openPipeline(folder);
  expect([...pipeline.models.keys()]).toEqual(['text_encoder', 'unet']);
  expect(pipeline.missing).toEqual([]);
  // Indexes and `model_index.json` are known from planning.
  expect(downloadedBytes).toBeGreaterThan(3000);
  hub().requests.length = 0;
  expect(await downloadFrom(hub(), source, folder)).toMatchObject({
    ...{ downloadedBytes: 0, byteLength },
  });
  expect(hub().requests.filter(({ path }) => /resolve|files|blobs/.test(path))).toEqual([]);
});

it('copies a variant where a folder has it', async () => {
  const folder = emptyFolder('target');
  await downloadFrom(hub(), 'hf://org/pipe', folder, { variant: 'fp16' });
  const [usual, half] = ['unet/diffusion_pytorch_model', 'unet/diffusion_pytorch_model.fp16'];
  const expected = names.map((name) => name.replace(`${usual}.`, `${half}.`));
  expect(paths(folder)).toEqual(expected.sort());
  const none = downloadFrom(hub(), 'hf://org/pipe', folder, { variant: 'int8' });
  await expect(none).rejects.toMatchObject({ code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND' });
});

it.each(['whole.safetensors', 'unet/diffusion_pytorch_model.fp16.safetensors'])(
  'copies %s alone when it is named',
  async (name) => {
    const source = `hf://org/both/${name}`;
    const wanted = name === 'whole.safetensors' ? weights('whole') : weights('half');
    const path = temporaryPath('one.safetensors');
    hub().requests.length = 0;
    const { files, byteLength } = await downloadFrom(hub(), source, path);
    expect([files.length, byteLength]).toEqual([1, wanted.length]);
    expect(readFileSync(path).equals(wanted)).toBe(true);
    const folder = emptyFolder('target');
    await downloadFrom(hub(), source, folder);
    expect(paths(folder)).toEqual([name.slice(name.lastIndexOf('/') + 1)]);
    const fetched = hub().requests.filter(({ path }) => /resolve/.test(path));
    expect(fetched.filter(({ path }) => !path.endsWith(name))).toEqual([]);
    const chosen = emptyFolder('chosen');
    await downloadFrom(hub(), 'hf://org/both', chosen, { files: [name] });
    expect(paths(chosen)).toEqual([name]);
  },
);

it('fills the cache of the Hub, where openPipeline finds it', async () => {
  const cache = temporaryPath('hub');
  vi.stubEnv('HF_HUB_CACHE', cache);
  try {
    await downloadFrom(hub(), 'hf://org/pipe', 'cache');
    using pipeline = await openPipeline('org/pipe');
    expect([...pipeline.models.keys()]).toEqual(['text_encoder', 'unet']);
    expect((await pipeline.verify()).problems).toEqual([]);
  } finally {
    vi.unstubAllEnvs();
  }
});

it('replaces an earlier model in each folder, and leaves other files', async () => {
  const folder = emptyFolder('target');
  const single = 'text_encoder/model.safetensors';
  writeBelow(folder, single, weights('old'));
  writeBelow(folder, 'unet/mine.txt', 'mine');
  const planned = await runDownload(
    ...(['hf://org/pipe', folder] as const),
    { durable: false, dryRun: true as const },
    settingsOf(hub()),
  );
  expect(planned.deleted).toEqual([single]);
  expect(planned).toMatchObject({ index: null, path: folder });
  expect(existsSync(join(folder, single))).toBe(true);
  const replacing = { overwrite: true };
  const { deleted } = await downloadFrom(hub(), 'hf://org/pipe', folder, replacing);
  expect(deleted).toEqual([single]);
  expect(paths(folder)).toEqual([...names, 'unet/mine.txt'].sort());
});

it.each([
  ['a bad model_index.json', 'org/broken', {}, 'SAFETENSORS_INVALID_PIPELINE'],
  ['a very long one', 'org/long', {}, 'SAFETENSORS_INVALID_PIPELINE'],
  ['chosen tensors', 'org/pipe', { names: ['a'] }, 'SAFETENSORS_DIFFUSERS_PIPELINE'],
])('refuses %s, and writes nothing', async (_, id, options, code) => {
  const folder = emptyFolder('target');
  const failing = downloadFrom(hub(), `hf://${id}`, folder, options);
  await expect(failing).rejects.toMatchObject({ code });
  expect(paths(folder)).toEqual([]);
});
