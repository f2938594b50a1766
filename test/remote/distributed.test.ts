/** Distributed checkpoints on a server, on the Hub and as Blobs: the tensors of the folder, fetched by ranges. */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type ListedTensor, writeDistcp } from '../foreign/distributed/distcp-files.js';
import {
  bytesOfBox,
  randomWhole,
  rankFile,
  type SavedPiece,
  writeRanks,
} from '../foreign/distributed/generated.js';
import {
  type Checkpoint,
  convert,
  loadFile,
  open,
  openRemote,
  type RemoteCheckpoint,
  type SliceIndex,
} from '../support/api.js';
import { FileServer } from '../support/file-server.js';
import { HubServer } from '../support/hub-server.js';
import { temporaryPath } from '../support/make-file.js';
import { Random } from '../support/random.js';
import { root } from '../support/source-tree.js';

type Files = Readonly<Record<string, Uint8Array<ArrayBuffer>>>;

const fixtures = join(root, 'test/fixtures/dcp');
const manifestOf = (id: string): { readonly expect?: string } =>
  JSON.parse(readFileSync(join(fixtures, id, 'manifest.json'), 'utf8'));
const ids = readdirSync(fixtures).filter((id) => manifestOf(id).expect !== 'refuse');

let server: FileServer | undefined;
let hub: HubServer | undefined;

afterEach(async () => {
  vi.unstubAllEnvs();
  await server?.close();
  await hub?.close();
  [server, hub] = [undefined, undefined];
});

/** The files of a folder under new paths. */
function filesIn(folder: string, prefix: string): Files {
  return Object.fromEntries(
    readdirSync(folder).map((name) => [
      prefix + name,
      Uint8Array.from(readFileSync(join(folder, name))),
    ]),
  );
}

async function serve(folder: string): Promise<FileServer> {
  server = await FileServer.start(filesIn(folder, '/ckpt/'));
  return server;
}

async function openHub(folder: string, path = ''): Promise<RemoteCheckpoint> {
  const prefix = path === '' ? '' : `${path}/`;
  hub = await HubServer.start({ 'org/model': { files: filesIn(folder, prefix) } });
  vi.stubEnv('HF_ENDPOINT', hub.url);
  return await open(`hf://org/model${path === '' ? '' : `/${path}`}`);
}

function openBlobs(folder: string): Promise<RemoteCheckpoint> {
  const files = Object.entries(filesIn(folder, 'ckpt/'));
  return open(new Map(files.map(([name, bytes]) => [name, new Blob([bytes])])));
}

const openLocal = (folder: string): Promise<Checkpoint> => open(folder, { remote: false });

/** An index of random ranges, steps, single positions and whole dimensions. */
function randomIndex(shape: readonly number[], random: Random): SliceIndex[] {
  return shape.map((size): SliceIndex => {
    const kind = random.below(4);
    if (kind === 0 || size === 0) return null;
    if (kind === 1) return random.below(size);
    const [a, b] = [random.below(size + 1), random.below(size + 1)];
    const step = random.from(1, 3);
    return kind === 2
      ? [Math.min(a, b), Math.max(a, b), step]
      : [size - 1 - random.below(size), null, -step];
  });
}

/** Compares tensors and random slices. */
async function expectSame(remote: RemoteCheckpoint, folder: string, seed: number): Promise<void> {
  const random = new Random(59, seed);
  const local = await openLocal(folder);
  expect([remote.format, remote.local]).toEqual(['dcp', false]);
  expect(remote.keys()).toEqual(local.keys());
  expect(await remote.extra()).toEqual(await local.extra());
  expect(remote.metadata).toEqual(local.metadata);
  const all = await remote.readTensors();
  for (const [name, tensor] of local) {
    const [fetched, whole] = [await remote.getTensor(name), all.get(name)];
    expect([name, fetched.dtype, fetched.shape]).toEqual([name, tensor.dtype, tensor.shape]);
    expect([fetched.bytes, whole?.bytes]).toEqual([tensor.bytes, tensor.bytes]);
    const index = randomIndex(tensor.shape, random);
    const [part, expected] = [await remote.getSlice(name, ...index), tensor.slice(...index)];
    expect([name, index, part.shape]).toEqual([name, index, expected.shape]);
    expect(part.bytes, `${seed} ${name} ${JSON.stringify(index)}`).toEqual(expected.copy().bytes);
  }
  remote.close();
  local.close();
}

