import { createHash } from 'node:crypto';
import {
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { call } from '../../cli/call.js';
import { download, safeOpen, saveFile, verify } from '../../support/api.js';
import { useHub } from '../../support/hub-environment.js';
import { type Files, HubServer } from '../../support/hub-server.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';
import { breakingFetch, CONFIG, noise, SHARDED } from './downloads.js';

const [FIRST, SECOND, INDEX] = Object.keys(SHARDED) as [string, string, string];
const WEIGHTS = 'model.safetensors';
/** Tensors of a file that is long enough to be repaired in parts. */
const TENSOR_BYTE_LENGTH = 3_000_000;
const NAMES = ['a', 'b', 'c', 'd', 'e'];

let hub: HubServer;
let digested: Files;

beforeAll(async () => {
  const path = temporaryPath('digested.safetensors');
  const tensors = NAMES.map((name, i) => {
    const data = noise(TENSOR_BYTE_LENGTH, i + 1);
    return [name, { dtype: 'U8', shape: [TENSOR_BYTE_LENGTH], data }] as const;
  });
  await saveFile(path, new Map(tensors), { digests: true });
  digested = { [WEIGHTS]: readFileSync(path), 'config.json': CONFIG };
  hub = await HubServer.start({
    'org/sharded': { files: SHARDED },
    'org/digested': { files: digested, revisions: { older: { ...digested, 'config.json': '{}' } } },
    'datasets/org/set': { files: { 'data/a.csv': 'a,b\n', 'data/b.csv': 'c\n' } },
  });
});
afterAll(() => hub.close());
beforeEach(() => {
  useHub(hub.url);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

/** Damages one byte. */
function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] as number) ^ 1;
  writeFileSync(path, bytes);
}

/** The position of a byte of a tensor in the file. */
function placeOf(name: string): number {
  const length = Number(readFileSync(fileOf()).readBigUInt64LE(0)) + 8;
  return length + NAMES.indexOf(name) * TENSOR_BYTE_LENGTH + 17;
}

function fileOf(): string {
  const path = temporaryPath('whole.safetensors');
  if (!existsSync(path)) writeFileSync(path, digested[WEIGHTS] as Uint8Array);
  return path;
}

async function copyOf(id: string, target = temporaryPath('copy')): Promise<string> {
  const { path } = await download(id, target);
  hub.requests.length = 0;
  return path;
}

const repair = { repair: true } as const;

/** Paths of the large files that were requested. */
const largeRequests = (): string[] =>
  hub.requests.filter(({ server }) => server === 'network').map(({ path }) => path);

async function expectRight(folder: string): Promise<void> {
  const { ok, hub: found } = await verify(folder, { against: 'origin' });
  expect([ok, found?.changed, found?.missing.filter(({ required }) => required)]).toEqual([
    true,
    [],
    [],
  ]);
}

