/** GGUF files on a server and as Blobs: the same model as from a path, by few and bounded requests. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Encoder, ggufBytes, type MadeGguf } from '../foreign/gguf/generated-gguf.js';
import { expectSameModel } from '../foreign/gguf/same-model.js';
import { convert, dequantize, loadFile, open, openRemote } from '../support/api.js';
import { FileServer } from '../support/file-server.js';
import { HubServer } from '../support/hub-server.js';
import { temporaryPath } from '../support/make-file.js';
import { root } from '../support/source-tree.js';

const folder = join(root, 'test/fixtures/gguf');
const names = readdirSync(folder);
const bytesOf = (name: string): Uint8Array => readFileSync(join(folder, name, 'model.gguf'));

const encoder = new Encoder();
let server: FileServer | undefined;

async function serve(files: Readonly<Record<string, Uint8Array>>): Promise<FileServer> {
  server = await FileServer.start(files);
  return server;
}

afterEach(async () => {
  await server?.close();
  server = undefined;
});

/** First and last byte of each request. */
function ranges({ requests }: FileServer): number[][] {
  return requests.flatMap((request) => {
    const found = /bytes=(\d+)-(\d+)$/.exec(request);
    return found === null ? [] : [[Number(found[1]), Number(found[2])]];
  });
}

describe.each(names)('%s', (name) => {
  it.each([
    ['an address', async (address: string) => await openRemote(address)],
    [
      'a Blob',
      async (_: string, bytes: Uint8Array) =>
        await openRemote(new Blob([bytes as Uint8Array<ArrayBuffer>])),
    ],
  ] as const)('has the same tensors and metadata by %s', async (_, openIt) => {
    const files = await serve({ '/model.gguf': bytesOf(name) });
    using local = await open(join(folder, name, 'model.gguf'), { remote: false });
    const remote = await openIt(files.at('/model.gguf'), bytesOf(name));
    await expectSameModel(remote, local, dequantize);
    remote.close();
  });
});

/** A file with a vocabulary of 5 MB, and a tensor of blocks of 8 MB. */
function longHeader(): { readonly bytes: Buffer; readonly headerByteLength: number } {
  const words = Array.from({ length: 250_000 }, (_, i) => encoder.text(`word ${i}`));
  const rows = 8192;
  const data = Buffer.alloc(rows * 34 * 32);
  for (let at = 0; at < data.length; at += 34) {
    data.set([0, 0x38], at);
    data[at + 2] = (at / 34) % 100;
  }
  const made: MadeGguf = {
    keys: [['tokenizer.ggml.tokens', encoder.array(8, words.length, words)]],
    tensors: [{ name: 'q', dims: [32 * 32, rows], type: 8, offset: 0 }],
    data,
  };
  const bytes = ggufBytes(made);
  return { bytes, headerByteLength: bytes.length - data.length };
}

it('takes few requests for a long header, and only the rows that are read', async () => {
  const { bytes, headerByteLength } = longHeader();
  const files = await serve({ '/model.gguf': bytes });
  const remote = await openRemote(files.at('/model.gguf'));
  const opening = ranges(files);
  expect(opening.length).toBeLessThanOrEqual(4);
  const fetched = opening.reduce((sum, [first = 0, last = 0]) => sum + last - first + 1, 0);
  expect(fetched).toBeLessThanOrEqual(2 * headerByteLength + 2 ** 21);
  files.requests.length = 0;
  const model = await dequantize(remote);
  const row = await model.getSlice('q', 5000);
  expect(row.toFloat32()[32]).toBe(((5000 * 32 + 1) % 100) / 2);
  const [[first = 0, last = 0] = [], ...more] = ranges(files);
  expect([more.length, last - first + 1]).toEqual([0, 34 * 32]);
  expect(
    ((await remote.extra()) as Map<string, string[]>).get('tokenizer.ggml.tokens'),
  ).toHaveLength(250_000);
  remote.close();
});

it.each([
  [
    'a count of 2^60',
    { keys: [['list', encoder.array(4, 2n ** 60n)]] },
    'SAFETENSORS_INVALID_GGUF',
  ],
  ['a key count of 2^40', { keyCount: 2n ** 40n }, 'SAFETENSORS_INVALID_GGUF'],
  [
    'a truncated tensor',
    { tensors: [{ name: 'a', dims: [1000], type: 0, offset: 0 }] },
    'SAFETENSORS_INCOMPLETE_FILE',
  ],
  ['big-endian numbers', { isBigEndian: true }, 'SAFETENSORS_UNSUPPORTED_TENSOR'],
] as const)('rejects %s after one request', async (_, made, code) => {
  const files = await serve({ '/model.gguf': ggufBytes({ ...made } as MadeGguf) });
  await expect(openRemote(files.at('/model.gguf'))).rejects.toMatchObject({ code });
  expect(files.requests).toHaveLength(1);
});

it('rejects a header that is longer than the limit, without fetching it', async () => {
  const { bytes } = longHeader();
  const files = await serve({ '/model.gguf': bytes });
  const opening = openRemote(files.at('/model.gguf'), { maxHeaderByteLength: 150_000 });
  await expect(opening).rejects.toMatchObject({ code: 'SAFETENSORS_HEADER_TOO_LARGE' });
  const fetched = ranges(files).map(([, last = 0]) => last);
  expect(Math.max(...fetched)).toBeLessThan(150_000);
});