describe.each(ids)('%s', (id) => {
  const folder = join(fixtures, id, 'ckpt');
  const isListed = readdirSync(folder).includes('.metadata');
  const isModel = readdirSync(folder).includes('model.safetensors.index.json');

  it.skipIf(!isListed)('is opened by the address of its list and of its folder', async () => {
    const files = await serve(folder);
    await expectSame(await openRemote(files.at('/ckpt/.metadata')), folder, 1);
    await expectSame(await openRemote(files.at('/ckpt/')), folder, 2);
  });

  it.skipIf(isModel)('is opened on the Hub', async () => {
    await expectSame(await openHub(folder), folder, 3);
  });

  it.skipIf(isModel)('is opened in a folder on the Hub', async () => {
    await expectSame(await openHub(folder, 'checkpoints/step-10'), folder, 4);
  });

  it.skipIf(isModel)('is opened as Blobs', async () => {
    await expectSame(await openBlobs(folder), folder, 5);
  });

  it.skipIf(isModel)('is converted', async () => {
    hub = await HubServer.start({ 'org/model': { files: filesIn(folder, '') } });
    vi.stubEnv('HF_ENDPOINT', hub.url);
    const target = temporaryPath('converted.safetensors');
    await convert('hf://org/model', target, { durable: false });
    const expected = loadFile(join(fixtures, id, 'expected.safetensors'));
    const found = loadFile(target);
    expect([...found.keys()].sort()).toEqual([...expected.keys()].sort());
    for (const [name, { bytes }] of expected) expect(found.get(name)?.bytes).toEqual(bytes);
  });
});

it('random boxes of ranks are assembled, whole and in slices', async () => {
  for (let number = 0; number < 60; number++) {
    const random = new Random(60, number);
    const wholes = Array.from({ length: random.from(1, 4) }, (_, i) =>
      randomWhole(`t${i}`, random),
    );
    const ranks = Math.max(...wholes.map(({ boxes }) => boxes.length), random.from(1, 4));
    const pieces = wholes.flatMap((whole) => {
      const first = random.below(ranks);
      const { name, dtype } = whole;
      return whole.boxes.map((box, i): SavedPiece => {
        return { rank: (first + i) % ranks, name, dtype, box, bytes: bytesOfBox(whole, box) };
      });
    });
    const folder = writeRanks(ranks, pieces);
    await expectSame(await openBlobs(folder), folder, number);
    rmSync(folder, { recursive: true });
  }
});

/** A `fetch` of files by their paths. */
function answering(
  files: Files,
  etagOf: (path: string) => string,
  { hasRanges = true } = {},
): typeof globalThis.fetch {
  return async (input, init) => {
    const { pathname } = new URL(String(input));
    const file = files[pathname];
    if (file === undefined) return new Response('', { status: 404 });
    const range = new Headers(init?.headers).get('range') ?? '';
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    const headers: Record<string, string> = { ETag: etagOf(pathname) };
    if (first === undefined || !hasRanges) return new Response(file, { headers });
    const bytes = file.slice(Number(first), Number(last) + 1);
    const end = Number(first) + bytes.length - 1;
    headers['Content-Range'] = `bytes ${first}-${end}/${file.length}`;
    return new Response(bytes, { status: 206, headers });
  };
}

/** Bytes of a tensor of rows in two pieces. */
function twoPieces(rows: number, columns: number): ListedTensor {
  const pieces = [0, 1].map((rank) => ({
    offsets: [(rank * rows) / 2, 0],
    shape: [rows / 2, columns],
    file: `__${rank}_0.distcp`,
    bytes: Uint8Array.from({ length: (rows / 2) * columns }, (_, i) => (i * 7 + rank) & 255),
  }));
  return { name: 'w', shape: [rows, columns], pieces };
}

