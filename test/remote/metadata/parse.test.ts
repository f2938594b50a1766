import * as theirs from '@huggingface/hub';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import * as ours from '../../support/api.js';
import { useHub } from '../../support/hub-environment.js';
import { HubServer } from '../../support/hub-server.js';
import { nightly } from '../../support/nightly.js';
import { REFUSED_HERE, UNSUPPORTED } from './rejected-repositories.js';
import { ACCEPTED, type RepositoryCase, rawFile, shardedFiles } from './repositories.js';

let hub: HubServer;
beforeAll(async () => {
  hub = await HubServer.start({ ...ACCEPTED, ...UNSUPPORTED, ...REFUSED_HERE });
});
afterAll(() => hub.close());

// The machine's settings of the Hub must not matter.
beforeEach(() => useHub('http://127.0.0.1:1'));
afterEach(() => vi.unstubAllEnvs());

type Params = Parameters<typeof theirs.parseSafetensorsMetadata>[0];

/** The calls about some repositories, with a title each. */
function callsOf<Case extends RepositoryCase>(
  cases: Readonly<Record<string, Case>>,
): [title: string, call: () => Params, found: Case][] {
  return Object.entries(cases).flatMap(([repo, found]) =>
    (found.calls ?? [{}]).map((call): [string, () => Params, Case] => [
      `${repo} ${JSON.stringify(call)}`,
      () => ({ repo, ...call, hubUrl: hub.url }) as Params,
      found,
    ]),
  );
}

/** The error of a promise; undefined when it resolves. */
function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe('parseSafetensorsMetadata and that of @huggingface/hub', () => {
  it('know the repositories of this test', () => {
    expect(Object.keys({ ...ACCEPTED, ...UNSUPPORTED }).length).toBeGreaterThan(30);
  });

  it.each(callsOf(ACCEPTED))('%s: equal', async (_, call) => {
    const expected = await theirs.parseSafetensorsMetadata(call());
    const found = await ours.parseSafetensorsMetadata(call());
    expect(found).toEqual(expected);
    // Equal in the order of names, too.
    expect(JSON.stringify(found.filepaths)).toBe(JSON.stringify(expected.filepaths));
    const headers = ({ sharded, ...rest }: object & { sharded: boolean }): unknown =>
      sharded ? (rest as { headers: unknown }).headers : (rest as { header: unknown }).header;
    expect(JSON.stringify(headers(found))).toBe(JSON.stringify(headers(expected)));
  });

  it.each(callsOf(UNSUPPORTED))('%s: refused by both', async (_, call, { code }) => {
    expect(await errorOf(theirs.parseSafetensorsMetadata(call()))).toBeInstanceOf(Error);
    expect(await errorOf(ours.parseSafetensorsMetadata(call()))).toMatchObject({ code });
  });

  it.each(callsOf(REFUSED_HERE))('%s: refused here', async (_, call, { code }) => {
    expect(await errorOf(theirs.parseSafetensorsMetadata(call()))).toBe(undefined);
    expect(await errorOf(ours.parseSafetensorsMetadata(call()))).toMatchObject({ code });
  });
});

