/** The package in a bundle for browsers, on a page in a real one. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findChromium, PageServer } from '../support/browser.js';
import { recipe } from '../support/deployed-app.js';
import { type HubRequest, HubServer, TOKEN } from '../support/hub-server.js';
import { filesOf } from '../support/make-checkpoint.js';
import { type Entry, fileBytes } from '../support/make-file.js';
import { root } from '../support/source-tree.js';
import { makeApp } from './tools.js';

const PAGE = readFileSync(join(root, 'test/deploy/pages/remote.mjs'), 'utf8');

const VALUES = [1, 2, 3, 4, 5, 6, 7, -8];

/** The upper halves of float32. */
const BF16 = new Uint8Array(
  Uint16Array.from(new Uint32Array(new Float32Array(VALUES).buffer), (bits) => bits >>> 16).buffer,
);

const EMBED: Entry = { name: 'embed', dtype: 'BF16', shape: [2, 4], bytes: BF16 };
const FILE = fileBytes([EMBED, { name: 'other', dtype: 'F32', shape: [50_000] }]);
const DATA_BEGIN = FILE.length - 200_000 - BF16.length;

const SHARD = 'model-00001-of-00002.safetensors';
const SHARDED = Object.fromEntries(
  filesOf({
    shards: {
      [SHARD]: [EMBED],
      'model-00002-of-00002.safetensors': [{ name: 'other', dtype: 'F32', shape: [5] }],
    },
  }),
);

const SEEN = {
  names: ['embed', 'other'],
  dtype: 'BF16',
  shape: [2, 4],
  values: VALUES,
  lastRow: VALUES.slice(4),
};

const chromium = findChromium();