describe('repair of a folder', () => {
  it('fetches only files that differ or are missing, without overwrite', async () => {
    const folder = await copyOf('hf://org/sharded');
    flip(join(folder, SECOND), 60);
    writeFileSync(join(folder, 'config.json'), '{}');
    rmSync(join(folder, INDEX));
    writeFileSync(join(folder, 'notes.txt'), 'mine');
    writeFileSync(join(folder, 'other.safetensors'), 'mine');
    const expected = [
      { name: SECOND, reason: 'bytes' },
      { name: 'config.json', reason: 'length' },
      { name: INDEX, reason: 'missing' },
    ];
    const plan = await download('hf://org/sharded', folder, { ...repair, dryRun: true });
    expect(new Set(plan.repaired)).toEqual(new Set(expected));
    expect(readFileSync(join(folder, 'config.json'), 'utf8')).toBe('{}');
    hub.requests.length = 0;
    const { repaired, deleted, downloadedBytes } = await download(
      'hf://org/sharded',
      folder,
      repair,
    );
    expect(new Set(repaired)).toEqual(new Set(expected));
    expect(deleted).toEqual([]);
    expect(downloadedBytes).toBeLessThan(10_000);
    expect(new Set(largeRequests()).size).toBe(1);
    expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe('mine');
    expect(existsSync(join(folder, 'other.safetensors'))).toBe(true);
    await expectRight(folder);
    const again = await download('hf://org/sharded', folder, repair);
    expect([again.repaired, again.downloadedBytes]).toEqual([[], 0]);
  });

  it('goes by the index of the Hub where the local one is another', async () => {
    const folder = await copyOf('hf://org/sharded');
    rmSync(join(folder, SECOND));
    writeFileSync(join(folder, INDEX), '{"weight_map":{"a":"model-00001-of-00004.safetensors"}}');
    expect((await verify(folder, { against: 'origin' })).problems.map(({ file }) => file)).toEqual([
      SECOND,
      INDEX,
    ]);
    const { repaired } = await download('hf://org/sharded', folder, repair);
    expect(repaired.map(({ name }) => name).sort()).toEqual([SECOND, INDEX].sort());
    await expectRight(folder);
  });

  it('also repairs files that download alone does not fetch, where they are there', async () => {
    const folder = await copyOf('hf://org/sharded');
    writeBelow(folder, 'pytorch_model.bin', 'damaged');
    writeBelow(folder, 'onnx/config.json', '[]');
    const { repaired } = await download('hf://org/sharded', folder, repair);
    expect(repaired.map(({ name }) => name).sort()).toEqual([
      'onnx/config.json',
      'pytorch_model.bin',
    ]);
    expect(readFileSync(join(folder, 'onnx/config.json'), 'utf8')).toBe('{}');
  });

  it('keeps links to right files, and replaces links to wrong ones, never what they lead to', async () => {
    const folder = await copyOf('hf://org/sharded');
    const elsewhere = temporaryPath('elsewhere');
    renameSync(join(folder, SECOND), elsewhere);
    symlinkSync(elsewhere, join(folder, SECOND));
    expect((await download('hf://org/sharded', folder, repair)).repaired).toEqual([]);
    expect(readlinkSync(join(folder, SECOND))).toBe(elsewhere);
    flip(elsewhere, 60);
    const damaged = readFileSync(elsewhere);
    expect((await download('hf://org/sharded', folder, repair)).repaired).toHaveLength(1);
    expect(readFileSync(elsewhere).equals(damaged)).toBe(true);
    await expectRight(folder);
  });

  it('replaces a link that leads nowhere', async () => {
    const folder = await copyOf('hf://org/sharded');
    rmSync(join(folder, 'config.json'));
    symlinkSync('nowhere', join(folder, 'config.json'));
    const { repaired } = await download('hf://org/sharded', folder, repair);
    expect(repaired).toEqual([{ name: 'config.json', reason: 'missing' }]);
    await expectRight(folder);
  });

  it('takes the recorded commit, unless a revision is named', async () => {
    const folder = await copyOf('hf://org/digested@older');
    writeFileSync(join(folder, 'config.json'), 'damaged');
    const { commit } = await download('hf://org/digested', folder, repair);
    expect(commit).toBe(hub.commit('org/digested', 'older'));
    expect(readFileSync(join(folder, 'config.json'), 'utf8')).toBe('{}');
    const main = await download('hf://org/digested@main', folder, repair);
    expect(main.repaired).toEqual([{ name: 'config.json', reason: 'length' }]);
    expect(readFileSync(join(folder, 'config.json'), 'utf8')).toBe(CONFIG);
  });

  it('of hf download takes its commit, of a commit of another repository the branch', async () => {
    for (const [commit, config] of [
      [hub.commit('org/digested', 'older'), '{}'],
      ['0'.repeat(40), CONFIG],
    ] as const) {
      const folder = temporaryPath(`local-dir-${config.length}`);
      writeBelow(folder, WEIGHTS, digested[WEIGHTS] as Uint8Array);
      writeBelow(folder, 'config.json', 'damaged');
      const record = `.cache/huggingface/download/config.json.metadata`;
      writeBelow(folder, record, `${commit}\netag\n1\n`);
      await download('hf://org/digested', folder, repair);
      expect(readFileSync(join(folder, 'config.json'), 'utf8')).toBe(config);
    }
  });

  it('of a data set, of chosen files, of a missing folder', async () => {
    const folder = temporaryPath('data-set');
    await download('hf://datasets/org/set', folder, { files: '*' });
    for (const name of ['a', 'b']) writeFileSync(join(folder, `data/${name}.csv`), 'x');
    const source = 'hf://datasets/org/set';
    const one = await download(source, folder, { ...repair, files: '*/a.csv' });
    expect(one.repaired).toEqual([{ name: 'data/a.csv', reason: 'length' }]);
    expect((await download(source, folder, repair)).repaired).toHaveLength(1);
    const target = temporaryPath('nothing');
    const whole = await download('hf://org/digested', target, repair);
    expect(whole.repaired.map(({ reason }) => reason)).toEqual(['missing', 'missing']);
    await expectRight(target);
  });
});

