/** Which file of a repository is opened, and by how many requests. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { DEFAULT_HUB_SETTINGS, type HubSettings } from '../../src/file/hub/settings.js';
import type { RemoteSource } from '../../src/remote/remote-file.js';
import { type ResolveOptions, resolveSource } from '../../src/remote/source.js';
import { FormatError, openRemote } from '../support/api.js';
import { type Files, HubServer, TOKEN } from '../support/hub-server.js';
import { fileBytes } from '../support/make-file.js';

const START = 1000;
const index = JSON.stringify({ weight_map: { x: 'model-00001-of-00001.safetensors' } });

const REPOSITORIES: Readonly<Record<string, Files>> = {
  'org/single': { 'model.safetensors': 'single', 'config.json': '{}' },
  'org/sharded': {
    'model.safetensors.index.json': index,
    'model-00001-of-00001.safetensors': 'shard',
  },
  'org/sound': {
    'model.safetensors.index.json': index,
    'model-00001-of-00001.safetensors': fileBytes([{ name: 'x', dtype: 'U8', shape: [1] }]),
  },
  'org/both': {
    'model.safetensors': 'single',
    'model.safetensors.index.json': index,
    'model-00001-of-00001.safetensors': 'shard',
  },
  'org/incomplete': { 'model.safetensors': 'single', 'model.safetensors.index.json': index },
  'org/diffusers': { 'diffusion_pytorch_model.safetensors': 'diffusers' },
  'org/lora': { 'pytorch_lora_weights.safetensors': 'lora', 'README.md': '' },
  'org/several': { 'a.safetensors': 'a', 'b.safetensors': 'b' },
  'org/nothing': {
    'pytorch_model.bin': Buffer.from('\x80\x02}q\0'.padEnd(100, '.'), 'latin1'),
    'model.gguf': 'GGUF'.padEnd(100, '\0'),
  },
  'org/pipeline': {
    'model_index.json': '{}',
    'unet/diffusion_pytorch_model.safetensors': 'unet',
    'transformer/diffusion_pytorch_model.safetensors.index.json': index,
    'transformer/model-00001-of-00001.safetensors': 'part',
    'text_encoder/model.safetensors': 'encoder',
    'text_encoder_2/model.safetensors.index.json': index,
    'text_encoder_2/model-00001-of-00001.safetensors': 'part',
  },
};

let hub: HubServer;
let settings: HubSettings;

beforeAll(async () => {
  const repositories = Object.entries(REPOSITORIES).map(([name, files]) => [name, { files }]);
  hub = await HubServer.start({
    ...Object.fromEntries(repositories),
    'org/new': { files: { 'model.safetensors': 'new' }, formerNames: ['org/old'] },
    'org/private': { files: { 'model.safetensors': 'private' }, access: 'private' },
    'org/gated': { files: { 'model.safetensors': 'gated' }, access: 'gated' },
    'org/branches': {
      files: { 'model.safetensors': 'main' },
      revisions: { 'refs/pr/1': { 'model.safetensors': 'pr' } },
    },
    gpt2: { files: { 'model.safetensors': 'gpt2' } },
  });
  settings = { ...DEFAULT_HUB_SETTINGS, endpoint: hub.url };
});

beforeEach(() => hub.requests.splice(0));

afterEach(() => vi.unstubAllEnvs());

afterAll(() => hub.close());

async function resolve(
  source: string,
  options: Partial<ResolveOptions> = {},
  given = settings,
): Promise<RemoteSource> {
  const { signal } = new AbortController();
  return resolveSource(source, { startByteLength: START, ...options }, given, signal);
}

/** The text of the file that is opened, and the requests to the Hub that it took, without redirects. */
async function read(source: string, options?: Partial<ResolveOptions>): Promise<unknown[]> {
  hub.requests.splice(0);
  const found = await resolve(source, options);
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

describe('a repository', () => {
  it.each([
    ['org/single', 'file', 'single', 2],
    ['org/both', 'index', index, 3],
    ['org/incomplete', 'file', 'single', 3],
    ['org/sharded', 'index', index, 3],
    ['org/diffusers', 'file', 'diffusers', 3],
    ['org/lora', 'file', 'lora', 3],
    ['org/pipeline/unet', 'file', 'unet', 2],
    ['org/pipeline/transformer', 'index', index, 3],
    ['org/pipeline/text_encoder', 'file', 'encoder', 2],
    ['org/pipeline/text_encoder_2', 'index', index, 3],
    ['org/single/model.safetensors', 'file', 'single', 1],
    ['org/sharded/model.safetensors.index.json', 'index', index, 1],
  ])('%s', async (id, ...expected) => {
    expect(await read(`hf://${id}`)).toEqual(expected);
  });

  it('is known by the addresses of its pages', async () => {
    expect(await read(`${hub.url}/org/single`)).toEqual(['file', 'single', 2]);
    expect(await read(`${hub.url}/org/pipeline/tree/main/unet`)).toEqual([
      'file',
      'unet',
      expect.anything(),
    ]);
    const page = `${hub.url}/org/branches/blob/refs%2Fpr%2F1/model.safetensors`;
    expect(await read(page)).toEqual(['file', 'pr', expect.anything()]);
    expect(await read(`${hub.url}/gpt2`)).toEqual(['file', 'gpt2', expect.anything()]);
  });

  it('has revisions', async () => {
    expect(await read('hf://org/branches@refs/pr/1')).toEqual(['file', 'pr', expect.anything()]);
    const commit = hub.commit('org/branches');
    expect(await read(`hf://org/branches@${commit}`)).toEqual(['file', 'main', expect.anything()]);
  });

  it('that was renamed answers by its old name', async () => {
    expect(await read('hf://org/old')).toEqual(['file', 'new', expect.anything()]);
  });

  it('pins the commit for all its files', async () => {
    const { file, folder, close } = await resolve('hf://org/sharded/model.safetensors.index.json');
    await file.readStart(START);
    await folder?.file('model-00001-of-00001.safetensors').readStart(START);
    const commit = hub.commit('org/sharded');
    expect(hub.requests.map(({ path }) => path)).toContain(
      `/org/sharded/resolve/${commit}/model-00001-of-00001.safetensors`,
    );
    close();
  });

  it('shows where it is, with the revision that was asked for', async () => {
    const { file, folder } = await resolve('hf://org/single');
    expect(file.path).toBe(`${hub.url}/org/single/resolve/main/model.safetensors`);
    expect(folder?.file('config.json').path).toBe(`${hub.url}/org/single/resolve/main/config.json`);
    expect(() => folder?.file('..%2f..%2fx')).toThrow('".." part');
  });

  it.each([
    ['org/none', 'SAFETENSORS_REPOSITORY_NOT_FOUND', 'private'],
    ['org/private', 'SAFETENSORS_REPOSITORY_NOT_FOUND', 'pass a token'],
    ['org/gated', 'SAFETENSORS_GATED_REPOSITORY', 'ask for access'],
    ['org/single@v9', 'SAFETENSORS_REVISION_NOT_FOUND', 'no such branch'],
    ['org/single/other.safetensors', 'SAFETENSORS_REMOTE_NOT_FOUND', 'no such file'],
    ['org/single/folder', 'SAFETENSORS_REMOTE_NOT_FOUND', 'no such file'],
    ['org/several', 'SAFETENSORS_CHECKPOINT_NOT_FOUND', '"a.safetensors", "b.safetensors"'],
    ['org/nothing', 'SAFETENSORS_CHECKPOINT_NOT_FOUND', '"pytorch_model.bin"'],
    ['org/pipeline', 'SAFETENSORS_DIFFUSERS_PIPELINE', 'open("hf://org/pipeline/unet")'],
  ])('that cannot be opened says why: %s', async (id, code, hint) => {
    const error = await read(`hf://${id}`).catch((error: unknown) => error);
    expect(error).toMatchObject({ code });
    expect(String(error)).toContain(hint);
  });

  it.each([
    ['org/nothing/pytorch_model.bin', 'a Python pickle'],
    ['org/nothing/model.gguf', 'a GGUF file'],
  ])('has files of other formats, which are not taken for folders: %s', async (id, format) => {
    vi.stubEnv('HF_ENDPOINT', hub.url);
    const opened = openRemote(`hf://${id}`, { formats: ['safetensors'] });
    await expect(opened).rejects.toThrow(`looks like ${format}`);
    await expect(opened).rejects.toBeInstanceOf(FormatError);
    expect(hub.requests.filter(({ server }) => server === 'hub')).toHaveLength(1);
  });

  it('is opened by a token that may read it', async () => {
    expect(await read('hf://org/private', { token: TOKEN })).toEqual([
      'file',
      'private',
      expect.anything(),
    ]);
    expect(await read('hf://org/gated', { token: TOKEN })).toEqual([
      'file',
      'gated',
      expect.anything(),
    ]);
    const other = await read('hf://org/gated', { token: 'hf_other' }).catch(
      (error: unknown) => error,
    );
    expect(other).toMatchObject({ code: 'SAFETENSORS_GATED_REPOSITORY', status: 403 });
    expect(String(other)).toContain("the token's account has none");
  });
});

describe('a mirror without lists of files', () => {
  const fetchWithoutLists: typeof fetch = async (input, init) =>
    String(input).includes('/tree/') ? new Response('', { status: 404 }) : await fetch(input, init);

  it.each([
    ['org/sharded', 'index', index, 2],
    ['org/diffusers', 'file', 'diffusers', 4],
    ['org/pipeline/transformer', 'index', index, 4],
  ])('is asked for usual names: %s', async (id, ...expected) => {
    expect(await read(`hf://${id}`, { fetch: fetchWithoutLists })).toEqual(expected);
  });

  it('names the first of them when all are missing', async () => {
    const opened = read('hf://org/nothing', { fetch: fetchWithoutLists });
    await expect(opened).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
      path: `${hub.url}/org/nothing/resolve/main/model.safetensors`,
    });
  });
});