describe.skipIf(chromium === null)('a page in Chromium', () => {
  let pages: PageServer;
  let hub: HubServer;

  beforeAll(async () => {
    hub = await HubServer.start({
      'tests/single': { files: { 'model.safetensors': FILE } },
      'tests/private': { files: { 'model.safetensors': FILE }, access: 'private' },
      'tests/sharded': { files: SHARDED },
    });
  });

  afterAll(() => hub.close());

  // Projects of the deploy tests live as long as a test.
  beforeEach(async () => {
    pages ??= await PageServer.start(bundle(), { '/dropped': FILE });
    hub.requests.length = 0;
  });

  afterAll(() => pages?.close());

  function bundle(): string {
    const app = makeApp();
    app.write('page.mjs', PAGE);
    app.build(recipe('Browsers'));
    return readFileSync(join(app.folder, 'dist/page.js'), 'utf8');
  }

  async function show(query: Readonly<Record<string, string>>): Promise<unknown> {
    return await pages.show(chromium as string, { hub: hub.url, ...query });
  }

  /** Requests in the order of their arrival; in place of the commit `COMMIT`, of a hash `HASH`. */
  function asked(commit: string): string[] {
    for (const { headers } of hub.requests) {
      // Chromium asks for the bytes as they are whenever it asks for a range.
      if (headers.range !== undefined) expect(headers['accept-encoding']).toBe('identity');
    }
    const line = ({ server, method, path, headers }: HubRequest): string => {
      const [pathname = ''] = path.split('?');
      const shown = pathname.replace(commit, 'COMMIT').replace(/[0-9a-f]{64}/, 'HASH');
      return [server, method, shown, headers.range?.replace('bytes=', '')].join(' ').trim();
    };
    return hub.requests.map(line);
  }

  /** Behind a header of less than 100 kB: the tensor, and its last row. */
  const TENSOR = `${DATA_BEGIN}-${DATA_BEGIN + 15}`;
  const ROW = `${DATA_BEGIN + 8}-${DATA_BEGIN + 15}`;

  /** Opening a repository with one file, and reading from it: its list, its commit, and no HEAD. */
  function readingOf(repository: string): string[] {
    return [
      `hub GET /api/models/${repository}/tree/main`,
      `hub GET /${repository}/resolve/main/model.safetensors 0-99999`,
      `hub GET /api/models/${repository}/revision/main`,
      `hub GET /${repository}/resolve/COMMIT/model.safetensors 0-99999`,
      'network GET /blobs/HASH 0-99999',
      `network GET /blobs/HASH ${TENSOR}`,
      `network GET /blobs/HASH ${ROW}`,
    ];
  }

  it('opens a repository on the Hub, pinned by one call for the commit', async () => {
    const seen = await show({ case: 'hub', source: 'hf://tests/single' });
    const path = 'https://huggingface.co/tests/single/resolve/main/model.safetensors';
    expect(seen).toEqual({ path, ...SEEN });
    expect(asked(hub.commit('tests/single'))).toEqual(readingOf('tests/single'));
  });

  it('reads only the shards that it needs', async () => {
    const seen = await show({ case: 'hub', source: 'hf://tests/sharded' });
    const path = 'https://huggingface.co/tests/sharded/resolve/main/model.safetensors.index.json';
    expect(seen).toEqual({ path, ...SEEN });
    expect(asked(hub.commit('tests/sharded'))).toEqual([
      'hub GET /api/models/tests/sharded/tree/main',
      // Its answer, 404, is no redirect: it names the commit.
      'hub GET /tests/sharded/resolve/main/model.safetensors 0-99999',
      // Chromium does not show this redirect, and follows the next ones itself.
      'hub GET /tests/sharded/resolve/COMMIT/model.safetensors.index.json 0-104857599',
      'hub GET /tests/sharded/resolve/COMMIT/model.safetensors.index.json 0-104857599',
      'hub GET /api/resolve-cache/models/tests/sharded/COMMIT/model.safetensors.index.json 0-104857599',
      `hub GET /tests/sharded/resolve/COMMIT/${SHARD} 0-99999`,
      'network GET /blobs/HASH 0-99999',
      'network GET /blobs/HASH 70-85',
      'network GET /blobs/HASH 78-85',
    ]);
  });

  it('sends a token to the Hub, and not on to its content network', async () => {
    const seen = await show({ case: 'token', source: 'hf://tests/private', token: TOKEN });
    const path = 'https://huggingface.co/tests/private/resolve/main/model.safetensors';
    expect(seen).toEqual({ path, ...SEEN });
    const withToken = hub.requests.filter(({ headers }) => headers.authorization !== undefined);
    expect(new Set(withToken.map(({ server }) => server))).toEqual(new Set(['hub']));
    expect(withToken.length).toBe(4);
    // Before each request with a token Chromium asks whether pages of other sites may send one.
    const lines = asked(hub.commit('tests/private'));
    const preflights = lines.filter((line) => line.startsWith('hub OPTIONS '));
    expect(preflights.length).toBe(4);
    expect(lines.filter((line) => !preflights.includes(line))).toEqual(readingOf('tests/private'));
  });

  it('opens a file on another site that redirects', async () => {
    const source = `${hub.url}/tests/single/resolve/main/model.safetensors`;
    expect(await show({ case: 'anotherSite', source })).toEqual({ path: source, ...SEEN });
    expect(asked('main')).toEqual([
      'hub GET /tests/single/resolve/COMMIT/model.safetensors 0-99999',
      'hub GET /tests/single/resolve/COMMIT/model.safetensors 0-99999',
      'network GET /blobs/HASH 0-99999',
      `network GET /blobs/HASH ${TENSOR}`,
      `network GET /blobs/HASH ${ROW}`,
    ]);
  });

  it('opens a dropped file, without a request', async () => {
    expect(await show({ case: 'dropped' })).toEqual({ path: 'model.safetensors', ...SEEN });
    expect(hub.requests).toEqual([]);
  });

  it('tells apart what went wrong', async () => {
    const source = `${hub.url}/tests/single/resolve/main/missing.safetensors`;
    expect(await show({ case: 'missing', source })).toEqual({
      isRemoteError: true,
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
      status: 404,
    });
  });
});