describe('a long file with digests', () => {
  it('gets only the tensors that differ from their digest', async () => {
    const folder = await copyOf('hf://org/digested');
    flip(join(folder, WEIGHTS), placeOf('b'));
    const { downloadedBytes, reusedBytes } = await download('hf://org/digested', folder, repair);
    expect(downloadedBytes).toBeGreaterThanOrEqual(TENSOR_BYTE_LENGTH);
    expect(downloadedBytes).toBeLessThan(TENSOR_BYTE_LENGTH + 10_000);
    expect(reusedBytes).toBeGreaterThan(4 * TENSOR_BYTE_LENGTH - 10_000);
    await expectRight(folder);
  });

  it('that is truncated gets its end', async () => {
    const folder = await copyOf('hf://org/digested');
    truncateSync(join(folder, WEIGHTS), placeOf('d'));
    const { downloadedBytes } = await download('hf://org/digested', folder, repair);
    expect(downloadedBytes).toBeLessThan(2 * TENSOR_BYTE_LENGTH + 10_000);
    await expectRight(folder);
  });

  it('at a path, whose header is damaged too, and to a path', async () => {
    const path = join(temporaryPath('one'), WEIGHTS);
    await download(`hf://org/digested/${WEIGHTS}`, path);
    flip(path, 20);
    flip(path, placeOf('e'));
    const { repaired, downloadedBytes } = await download(
      `hf://org/digested/${WEIGHTS}`,
      path,
      repair,
    );
    expect(repaired).toEqual([{ name: WEIGHTS, reason: 'bytes' }]);
    expect(downloadedBytes).toBeLessThan(TENSOR_BYTE_LENGTH + 10_000);
    expect(readFileSync(path).equals(digested[WEIGHTS] as Buffer)).toBe(true);
  });

  it('is fetched whole where the result has another hash: a lying server', async () => {
    const folder = await copyOf('hf://org/digested');
    flip(join(folder, WEIGHTS), placeOf('a'));
    // The first answer with the bytes of the tensor is wrong.
    let lies = 1;
    const lying: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      const range = new Headers(init?.headers).get('range') ?? '';
      const [, first, last] = /bytes=(\d+)-(\d+)/.exec(range) ?? [];
      const isLong = Number(last) - Number(first) > 1_000_000;
      if (!String(input).includes('/blobs/') || !isLong || lies-- <= 0) return response;
      const bytes = new Uint8Array(await response.arrayBuffer()).fill(7);
      const { status, headers } = response;
      return new Response(bytes, { status, headers });
    };
    const { downloadedBytes } = await download('hf://org/digested', folder, {
      ...repair,
      fetch: lying,
    });
    expect(downloadedBytes).toBeGreaterThan(5 * TENSOR_BYTE_LENGTH);
    await expectRight(folder);
  });

  it('stays as it is while the server lies on, and after a broken connection is continued', async () => {
    const folder = await copyOf('hf://org/digested');
    const path = join(folder, WEIGHTS);
    flip(path, placeOf('a'));
    flip(path, placeOf('c'));
    const damaged = readFileSync(path);
    const lying: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (!String(input).includes('/blobs/')) return response;
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (bytes.length > 1_000_000) bytes.fill(7);
      const { status, headers } = response;
      return new Response(bytes, { status, headers });
    };
    const failed = download('hf://org/digested', folder, { ...repair, fetch: lying });
    await expect(failed).rejects.toMatchObject({ code: 'SAFETENSORS_BAD_RESPONSE' });
    expect(readFileSync(path).equals(damaged)).toBe(true);
    const broken = download('hf://org/digested', folder, {
      ...repair,
      fetch: breakingFetch(TENSOR_BYTE_LENGTH + 1_000_000),
    });
    await expect(broken).rejects.toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
    expect(readFileSync(path).equals(damaged)).toBe(true);
    const { downloadedBytes } = await download('hf://org/digested', folder, repair);
    // The first tensor, of which the broken connection left most, and the third are fetched in parallel.
    expect(downloadedBytes).toBeLessThan(2 * TENSOR_BYTE_LENGTH - 1_000_000);
    await expectRight(folder);
    expect(readdirSync(folder).filter((name) => name.endsWith('.incomplete'))).toEqual([]);
  });
});