it('a slice takes only its bytes, and opening only descriptions', async () => {
  const folder = writeDistcp([twoPieces(1024, 1024)]);
  const files = await serve(folder);
  const lengths = (): number[] =>
    files.requests.map((request) => {
      const [, first, last] = /bytes=(\d+)-(\d+)$/.exec(request) ?? [];
      return Number(last) - Number(first) + 1;
    });
  const remote = await open(files.at('/ckpt/.metadata'));
  const [list, ...others] = lengths();
  expect(list).toBe(100_000);
  expect(others.length).toBeLessThanOrEqual(6);
  expect(others.reduce((sum, length) => sum + length, 0)).toBeLessThan(2 * 120_000);
  files.requests.length = 0;
  const local = await openLocal(folder);
  const part = await remote.getSlice('w', [510, 514], [0, 1024]);
  expect(part.bytes).toEqual(local.getSlice('w', '510:514').bytes);
  expect(lengths()).toEqual([2048, 2048]);
  files.requests.length = 0;
  const progress: number[] = [];
  await remote.getTensor('w', {
    onProgress: ({ bytes, totalBytes }) => progress.push(bytes, totalBytes),
  });
  expect(progress.slice(-2)).toEqual([2 ** 20, 2 ** 20]);
  remote.close();
  await expect(remote.getTensor('w')).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
});

it('many pieces of a file share requests', async () => {
  const tensors = Array.from({ length: 300 }, (_, i): ListedTensor => {
    const bytes = Uint8Array.from({ length: 20_000 }, (__, at) => (at + i) & 255);
    const piece = { offsets: [0], shape: [20_000], file: '__0_0.distcp', bytes };
    return { name: `t${i}`, shape: [20_000], pieces: [piece] };
  });
  const files = await serve(writeDistcp(tensors));
  const remote = await open(files.at('/ckpt/.metadata'));
  expect(files.requests.length).toBeLessThan(10);
  const found = await remote.readTensors(['t7', 't8']);
  expect(found.get('t8')?.bytes).toEqual(tensors[8]?.pieces[0]?.bytes);
  remote.close();
});

it('a strided piece is a problem of its tensor, but not in a folder', async () => {
  const bytes = Uint8Array.of(1, 2, 3, 4, 5, 6);
  const piece = { offsets: [0, 0], shape: [2, 3], file: '__0_0.distcp', bytes, strides: [1, 2] };
  const folder = writeDistcp([twoPieces(4, 4), { name: 't', shape: [2, 3], pieces: [piece] }]);
  const remote = await openBlobs(folder);
  expect(remote.keys()).toEqual(['w']);
  expect(remote.problems).toMatchObject([
    { code: 'SAFETENSORS_UNSUPPORTED_TENSOR', tensor: 't', path: 'ckpt/__0_0.distcp' },
  ]);
  expect((await openLocal(folder)).getTensor('t').copy().bytes).toEqual(
    Uint8Array.of(1, 3, 5, 2, 4, 6),
  );
  remote.close();
});

it('an option for headers is rejected for pieces without them', async () => {
  const files = await serve(writeDistcp([twoPieces(4, 4)]));
  const opening = open(files.at('/ckpt/.metadata'), { maxHeaderByteLength: 1000 });
  await expect(opening).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
});

it('pieces at the same place are compared when they are read', async () => {
  const piece = (rank: number, bytes: readonly number[]): SavedPiece => ({
    rank,
    name: 'w',
    dtype: 'U8',
    box: { offsets: [0], shape: [4] },
    bytes: Uint8Array.from(bytes),
  });
  const folder = writeRanks(2, [piece(0, [1, 2, 3, 4]), piece(1, [1, 2, 3, 4])]);
  const same = await openBlobs(folder);
  expect((await same.getTensor('w')).bytes).toEqual(Uint8Array.of(1, 2, 3, 4));
  rmSync(folder, { recursive: true });
  const other = await openBlobs(writeRanks(2, [piece(0, [1, 2, 3, 4]), piece(1, [1, 2, 3, 5])]));
  expect((await other.getSlice('w', [0, 3])).bytes).toEqual(Uint8Array.of(1, 2, 3));
  await expect(other.getTensor('w')).rejects.toMatchObject({
    code: 'SAFETENSORS_INVALID_DISTRIBUTED',
    tensor: 'w',
    message: expect.stringContaining(`"${rankFile(0)}" and "${rankFile(1)}" differ`),
  });
});

