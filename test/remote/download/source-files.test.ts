import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { requireFreeSpace } from '../../../src/remote/download/free-space.js';
import { runDownload } from '../../../src/remote/download/run-download.js';
import { download } from '../../support/api.js';
import { TOKEN } from '../../support/hub-server.js';
import { downloadFrom, emptyFolder, namesIn, SINGLE, useHub } from './downloads.js';

const OTHERS = Object.fromEntries(
  Array.from({ length: 12 }, (_, i) => [`vocabulary-${i}.txt`, String(i)]),
);
const hub = useHub({
  'org/many': { files: { ...OTHERS, ...SINGLE } },
  'org/private': { files: SINGLE, access: 'private' },
  'org/empty': { files: { 'README.md': 'none' } },
});
afterEach(() => vi.unstubAllEnvs());

it('reads all pages of a list', async () => {
  hub().entriesPerPage = 5;
  const folder = emptyFolder('target');
  await downloadFrom(hub(), 'hf://org/many', folder);
  expect(namesIn(folder)).toHaveLength(14);
});

it('asks with the token of the environment, which goes to the Hub alone', async () => {
  vi.stubEnv('HF_ENDPOINT', hub().url);
  vi.stubEnv('HF_TOKEN', TOKEN);
  hub().requests.length = 0;
  await download('hf://org/private', emptyFolder('target'), { durable: false });
  const asked = hub().requests.map(({ server, headers }) => [server, headers.authorization]);
  expect(asked.filter(([server]) => server === 'network').every(([, token]) => !token)).toBe(true);
  expect(asked.filter(([server]) => server === 'hub').every(([, token]) => token)).toBe(true);
});

it('tells apart what is missing', async () => {
  const folder = emptyFolder('target');
  const codeOf = async (source: string): Promise<string> => {
    const failed = await downloadFrom(hub(), source, folder).catch((error: unknown) => error);
    return (failed as { code: string }).code;
  };
  expect(await codeOf('hf://org/private')).toBe('SAFETENSORS_REPOSITORY_NOT_FOUND');
  expect(await codeOf('hf://org/many@other')).toBe('SAFETENSORS_REVISION_NOT_FOUND');
  expect(await codeOf('hf://org/many/none.safetensors')).toBe('SAFETENSORS_REMOTE_NOT_FOUND');
  expect(await codeOf('hf://org/empty')).toBe('SAFETENSORS_CHECKPOINT_NOT_FOUND');
  expect(namesIn(folder)).toEqual([]);
});

it('copies one file of the Hub into a folder by its name', async () => {
  const folder = emptyFolder('target');
  const { path } = await downloadFrom(hub(), 'hf://org/many/model.safetensors', folder);
  expect([path, namesIn(folder)]).toEqual([
    join(folder, 'model.safetensors'),
    ['model.safetensors'],
  ]);
});

it('takes a path of another kind of file for neither file nor folder', async () => {
  const target = join(emptyFolder('target'), 'model.gguf');
  const downloaded = downloadFrom(hub(), 'hf://org/many/model.safetensors', target);
  await expect(downloaded).rejects.toThrow('target must be a path that ends in .safetensors');
});

it('asks files for their lengths where the list has no hashes of them', async () => {
  const listFetch: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (!String(input).includes('/tree/')) return response;
    const list = (await response.json()) as { path: string }[];
    const headers = { link: response.headers.get('link') ?? '' };
    return Response.json(
      list.map(({ path }) => ({ type: 'file', path, size: 10 })),
      { headers },
    );
  };
  const folder = emptyFolder('target');
  await downloadFrom(hub(), 'hf://org/many', folder, { fetch: listFetch });
  for (const name of ['config.json', 'model.safetensors']) {
    expect(readFileSync(join(folder, name)).equals(Buffer.from(SINGLE[name] as string))).toBe(true);
  }
});

it('does not ask the Hub when that is off', async () => {
  const settings = { endpoint: hub().url, isOffline: true, readToken: () => undefined };
  const asked = runDownload('hf://org/many', 'x', { durable: false }, settings);
  await expect(asked).rejects.toMatchObject({ code: 'SAFETENSORS_OFFLINE' });
});

it('refuses unusable arguments before it asks', async () => {
  const refused = (target: unknown, options: object): Promise<unknown> =>
    download('hf://org/many', target as string, options);
  const path = join(emptyFolder('target'), 'x');
  await expect(refused(path, { name: ['a'] })).rejects.toThrow('did you mean names?');
  await expect(refused(path, { names: 'a' })).rejects.toThrow('names must be an iterable');
  await expect(refused(path, { maxShardSize: 'much' })).rejects.toThrow('maxShardSize');
  await expect(refused(path, { onProgress: 1 })).rejects.toThrow(TypeError);
  await expect(refused(path, { lockTimeout: -1 })).rejects.toThrow(RangeError);
  await expect(refused(7, {})).rejects.toThrow(TypeError);
  const blob = download(new Blob([]) as never, path);
  await expect(blob).rejects.toThrow(
    'source must be a URL or hf://org/name, but is an instance of Blob',
  );
});

it('asks the disk first', async () => {
  const folder = emptyFolder('target');
  await requireFreeSpace(folder, 1, folder);
  await expect(requireFreeSpace(folder, 2 ** 60, folder)).rejects.toMatchObject({
    code: 'ENOSPC',
    path: folder,
  });
});