type Lie = (bytes: Uint8Array<ArrayBuffer>, head: { status: number; headers: Headers }) => Response;

/** Answers to every request for bytes of the weights. */
const LIES: readonly [string, Lie][] = [
  [
    'other bytes',
    (bytes, head) =>
      new Response(
        bytes.map((byte) => byte ^ 1),
        head,
      ),
  ],
  ['fewer bytes', (bytes, head) => new Response(bytes.subarray(1), without(head))],
  ['more bytes', (bytes, head) => new Response(new Blob([bytes, 'x']), without(head))],
  ['another range', (bytes, head) => ranged(bytes, head, (first) => first + 1)],
  ['a longer file', (bytes, head) => ranged(bytes, head, (first) => first, 1)],
  ['a file, not a range', () => new Response(digested[WEIGHTS] as Uint8Array<ArrayBuffer>)],
  ['a page', () => new Response('<html>', { headers: { 'Content-Type': 'text/html' } })],
  ['another version', (bytes, head) => tagged(bytes, head)],
  ['no bytes', (_, head) => new Response('', without(head))],
  ['no such range', () => new Response('', { status: 416 })],
  ['no such file', () => new Response('', { status: 404 })],
  ['no permission', () => new Response('', { status: 403 })],
];

function without({ status, headers }: Parameters<Lie>[1]): ResponseInit {
  headers.delete('Content-Length');
  return { status, headers };
}

function ranged(
  bytes: Uint8Array<ArrayBuffer>,
  { status, headers }: Parameters<Lie>[1],
  move: (first: number) => number,
  more = 0,
): Response {
  const range = headers.get('Content-Range') ?? '';
  const [first = 0, last = 0, length = 0] = (range.match(/\d+/g) ?? []).map(Number);
  const told = `bytes ${move(first)}-${move(last)}/${length + more}`;
  headers.set('Content-Range', told);
  return new Response(bytes, { status, headers });
}

function tagged(bytes: Uint8Array<ArrayBuffer>, { status, headers }: Parameters<Lie>[1]): Response {
  headers.set('ETag', '"another"');
  return new Response(bytes, { status, headers });
}