describe('damage is an error', () => {
  it('a missing file', async () => {
    const folder = writeDistcp([twoPieces(4, 4)]);
    const { '/ckpt/__1_0.distcp': _, ...files } = filesIn(folder, '/ckpt/');
    server = await FileServer.start(files);
    await expect(open(server.at('/ckpt/.metadata'))).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
      path: server.at('/ckpt/__1_0.distcp'),
    });
  });

  it('a missing rank', async () => {
    const folder = join(fixtures, 'bad-dcp-hf-first-rank-missing/ckpt');
    await expect(openBlobs(folder)).rejects.toMatchObject({ code: 'SAFETENSORS_MISSING_SHARDS' });
  });

  it('a missing piece', async () => {
    const { pieces, ...tensor } = twoPieces(4, 4);
    const folder = writeDistcp([{ ...tensor, pieces: pieces.slice(1) }]);
    await expect(openHub(folder)).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_DISTRIBUTED',
      message: expect.stringContaining('the elements [0:2, 0:4] of [4, 4] are missing'),
    });
  });

  it('truncated and empty files', async () => {
    const files = filesIn(writeDistcp([twoPieces(400, 40)]), 'ckpt/');
    for (const length of [0, 1, 5000, 8000]) {
      const cut = files['ckpt/__1_0.distcp']?.slice(0, length) as Uint8Array<ArrayBuffer>;
      const damaged = Object.entries({ ...files, 'ckpt/__1_0.distcp': cut });
      const opening = open(new Map(damaged.map(([path, bytes]) => [path, new Blob([bytes])])));
      await expect(opening).rejects.toMatchObject({ code: 'SAFETENSORS_INCOMPLETE_FILE' });
    }
  });

  it('random damage gives errors with codes', async () => {
    const folder = writeDistcp([twoPieces(400, 40)]);
    const files = filesIn(folder, 'ckpt/');
    const random = new Random(61, 0);
    for (let i = 0; i < 150; i++) {
      const name = random.pick(Object.keys(files));
      const bytes = Uint8Array.from(files[name] as Uint8Array);
      for (let n = 0; n < 4; n++) bytes[random.below(bytes.length)] = random.below(256);
      const damaged = Object.entries({ ...files, [name]: bytes });
      try {
        const opened = await open(
          new Map(damaged.map(([path, content]) => [path, new Blob([content])])),
        );
        await opened.readTensors();
        opened.close();
      } catch (error) {
        expect((error as { code?: string }).code).toMatch(/^SAFETENSORS_/);
      }
    }
  });

  it.each(['__0_0.distcp', '__1_0.distcp'])('%s changes after opening', async (name) => {
    const etags: Record<string, string> = {};
    const files = filesIn(writeDistcp([twoPieces(1000, 1000)]), '/ckpt/');
    const answer = answering(files, (path) => etags[path] ?? '"1"');
    const remote = await open('https://models.example/ckpt/.metadata', { fetch: answer });
    expect((await remote.getSlice('w', [499, 501])).shape).toEqual([2, 1000]);
    etags[`/ckpt/${name}`] = '"2"';
    const row = name === '__0_0.distcp' ? 3 : 800;
    await expect(remote.getSlice('w', row)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: `https://models.example/ckpt/${name}`,
    });
    remote.close();
  });

  it('a server without ranges', async () => {
    const files = filesIn(writeDistcp([twoPieces(1000, 1000)]), '/ckpt/');
    const answer = answering(files, () => '"1"', { hasRanges: false });
    const opening = open('https://models.example/ckpt/.metadata', { fetch: answer });
    await expect(opening).rejects.toMatchObject({ code: 'SAFETENSORS_RANGES_UNSUPPORTED' });
  });

  it('a folder without a list is the error of the address', async () => {
    server = await FileServer.start({});
    await expect(open(server.at('/ckpt/'))).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
    });
  });

  it('formats that leave it out', async () => {
    const files = await serve(writeDistcp([twoPieces(4, 4)]));
    const opening = open(files.at('/ckpt/.metadata'), { formats: ['safetensors', 'gguf'] });
    await expect(opening).rejects.toMatchObject({ code: /^SAFETENSORS_/ });
  });
});