describe('a server that rejects requests for lists', () => {
  const page = { headers: { 'Content-Type': 'text/html' } };
  const rejections = [
    ['403', () => new Response('', { status: 403 }), 'SAFETENSORS_FORBIDDEN'],
    ['a web page', () => new Response('<html>', page), 'SAFETENSORS_BAD_RESPONSE'],
    ['429', () => new Response('', { status: 429 }), 'SAFETENSORS_REMOTE_UNAVAILABLE'],
    ['500', () => new Response('', { status: 500 }), 'SAFETENSORS_REMOTE_UNAVAILABLE'],
  ] as const;
  const rejecting = (answer: () => Response): Partial<ResolveOptions> => ({
    fetch: async (input, init) =>
      String(input).includes('/tree/') ? answer() : await fetch(input, init),
    firstDelayMs: 1,
  });

  it.each(rejections)('by %s still serves the usual file', async (_, answer) => {
    const expected = ['file', 'single', 1];
    expect(await read('hf://org/single', rejecting(answer))).toEqual(expected);
  });

  it.each(rejections.slice(0, 2))('by %s is asked for other usual names', async (_, answer) => {
    const expected = ['index', index, 2];
    expect(await read('hf://org/sharded', rejecting(answer))).toEqual(expected);
  });

  it.each(rejections)('by %s gives that error if it has none', async (_, answer, code) => {
    await expect(read('hf://org/nothing', rejecting(answer))).rejects.toMatchObject({
      code,
      path: expect.stringContaining('/api/models/org/nothing/tree/'),
    });
  });

  it.each(rejections.slice(2))('by %s may have other files', async (_, answer, code) => {
    await expect(read('hf://org/sharded', rejecting(answer))).rejects.toMatchObject({ code });
  });

  it.each(rejections.slice(0, 2))(
    'by %s has an index that is verified without a list',
    async (_, answer) => {
      vi.stubEnv('HF_ENDPOINT', hub.url);
      const { fetch } = rejecting(answer);
      const source = 'hf://org/sound/model.safetensors.index.json';
      using opened = await openRemote(source, { fetch });
      expect((await opened.verify()).problems).toEqual([]);
    },
  );
});