describe('a server that lies during a repair', () => {
  it.each(LIES)(
    'with %s: the file is right, or as it was, and is repaired next time',
    async (_, lie) => {
      const folder = await copyOf('hf://org/digested');
      const path = join(folder, WEIGHTS);
      for (const name of ['b', 'd']) flip(path, placeOf(name));
      const damaged = readFileSync(path);
      const lying: typeof fetch = async (input, init) => {
        const response = await fetch(input, init);
        if (!String(input).includes('/blobs/')) return response;
        const { status, headers } = response;
        const bytes = new Uint8Array(await response.arrayBuffer());
        return lie(bytes, { status, headers: new Headers(headers) });
      };
      try {
        await download('hf://org/digested', folder, { ...repair, fetch: lying });
        expect(readFileSync(path).equals(digested[WEIGHTS] as Buffer)).toBe(true);
      } catch (error) {
        expect(error).toMatchObject({ code: expect.stringMatching(/^SAFETENSORS_/) });
        expect(readFileSync(path).equals(damaged)).toBe(true);
      }
      await download('hf://org/digested', folder, repair);
      await expectRight(folder);
      expect(readdirSync(folder).filter((name) => name.endsWith('.incomplete'))).toEqual([]);
    },
    60_000,
  );
});

describe('a long file with digests is fetched whole', () => {
  it('from a server without ranges', async () => {
    const folder = await copyOf('hf://org/digested');
    flip(join(folder, WEIGHTS), placeOf('b'));
    const withoutRanges: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (!String(input).includes('/blobs/')) return response;
      await response.body?.cancel();
      return new Response(digested[WEIGHTS] as Uint8Array<ArrayBuffer>);
    };
    await download('hf://org/digested', folder, { ...repair, fetch: withoutRanges });
    await expectRight(folder);
  });

  it('if it is no valid safetensors file on the Hub', async () => {
    const bytes = noise(5_000_000, 1);
    hub.put('org/invalid', { files: { [WEIGHTS]: bytes, 'config.json': CONFIG } });
    const folder = temporaryPath('invalid');
    writeBelow(folder, WEIGHTS, bytes.slice(1));
    const { repaired } = await download('hf://org/invalid', folder, repair);
    expect(repaired).toContainEqual({ name: WEIGHTS, reason: 'length' });
    expect(readFileSync(join(folder, WEIGHTS)).equals(bytes)).toBe(true);
  });
});

describe('a copy of another repository', () => {
  it('is not replaced without overwrite, whatever was changed', async () => {
    const folder = await copyOf('hf://org/digested');
    const path = join(folder, WEIGHTS);
    flip(path, placeOf('a'));
    const damaged = readFileSync(path);
    const files = { [WEIGHTS]: (digested[WEIGHTS] as Uint8Array).slice(0, -1) };
    hub.put('org/same-names', { files });
    const source = 'hf://org/same-names';
    for (const [from, to] of [
      [source, folder],
      [`${source}/${WEIGHTS}`, folder],
      [`${source}/${WEIGHTS}`, path],
    ] as const) {
      const wrong = download(from, to, repair);
      await expect(wrong).rejects.toMatchObject({ code: 'SAFETENSORS_TARGET_EXISTS' });
      expect(readFileSync(path).equals(damaged)).toBe(true);
    }
    const { repaired } = await download(source, folder, { ...repair, overwrite: true });
    expect(repaired).toEqual([{ name: WEIGHTS, reason: 'length' }]);
  });

  it('is not deleted where it has none of the files', async () => {
    const folder = temporaryPath('own');
    writeBelow(folder, WEIGHTS, digested[WEIGHTS] as Uint8Array);
    const wrong = download('hf://org/sharded', folder, repair);
    await expect(wrong).rejects.toMatchObject({ code: 'SAFETENSORS_TARGET_EXISTS' });
    expect(readdirSync(folder)).toEqual([WEIGHTS]);
  });
});