describe('parseSafetensorsMetadata', () => {
  /** The requests of a call. */
  async function requestsOf(call: () => Promise<unknown>): Promise<HubServer['requests']> {
    hub.requests.length = 0;
    await call();
    return [...hub.requests];
  }

  it.each([
    ['one file', 'test/single', {}, ['model.safetensors'], 1],
    [
      'a long header, of which the network has the rest',
      'test/long-header',
      {},
      ['model.safetensors'],
      2,
    ],
    [
      'an index and its shards, once for each',
      'test/sharded',
      {},
      [
        'model.safetensors',
        'model.safetensors.index.json',
        'model-00001-of-00002.safetensors',
        'model-00002-of-00002.safetensors',
      ],
      3,
    ],
    ['a path', 'test/both', { path: 'model.safetensors' }, ['model.safetensors'], 1],
    [
      'the configuration to count',
      'test/gptq',
      { computeParametersCount: true },
      ['config.json', 'model.safetensors'],
      2,
    ],
  ])('asks for %s', async (_, repo, params, expected, redirected) => {
    const asked = await requestsOf(() =>
      ours.parseSafetensorsMetadata({ repo, hubUrl: hub.url, ...params }),
    );
    const first = asked.filter(({ path }) => path.includes('/resolve/'));
    expect(first.map(({ path }) => path.split('/').at(-1)).sort()).toEqual(expected.sort());
    expect(asked.length - first.length).toBe(redirected);
    expect(asked.filter(({ method, headers }) => method !== 'GET' || !headers.range)).toEqual([]);
  });

  it('counts by the configuration of the commit whose model it reads', async () => {
    const params = { repo: 'test/gptq', computeParametersCount: true };
    const asked = await requestsOf(() =>
      ours.parseSafetensorsMetadata({ ...params, hubUrl: hub.url }),
    );
    const commit = hub.commit('test/gptq');
    const [config] = asked.filter(({ path }) => /\/resolve\/.*config\.json$/.test(path));
    expect(config?.path).toBe(`/test/gptq/resolve/${commit}/config.json`);
  });

  const SHARDS = nightly(163, 40);

  it(`asks for ${SHARDS} shards a third as often as @huggingface/hub, at most 16 at a time`, async () => {
    const shards = Array.from({ length: SHARDS }, (_, i) => {
      const number = String(i + 1).padStart(5, '0');
      return [
        `model-${number}-of-${String(SHARDS).padStart(5, '0')}.safetensors`,
        { [`layers.${i}.weight`]: 'BF16 64x64' },
      ];
    });
    hub.put('test/many', { files: shardedFiles(Object.fromEntries(shards)) });
    const underWay = { atHub: 0, inAll: 0 };
    const most = { atHub: 0, inAll: 0 };
    const counted: typeof fetch = async (...request) => {
      const isAtHub = new URL(String(request[0])).origin === hub.url;
      if (isAtHub) most.atHub = Math.max(most.atHub, ++underWay.atHub);
      most.inAll = Math.max(most.inAll, ++underWay.inAll);
      const response = await fetch(...request);
      if (isAtHub) underWay.atHub--;
      underWay.inAll--;
      return response;
    };
    const params = { repo: 'test/many', hubUrl: hub.url } as const;
    let expected: unknown;
    let found: unknown;
    const theirRequests = await requestsOf(async () => {
      expected = await theirs.parseSafetensorsMetadata(params);
    });
    const ourRequests = await requestsOf(async () => {
      found = await ours.parseSafetensorsMetadata({ ...params, fetch: counted });
    });
    expect(found).toEqual(expected);
    const atHub = (requests: HubServer['requests']): number =>
      requests.filter(({ server }) => server === 'hub').length;
    // Single file, index and its redirect, shards; the others ask for the index and every shard three times.
    expect(atHub(ourRequests)).toBe(3 + SHARDS);
    expect(atHub(theirRequests)).toBe(5 + 3 * SHARDS);
    expect(most.atHub).toBeLessThanOrEqual(16);
    // With headers that the Hub has redirected, while it is asked for others.
    expect(most.inAll).toBeLessThanOrEqual(32);
  });

  it('reads headers of up to 100 MB, and dimensions above 2^32', async () => {
    const header = `{"a":{"dtype":"U8","shape":[0,${2 ** 40}],"data_offsets":[0,0]}}`;
    hub.put('test/large', {
      files: { 'model.safetensors': rawFile(header + ' '.repeat(30_000_000)) },
    });
    const params = { repo: 'test/large', hubUrl: hub.url } as const;
    expect(await errorOf(theirs.parseSafetensorsMetadata(params))).toBeInstanceOf(Error);
    expect(await ours.parseSafetensorsMetadata(params)).toMatchObject({
      header: { a: { shape: [0, 2 ** 40] } },
    });
  });

  it('keeps more than 1000 entries of metadata of an index', async () => {
    const entries = Array.from({ length: 1001 }, (_, i) => [`removed.${i}`, 'kept']);
    const files = shardedFiles(
      { 'a.safetensors': { kept: 'U8 1' } },
      { metadata: Object.fromEntries(entries) },
    );
    hub.put('test/metadata', { files });
    const params = { repo: 'test/metadata', hubUrl: hub.url } as const;
    const sizeOf = (result: theirs.SafetensorsParseFromRepo): number =>
      Object.keys((result.sharded && result.index.metadata) || {}).length;
    expect(sizeOf(await theirs.parseSafetensorsMetadata(params))).toBe(1000);
    expect(sizeOf(await ours.parseSafetensorsMetadata(params))).toBe(1001);
  });

  it('counts a tensor called __proto__', async () => {
    const params = { repo: 'test/proto', hubUrl: hub.url, computeParametersCount: true } as const;
    const { parameterCount } = await ours.parseSafetensorsMetadata(params);
    // Typed as given, since it was asked for.
    expect(Object.entries(parameterCount)).toEqual([['U8', 2]]);
  });

  it('gives objects without prototype', async () => {
    const params = { repo: 'test/sharded', hubUrl: hub.url, computeParametersCount: true } as const;
    const result = await ours.parseSafetensorsMetadata(params);
    if (!result.sharded) expect.fail('expected shards');
    const { index, headers, parameterCount } = result;
    for (const object of [index, index.metadata, index.weight_map, headers, parameterCount]) {
      expect(Object.getPrototypeOf(object)).toBe(null);
    }
  });

  it.each([
    ['accessToken', { accessToken: 'hf_reader' }],
    ['credentials', { credentials: { accessToken: 'hf_reader' } }],
    ['both', { accessToken: 'hf_reader', credentials: { accessToken: 'hf_stranger' } }],
  ])('takes a token by %s', async (_, params) => {
    const call = { repo: 'test/private', hubUrl: hub.url, ...params };
    expect(await ours.parseSafetensorsMetadata(call)).toMatchObject({ sharded: false });
  });

  it('takes tokens of any form, which the content network never sees', async () => {
    const call = { repo: 'test/single', hubUrl: hub.url, accessToken: 'another-form' };
    expect(await errorOf(theirs.parseSafetensorsMetadata(call))).toBeInstanceOf(TypeError);
    const asked = await requestsOf(() => ours.parseSafetensorsMetadata(call));
    expect(asked.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer another-form',
      undefined,
    ]);
  });

  it('sends no token that nobody passed when it is false', async () => {
    vi.stubEnv('HF_ENDPOINT', hub.url);
    vi.stubEnv('HF_TOKEN', 'hf_reader');
    const repo = 'test/private';
    expect(await ours.parseSafetensorsMetadata({ repo })).toMatchObject({ sharded: false });
    const refused = ours.parseSafetensorsMetadata({ repo, accessToken: false });
    expect(await errorOf(refused)).toMatchObject({ status: 401 });
  });

  it('takes a repository as an object, and one that was renamed', async () => {
    const hubUrl = hub.url;
    const expected = await ours.parseSafetensorsMetadata({ repo: 'test/single', hubUrl });
    for (const repo of [{ type: 'model', name: 'test/single' }, 'test/renamed'] as const) {
      expect(await ours.parseSafetensorsMetadata({ repo, hubUrl })).toEqual(expected);
      expect(await theirs.parseSafetensorsMetadata({ repo, hubUrl })).toEqual(expected);
    }
  });

  it.each([
    ['a repository of another kind', { repo: 'datasets/org/name' }],
    ['a canonical data set', { repo: 'datasets/squad' }],
    ['a kind for a model', { repo: 'models/gpt2' }],
    ['an object of another kind', { repo: { type: 'space', name: 'org/name' } }],
    ['three parts', { repo: 'a/b/c' }],
  ])('refuses %s as the other does, by a TypeError', async (_, { repo }) => {
    const call = { repo, hubUrl: hub.url } as Params;
    expect(await errorOf(theirs.parseSafetensorsMetadata(call))).toBeInstanceOf(TypeError);
    expect(await errorOf(ours.parseSafetensorsMetadata(call))).toBeInstanceOf(TypeError);
  });

  it.each<[object, string]>([
    [{}, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', source: 'x' }, 'ERR_INVALID_ARG_TYPE'],
    [{ source: 'x', revision: 'v1' }, 'ERR_INVALID_ARG_TYPE'],
    [{ source: 5 }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: '../name' }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', path: 5 }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', computeParametersCount: 1 }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', fetch: {} }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', signal: {} }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', token: 'hf_x' }, 'ERR_INVALID_ARG_VALUE'],
    [{ repo: 'org/name', accessToken: 'a b' }, 'ERR_INVALID_ARG_VALUE'],
    [{ repo: 'org/name', accessToken: true }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', accessToken: null }, 'ERR_INVALID_ARG_TYPE'],
    [{ repo: 'org/name', path: '../x.safetensors' }, 'ERR_OUT_OF_RANGE'],
    [{ repo: 'org/name', revision: '../x' }, 'ERR_OUT_OF_RANGE'],
    [{ repo: 'org/name', hubUrl: 'ftp://host' }, 'SAFETENSORS_UNSAFE_URL'],
    [{ repo: 'org/name', hubUrl: 'huggingface.co' }, 'SAFETENSORS_UNSAFE_URL'],
  ])('refuses %j', async (params, code) => {
    hub.requests.length = 0;
    const isAtHub = 'repo' in params && !('source' in params);
    const call = { ...(isAtHub ? { hubUrl: hub.url } : {}), ...params };
    const promise = ours.parseSafetensorsMetadata(call as ours.ParseSafetensorsMetadataParams);
    expect(await errorOf(promise)).toMatchObject({ code });
    expect(hub.requests).toEqual([]);
  });

  it('ends by a signal, before and while it asks', async () => {
    const reason = new Error('enough');
    const call = { repo: 'test/sharded', hubUrl: hub.url, computeParametersCount: true } as const;
    const signal = AbortSignal.abort(reason);
    expect(await errorOf(ours.parseSafetensorsMetadata({ ...call, signal }))).toBe(reason);
    const controller = new AbortController();
    const aborting: typeof fetch = (input, init) => {
      if (String(input).includes('00002')) controller.abort(reason);
      return fetch(input, init);
    };
    const late = { ...call, fetch: aborting, signal: controller.signal };
    expect(await errorOf(ours.parseSafetensorsMetadata(late))).toBe(reason);
  });

  it('has the types of the other: what takes one takes the other', () => {
    // Checked by the compiler.
    const call = (params: Params): ours.ParseSafetensorsMetadataParams => params;
    const result = (found: ours.SafetensorsParseFromRepo): theirs.SafetensorsParseFromRepo => found;
    expect([call, result].length).toBe(2);
    expect.assertions(1);
  });

  it('has the small exports of the other', () => {
    const { parseSafetensorsMetadata, parseSafetensorsShardFilename, ...constants } = theirs;
    const names = Object.keys(constants).filter((name) => /SAFETENSORS|DIFFUSERS/.test(name));
    expect(names.length).toBe(8);
    expect(
      Object.fromEntries(names.map((name) => [name, String(Reflect.get(ours, name))])),
    ).toEqual(Object.fromEntries(names.map((name) => [name, String(Reflect.get(theirs, name))])));
    for (const name of [
      'model-00001-of-00072.safetensors',
      'model_000001-of-000072.safetensors',
      'a-b_-00001-of-00002.safetensors',
      '-00001-of-00001.safetensors',
      '00001-of-00001.safetensors',
      'model-0001-of-00001.safetensors',
      'model.safetensors',
    ]) {
      expect(ours.parseSafetensorsShardFilename(name)).toEqual(
        theirs.parseSafetensorsShardFilename(name),
      );
    }
  });

  it('rejects every name of a shard that the other rejects', () => {
    const parts = [
      '..',
      '.',
      '%2e%2e',
      '%252E',
      '%2f',
      '%5c',
      '\\',
      ':',
      '%',
      '%zz',
      '\n',
      'ü',
      ' ',
    ];
    const part = fc.oneof(fc.constantFrom(...parts), fc.stringMatching(/^[a-z0-9-]{0,4}$/));
    const filename = fc
      .array(fc.array(part, { maxLength: 3 }), { maxLength: 4 })
      .map((all) => all.map((one) => one.join('')).join('/'));
    const ordinary = fc.stringMatching(/^[a-z0-9_]{1,8}-0000[1-9]-of-00009\.safetensors$/);
    fc.assert(
      fc.property(fc.oneof(filename, ordinary), (name) => {
        const [found, expected] = [ours, theirs].map((hub) => {
          try {
            hub.assertSafeShardFilename(name);
            return null;
          } catch (error) {
            expect(error).toBeInstanceOf(hub.SafetensorParseError);
            return error;
          }
        });
        if (expected !== null) expect(found, name).toMatchObject({ name: 'FormatError' });
        if (/^\w+-\d{5}-of-\d{5}\.safetensors$/.test(name)) expect(found).toBe(null);
        if (found === null) {
          expect(ours.encodeShardFilename(name)).toBe(theirs.encodeShardFilename(name));
        }
      }),
      { numRuns: 2000 },
    );
    expect(() => ours.assertSafeShardFilename('../m')).toThrow(ours.FormatError);
  });
});