describe('a list of files', () => {
  /** Answers questions for lists by bodies that are made for each. */
  function fetchWithLists(
    makeBody: () => ReadableStream | string,
    headers: Record<string, string> = {},
  ): {
    fetch: typeof fetch;
    count: () => number;
  } {
    let count = 0;
    const answer: typeof fetch = async (input, init) => {
      if (!String(input).includes('/tree/')) return await fetch(input, init);
      count++;
      return new Response(makeBody(), { headers });
    };
    return { fetch: answer, count: () => count };
  }

  it('that breaks again and again, however late, is an error', async () => {
    const makeBody = (): ReadableStream => {
      let pieces = 0;
      return new ReadableStream({
        pull: (controller) => {
          if (pieces++ < 20) controller.enqueue(new Uint8Array(100_000));
          else controller.error(new Error('broken'));
        },
      });
    };
    const { fetch, count } = fetchWithLists(makeBody);
    const opened = read('hf://org/sharded', { fetch, firstDelayMs: 1 });
    await expect(opened).rejects.toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
    expect(count()).toBe(5);
  });

  it.each([
    ['endless', () => new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(1_000_000)) })],
    ['no JSON', () => '<html>'],
  ])('that is %s is an error', async (_, makeBody) => {
    const { fetch, count } = fetchWithLists(makeBody);
    const opened = read('hf://org/sharded', { fetch });
    await expect(opened).rejects.toMatchObject({ code: 'SAFETENSORS_BAD_RESPONSE' });
    expect(count()).toBe(1);
  });

  it('that has ever more pages is an error', async () => {
    const { fetch, count } = fetchWithLists(() => '[]', { Link: '<?next>; rel="next"' });
    const opened = read('hf://org/sharded', { fetch });
    await expect(opened).rejects.toMatchObject({ code: 'SAFETENSORS_BAD_RESPONSE' });
    expect(count()).toBe(100);
  });

  it.each(['http://127.0.0.1:9/next', 'https://elsewhere.test/next'])(
    'whose next page is on another server, %s, ends there: the token stays',
    async (next) => {
      const { fetch, count } = fetchWithLists(() => '[]', { Link: `<${next}>; rel="next"` });
      const asked: string[] = [];
      const watch: typeof fetch = (input, init) => {
        asked.push(new URL(String(input instanceof Request ? input.url : input)).origin);
        return fetch(input, init);
      };
      const opened = read('hf://org/sharded', { fetch: watch });
      await expect(opened).rejects.toMatchObject({ code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND' });
      expect(count()).toBe(1);
      expect(new Set(asked)).toEqual(new Set([new URL(hub.url).origin]));
    },
  );

  it('that holds something else has no files', async () => {
    const list = [1, null, { path: 2 }, { path: 'x/y.safetensors' }, { path: 'z', type: 'file' }];
    const { fetch } = fetchWithLists(() => JSON.stringify(list));
    await expect(read('hf://org/sharded', { fetch })).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKPOINT_NOT_FOUND',
    });
  });
});

