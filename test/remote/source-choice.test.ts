/** The options `variant` and `revision` of a source on the Hub. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { DEFAULT_HUB_SETTINGS } from '../../src/file/hub/settings.js';
import type { RemoteSource } from '../../src/remote/remote-file.js';
import { resolveSource, type SourceChoice } from '../../src/remote/source.js';
import { download, openRemote, safeOpen } from '../support/api.js';
import { HubServer } from '../support/hub-server.js';
import { temporaryPath, writeTemporary } from '../support/make-file.js';

const START = 1000;
const index = JSON.stringify({ weight_map: { x: 'model.int8-00001-of-00001.safetensors' } });

let hub: HubServer;

beforeAll(async () => {
  hub = await HubServer.start({
    'org/variants': {
      files: {
        'model.safetensors': 'plain',
        'model.fp16.safetensors': 'half',
        'model.safetensors.index.int8.json': index,
        'model.int8-00001-of-00001.safetensors': 'eighth',
        'unet/diffusion_pytorch_model.fp16.safetensors': 'unet half',
        'vae/other.fp16.safetensors': 'vae half',
      },
    },
    'org/branches': {
      files: { 'model.safetensors': 'main' },
      revisions: { 'refs/pr/1': { 'model.safetensors': 'pr' } },
    },
  });
});

afterAll(() => hub.close());

async function resolve(source: string, choice: SourceChoice): Promise<RemoteSource> {
  const settings = { ...DEFAULT_HUB_SETTINGS, endpoint: hub.url };
  const options = { startByteLength: START, ...choice };
  return await resolveSource(source, options, settings, new AbortController().signal);
}

/** The text of the file that is opened, and the requests to the Hub that it took, without redirects. */
async function read(source: string, choice: SourceChoice): Promise<unknown[]> {
  hub.requests.splice(0);
  const found = await resolve(source, choice);
  // The choice in a folder has read the index.
  const isRead = found.chosen?.index != null;
  const resolved = hub.requests.length;
  const byteLength = found.kind === 'index' ? 104_857_600 : START;
  const { bytes } = await found.file.readStart(byteLength);
  found.close();
  const asked = hub.requests
    .slice(0, isRead ? resolved : hub.requests.length)
    .filter(({ server, path }) => server === 'hub' && !path.includes('etag='));
  return [found.kind, new TextDecoder().decode(bytes), asked.length];
}

it.each([
  ['org/variants', 'fp16', 'file', 'half', 2],
  ['org/variants', 'int8', 'index', index, 3],
  ['org/variants/unet', 'fp16', 'file', 'unet half', 2],
  ['org/variants/vae', 'fp16', 'file', 'vae half', 3],
])('%s, variant %s', async (id, variant, ...expected) => {
  expect(await read(`hf://${id}`, { variant })).toEqual(expected);
});

it('says when it has no such variant', async () => {
  await expect(resolve('hf://org/variants', { variant: 'bf16' })).rejects.toThrow(
    /found no safetensors file or index of the variant bf16$/,
  );
  await expect(resolve('hf://org/variants', { variant: 'a/b' })).rejects.toMatchObject({
    code: 'ERR_OUT_OF_RANGE',
  });
});

it.each<[string, () => unknown]>([
  ['a file', () => resolve('hf://org/variants/model.safetensors', { variant: 'fp16' })],
  ['a URL', () => resolve('https://other.example/model.safetensors', { variant: 'fp16' })],
  ['bytes', () => openRemote(new Blob(['x']), { variant: 'fp16' })],
  ['a file', async () => safeOpen(writeTemporary([]), { variant: 'fp16' })],
  ['a URL', () => download('http://127.0.0.1:9/a', temporaryPath('a'), { variant: 'fp16' })],
])('refuses a variant of %s', async (what, call) => {
  const message = expect.stringContaining(`variant must be left out for ${what}: it chooses`);
  await expect(call()).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE', message });
});

it('takes a revision by the option, too', async () => {
  const revision = 'refs/pr/1';
  expect(await read('hf://org/branches', { revision })).toEqual(['file', 'pr', expect.anything()]);
  await expect(openRemote(new Blob(['x']), { revision })).rejects.toThrow('left out for bytes');
});