it('reads only the formats that the caller lists', async () => {
  const files = await serve({ '/model.gguf': bytesOf('q8_0') });
  const address = files.at('/model.gguf');
  const opening = openRemote(address, { formats: ['safetensors'] });
  await expect(opening).rejects.toMatchObject({ foundFormat: 'gguf' });
  const gguf = await openRemote(address, { formats: ['gguf'] });
  expect(gguf.format).toBe('gguf');
  gguf.close();
  const torch = openRemote(address, { formats: ['torch'] });
  await expect(torch).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
  const safetensors = new Blob([new Uint8Array([2, 0, 0, 0, 0, 0, 0, 0, 123, 125])]);
  const wrong = openRemote(safetensors, { formats: ['gguf'] });
  await expect(wrong).rejects.toMatchObject({
    code: 'SAFETENSORS_FOREIGN_FORMAT',
    message: expect.stringContaining('expected a GGUF file, found a file of another format'),
  });
});

describe('a split model', () => {
  const nameOf = (number: number): string => `model-0000${number}-of-00003.gguf`;
  const part = (number: number, own: readonly string[], total: number): Buffer =>
    ggufBytes({
      keys: [
        ['general.name', [8, encoder.text(`file ${number}`)]],
        ['split.no', [2, encoder.u16(number - 1)]],
        ['split.count', [2, encoder.u16(3)]],
        ['split.tensors.count', [5, encoder.u32(total)]],
      ],
      tensors: own.map((name, i) => ({ name, dims: [8], type: 0, offset: 32 * i })),
      data: Buffer.alloc(32 * own.length, number),
    });
  const files = (total = 2): Record<string, Uint8Array> => ({
    [`/a/${nameOf(1)}`]: part(1, [], total),
    [`/a/${nameOf(2)}`]: part(2, ['b'], total),
    [`/a/${nameOf(3)}`]: part(3, ['a'], total),
  });

  it.each([1, 2, 3])('opens by its file %i', async (number) => {
    const served = await serve(files());
    const remote = await openRemote(served.at(`/a/${nameOf(number)}`));
    expect(remote.keys()).toEqual(['a', 'b']);
    expect(remote.metadata?.get('general.name')).toBe('file 1');
    expect(await remote.extra()).toContainEqual(['general.name', 'file 1']);
    expect((await remote.getTensor('a')).bytes[0]).toBe(3);
    expect((await remote.getTensor('b')).bytes[0]).toBe(2);
    expect((await remote.verify()).ok).toBe(true);
    remote.close();
  });

  it('with a missing file or a wrong count is an error', async () => {
    const { [`/a/${nameOf(2)}`]: _, ...fewer } = files();
    const served = await serve(fewer);
    await expect(openRemote(served.at(`/a/${nameOf(1)}`))).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
      message: expect.stringContaining(nameOf(2)),
    });
    await served.close();
    const wrong = await serve(files(3));
    await expect(openRemote(wrong.at(`/a/${nameOf(1)}`))).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_GGUF',
    });
    const blob = new File([part(1, [], 2) as Uint8Array<ArrayBuffer>], nameOf(1));
    await expect(openRemote(blob)).rejects.toMatchObject({ code: 'SAFETENSORS_MISSING_SHARDS' });
  });
});

it('converts an address and a Blob as a path', async () => {
  const files = await serve({ '/model.gguf': bytesOf('q4_k') });
  const path = temporaryPath('model.gguf');
  writeFileSync(path, bytesOf('q4_k'));
  const blob = new Blob([bytesOf('q4_k') as Uint8Array<ArrayBuffer>]);
  const results: Uint8Array[] = [];
  for (const [i, source] of [path, files.at('/model.gguf'), blob].entries()) {
    const target = join(dirname(path), `${i}.safetensors`);
    await convert(source, target, { dequantize: 'F16' });
    results.push(readFileSync(target));
    expect(loadFile(target).get('random.weight')?.dtype).toBe('F16');
    const stored = convert(source, join(dirname(path), 'stored.safetensors'));
    await expect(stored).rejects.toMatchObject({ code: 'SAFETENSORS_QUANTIZATION_UNSUPPORTED' });
  }
  expect(Buffer.compare(results[0] as Uint8Array, results[1] as Uint8Array)).toBe(0);
  expect(Buffer.compare(results[0] as Uint8Array, results[2] as Uint8Array)).toBe(0);
});

describe('on the Hub', () => {
  let hub: HubServer;
  beforeEach(async () => {
    hub = await HubServer.start({ 'org/name': { files: { 'q8_0.gguf': bytesOf('q8_0') } } });
    vi.stubEnv('HF_ENDPOINT', hub.url);
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await hub.close();
  });

  it('opens a file of a repository', async () => {
    const remote = await open('hf://org/name/q8_0.gguf');
    expect([remote.format, remote.size]).toEqual(['gguf', 3]);
    remote.close();
  });
});