describe('the token of the machine', () => {
  let reads = 0;
  const readToken = (): string => {
    reads++;
    return TOKEN;
  };

  beforeEach(() => {
    reads = 0;
  });

  /** The requests that the Hub received. */
  const sent = (): unknown => hub.requests.map(({ headers }) => headers.authorization);

  it('goes to the endpoint', async () => {
    const { file } = await resolve(
      'hf://org/private/model.safetensors',
      {},
      { ...settings, readToken },
    );
    await file.readStart(START);
    expect(sent()).toEqual([`Bearer ${TOKEN}`, undefined]);
  });

  it('does not go to other hosts, and is not even read for them', async () => {
    const url = `${hub.url}/org/private/resolve/main/model.safetensors`;
    const { file } = await resolve(url, {}, { ...DEFAULT_HUB_SETTINGS, readToken });
    await expect(file.readStart(START)).rejects.toMatchObject({ status: 401 });
    expect(sent()).toEqual([undefined]);
    expect(reads).toBe(0);
  });

  it('is neither sent nor read when the token is false', async () => {
    const given = { ...settings, readToken };
    const { file } = await resolve('hf://org/private/model.safetensors', { token: false }, given);
    await expect(file.readStart(START)).rejects.toMatchObject({ status: 401 });
    expect([sent(), reads]).toEqual([[undefined], 0]);
  });

  it('is not read beside a token that is passed', async () => {
    const given = { ...settings, readToken };
    const { file } = await resolve('hf://org/private/model.safetensors', { token: 'hf_x' }, given);
    await expect(file.readStart(START)).rejects.toMatchObject({ status: 404 });
    expect(reads).toBe(0);
  });
});