describe('repair in the Hub cache', () => {
  it('replaces wrong bytes of the right length, and restores links, at the commit of the snapshot', async () => {
    const folder = await copyOf('hf://org/digested@older', 'cache');
    expect(await download('hf://org/digested@older', 'cache')).toMatchObject({ repaired: [] });
    const blob = join(folder, readlinkSync(join(folder, WEIGHTS)));
    flip(blob, placeOf('b'));
    rmSync(join(folder, 'config.json'));
    const options = { ...repair, revision: 'older' };
    const plan = await download('hf://org/digested', 'cache', { ...options, dryRun: true });
    const expected = [
      { name: WEIGHTS, reason: 'bytes' },
      { name: 'config.json', reason: 'missing' },
    ];
    expect(new Set(plan.repaired)).toEqual(new Set(expected));
    const { repaired, downloadedBytes } = await download('hf://org/digested', 'cache', options);
    expect(new Set(repaired)).toEqual(new Set(expected));
    expect(downloadedBytes).toBeLessThan(TENSOR_BYTE_LENGTH + 10_000);
    const sum = createHash('sha256').update(readFileSync(blob)).digest('hex');
    expect(blob.endsWith(sum)).toBe(true);
    const { ok } = await verify(folder, { against: 'origin' });
    expect(ok).toBe(true);
  });

  it('lists a link that led to the blob of another file', async () => {
    const folder = await copyOf('hf://org/sharded', 'cache');
    const [config, tokenizer] = ['config.json', 'tokenizer.json'].map((name) => join(folder, name));
    rmSync(config as string);
    symlinkSync(readlinkSync(tokenizer as string), config as string);
    const { repaired } = await download('hf://org/sharded', 'cache', repair);
    expect(repaired).toEqual([{ name: 'config.json', reason: 'length' }]);
    expect((await verify(folder, { against: 'origin' })).ok).toBe(true);
  });

  it('of a branch that has moved restores the snapshot that is there', async () => {
    const files = { [WEIGHTS]: digested[WEIGHTS] as Uint8Array, 'config.json': '{"one":1}' };
    hub.put('org/moving', { files });
    const folder = await copyOf('hf://org/moving', 'cache');
    const before = hub.commit('org/moving');
    hub.put('org/moving', { files: { ...files, 'config.json': '{"two":2}' } });
    const commits: string[] = [];
    const asks: typeof fetch = async (input, init) => {
      commits.push(/\/tree\/([0-9a-f]{40})/.exec(String(input))?.[1] ?? '');
      return await fetch(input, init);
    };
    // The server knows no commits of the past: it is enough that this one is requested.
    const lost = download('hf://org/moving', 'cache', { ...repair, fetch: asks });
    await expect(lost).rejects.toMatchObject({ code: 'SAFETENSORS_REVISION_NOT_FOUND' });
    expect(new Set(commits)).toEqual(new Set([before]));
    expect(existsSync(folder)).toBe(true);
  });
});

describe('options of repair', () => {
  it('exclude those that change files; the source is on the Hub', async () => {
    const target = temporaryPath('target');
    for (const options of [{ dtype: 'F16' }, { names: ['a'] }, { variant: 'fp16' }] as const) {
      const wrong = download('hf://org/digested', target, { ...repair, ...options });
      await expect(wrong).rejects.toMatchObject({
        ...{ code: 'ERR_OUT_OF_RANGE', message: expect.stringMatching(/whole files$/) },
      });
    }
    const url = download('https://example.test/x.safetensors', target, repair);
    await expect(url).rejects.toMatchObject({ argument: 'repair' });
  });

  it('on the command line: --dry-run lists which files differ and why', async () => {
    const folder = await copyOf('hf://org/sharded');
    flip(join(folder, FIRST), 5000);
    rmSync(join(folder, 'tokenizer.json'));
    const args = ['download', 'hf://org/sharded', folder, '--repair'];
    const plan = await call([...args, '--dry-run']);
    expect([plan.code, plan.stderr]).toEqual([0, '']);
    expect(plan.stdout).toContain(`${FIRST}: would be repaired, other bytes\n`);
    expect(plan.stdout).toContain('tokenizer.json: would be repaired, missing\n');
    const done = await call([...args, '--json']);
    expect(JSON.parse(done.stdout).repaired).toHaveLength(2);
    expect((await call(args)).stdout).toContain('nothing to repair\n');
    expect(safeOpen(folder).keys()).toEqual(['embed', 'norm']);
  });
});
