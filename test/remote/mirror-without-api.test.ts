/** Hub mirrors that serve files by their names and have no API to list them. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { DownloadResult, RunOptions } from '../../src/remote/download/run-download.js';
import { runDownload } from '../../src/remote/download/run-download.js';
import { openRemoteIn } from '../../src/remote/open.js';
import { openRemotePipelineIn } from '../../src/remote/pipeline.js';
import { safeOpen } from '../support/api.js';
import { fileBytes } from '../support/make-file.js';
import { emptyFolder, namesIn } from './download/downloads.js';

const shard = (name: string): Uint8Array => fileBytes([{ name, dtype: 'U8', shape: [9] }]);

const FILES: Readonly<Record<string, Uint8Array | string>> = {
  'org/single/model.safetensors': shard('a'),
  'org/single/config.json': '{"model_type":"x"}',
  'org/single/tokenizer/tokenizer.json': '{}',
  'org/sharded/model.safetensors.index.json': JSON.stringify({
    weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' },
  }),
  'org/sharded/model-00001-of-00002.safetensors': shard('a'),
  'org/sharded/model-00002-of-00002.safetensors': shard('b'),
};

let server: Server;
let endpoint = '';
/** Answers to the API. */
let status = 404;
let sendsLength = true;
let apiRequests = 0;

beforeAll(async () => {
  server = createServer(({ url = '' }, response) => {
    if (url.startsWith('/api/')) {
      apiRequests++;
      response.writeHead(status).end('Not here');
      return;
    }
    const [, id, name] = /^\/([^/]+\/[^/]+)\/resolve\/main\/(.+)$/.exec(url) ?? [];
    const file = FILES[`${id}/${name}`];
    if (file === undefined) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, sendsLength ? { 'Content-Length': file.length } : {});
    response.write(file.slice(0, 1));
    response.end(file.slice(1));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  endpoint = `http://127.0.0.1:${Object(server.address()).port}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
beforeEach(() => {
  status = 404;
  sendsLength = true;
  apiRequests = 0;
});

const settings = () => ({ endpoint, isOffline: false, readToken: () => undefined });

const runtime = () => ({
  maxBufferByteLength: 2 ** 32,
  hubSettings: settings(),
  digest: async () => '',
});

let folders = 0;
let target = '';
beforeEach(() => {
  target = emptyFolder(`mirror-${folders++}`);
});

async function download(
  source: string,
  options: Partial<RunOptions> = {},
): Promise<DownloadResult> {
  return await runDownload(source, target, { durable: false, ...options }, settings());
}

describe.each([404, 405, 410, 501])('with status %i', (each) => {
  beforeEach(() => {
    status = each;
  });

  it('a repository is not downloaded, and the error names what can be', async () => {
    for (const source of ['hf://org/single', 'hf://org/none', 'hf://org/single/folder']) {
      const error = await download(source).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'SAFETENSORS_REMOTE_NOT_FOUND', status: each });
      expect(String(error)).toMatch(/the server \(HF_ENDPOINT\) has no such API.*`files` names/);
    }
    // No error may come after some tries.
    expect(apiRequests).toBe(3);
    expect(namesIn(target)).toEqual([]);
  });

  it('openRemote reads the usual files, index and shards', async () => {
    const single = await openRemoteIn(runtime(), 'hf://org/single', {});
    expect((await single.getTensor('a')).shape).toEqual([9]);
    const sharded = await openRemoteIn(runtime(), 'hf://org/sharded', {});
    expect((await sharded.getTensor('b')).shape).toEqual([9]);
    expect(sharded.keys()).toEqual(['a', 'b']);
  });

  it('errors say so', async () => {
    await expect(openRemoteIn(runtime(), 'hf://org/none', {})).rejects.toThrow(
      /expected one of the usual files, .* from a server without an API .*, found none/,
    );
    const pipeline = openRemotePipelineIn(runtime(), 'hf://org/single', {});
    await expect(pipeline).rejects.toThrow('has no API that lists the repository');
  });
});

describe.each([true, false])('with Content-Length: %s', (each) => {
  beforeEach(() => {
    sendsLength = each;
  });

  it('a named file is downloaded', async () => {
    for (const name of ['model.safetensors', 'config.json', 'tokenizer/tokenizer.json']) {
      const { path, commit } = await download(`hf://org/single/${name}`);
      expect(readFileSync(path)).toEqual(Buffer.from(FILES[`org/single/${name}`] ?? ''));
      expect(commit).toBeNull();
    }
    await expect(download('hf://org/single/none.json')).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
      message: expect.stringContaining('the repository has no such file'),
    });
  });

  it('an index is downloaded with its shards', async () => {
    const { path } = await download('hf://org/sharded/model.safetensors.index.json');
    expect(safeOpen(path).keys()).toEqual(['a', 'b']);
    expect(namesIn(target)).toHaveLength(3);
  });

  it('files are chosen by their names, and not by patterns', async () => {
    const files = ['model.safetensors', 'config.json', 'tokenizer/tokenizer.json'];
    const result = await download('hf://org/single', { files });
    expect(result.files.map(({ name }) => name).sort()).toEqual(files.toSorted());
    expect(readFileSync(join(target, 'tokenizer/tokenizer.json'), 'utf8')).toBe('{}');
    const inFolder = await download('hf://org/single/tokenizer', { files: 'tokenizer.json' });
    expect(inFolder.files.map(({ name }) => name)).toEqual(['tokenizer.json']);
  });

  it.each<Partial<RunOptions>>([
    { files: '*.json' },
    { files: ['config.json', 'tokenizer/'] },
    { files: [] },
    { files: 'config.json', ignore: 'x' },
    { ignore: '*.bin' },
  ])('patterns need a list: %j', async (options) => {
    await expect(download('hf://org/single', options)).rejects.toThrow('has no such API');
  });

  it.each(['../config.json', '/config.json', 'a//b', 'a/../../b', '.git/config'])(
    'names that lead elsewhere are rejected: %s',
    async (files) => {
      await expect(download('hf://org/single', { files })).rejects.toMatchObject({
        code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
      });
    },
  );
});

it('the cache takes nothing: it needs commits and hashes', async () => {
  const cached = runDownload(
    'hf://org/single/config.json',
    'cache',
    { durable: false },
    settings(),
  );
  await expect(cached).rejects.toThrow('has no such API');
});

it('errors of the Hub stay: a repository that it does not have', async () => {
  const fetchLikeHub: typeof fetch = async () =>
    new Response('', { status: 404, headers: { 'X-Error-Code': 'RepoNotFound' } });
  await expect(download('hf://org/single', { fetch: fetchLikeHub })).rejects.toMatchObject({
    code: 'SAFETENSORS_REPOSITORY_NOT_FOUND',
  });
});