describe('offline', () => {
  const offline = (): HubSettings => ({ ...settings, isOffline: true });

  it('the Hub is not asked', async () => {
    for (const source of ['hf://org/single', `${hub.url}/org/single`]) {
      const opened = resolve(source, {}, offline());
      await expect(opened).rejects.toMatchObject({ code: 'SAFETENSORS_OFFLINE' });
    }
    expect(hub.requests).toEqual([]);
  });

  it('other hosts are', async () => {
    const { kind } = await resolve('https://models.example/m.safetensors', {}, offline());
    expect(kind).toBe('file');
  });
});

describe('a fetch that hides redirects, as in browsers', () => {
  /** As browsers do: the answer that redirects is opaque, and following takes Authorization away. */
  const fetchLikeBrowsers: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (init?.redirect !== 'manual' || answer.status < 300 || answer.status >= 400) return answer;
    await answer.body?.cancel();
    const opaque = { type: { value: 'opaqueredirect' }, status: { value: 0 } };
    return Object.defineProperties(new Response(), opaque);
  };

  it('is pinned by one call for the commit', async () => {
    const source = 'hf://org/sharded/model.safetensors.index.json';
    const options = { fetch: fetchLikeBrowsers, token: TOKEN, headers: { 'X-Key': 'key' } };
    const { file, folder } = await resolve(source, options);
    const { bytes } = await file.readStart(START);
    expect(new TextDecoder().decode(bytes)).toBe(index);
    const shard = folder?.file('model-00001-of-00001.safetensors');
    await shard?.readStart(START);
    const commit = hub.commit('org/sharded');
    const asked = hub.requests.map(({ server, path }) => `${server} ${path.replace(/\?.*/, '?')}`);
    const resolved = `hub /org/sharded/resolve/${commit}`;
    expect(asked.filter((path) => !path.includes('resolve-cache'))).toEqual([
      'hub /org/sharded/resolve/main/model.safetensors.index.json',
      'hub /api/models/org/sharded/revision/main',
      `${resolved}/model.safetensors.index.json`,
      `${resolved}/model-00001-of-00001.safetensors`,
      expect.stringMatching(/^network \/blobs\//),
    ]);
    // A browser takes only Authorization away on the way to another host.
    const network = hub.requests.at(-1)?.headers;
    expect([network?.authorization, network?.['x-key']]).toEqual([undefined, undefined]);
    const byteLength = 3;
    const target = new Uint8Array(byteLength);
    hub.requests.splice(0);
    await shard?.readInto(target, 2);
    expect(new TextDecoder().decode(target)).toBe('ard');
    expect(hub.requests.map(({ server }) => server)).toEqual(['network']);
  });
});
