/** `sibling`: small files next to the weights, through every kind of handle. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { unicode } from '../foreign/pickle/pickle-bytes.js';
import { storedArchive } from '../foreign/stored-archive.js';
import { dict, legacyFile, tensor } from '../foreign/torch/legacy-file.js';
import {
  type Checkpoint,
  open,
  openPipeline,
  openRemote,
  parse,
  type RemoteCheckpoint,
  type SiblingFile,
  safeOpen,
} from '../support/api.js';
import { FileServer } from '../support/file-server.js';
import { useHub } from '../support/hub-environment.js';
import { HubServer } from '../support/hub-server.js';
import { filesOf, TWO_SHARDS, writeBelow } from '../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';
import { MODEL_INDEX } from '../support/model-index.js';

const INDEX = 'model.safetensors.index.json';
const CONFIG = '{"model_type":"example"}';
const CHAT = 'Hello {{ name }}';
const LONG = 'vocab.json';
const TOKENIZER = 'tokenizer.json';

const files = new Map([
  ...filesOf(TWO_SHARDS),
  ...Object.entries({
    'config.json': CONFIG,
    'chat/template.jinja': CHAT,
    [LONG]: ' '.repeat(10_000_001),
    [TOKENIZER]: `{}${' '.repeat(10_000_000)}`,
  }).map(([name, text]) => [name, new TextEncoder().encode(text)] as const),
]);
const folder = mkdtempSync(join(tmpdir(), 'safetensors-'));

let server: FileServer;
let hub: HubServer;

beforeAll(async () => {
  for (const [name, bytes] of files) writeBelow(folder, name, bytes);
  const entries = Array.from(files, ([name, bytes]) => [`/models/${name}`, bytes]);
  server = await FileServer.start(Object.fromEntries(entries));
  hub = await HubServer.start({ 'org/model': { files: Object.fromEntries(files) } });
});

afterAll(async () => {
  vi.unstubAllEnvs();
  await server.close();
  await hub.close();
  rmSync(folder, { recursive: true });
});

/** The same model in every place that has siblings. */
const PLACES: Readonly<Record<string, () => Promise<Checkpoint | RemoteCheckpoint>>> = {
  'a folder': async () => safeOpen(folder),
  'the file URL of an index': () => open(pathToFileURL(join(folder, INDEX))),
  'an index on a server': () => open(server.at(`/models/${INDEX}`) as 'http://'),
  'a repository on the Hub': () => {
    useHub(hub.url);
    return open('hf://org/model');
  },
  'a Map of Blobs': () => {
    const blobs = Array.from(files, ([name, bytes]) => {
      return [name, new Blob([new Uint8Array(bytes)])] as const;
    });
    return openRemote(new Map(blobs));
  },
};

function textOf(file: SiblingFile | undefined): string | undefined {
  return file && new TextDecoder().decode(file.bytes);
}

describe.each(Object.entries(PLACES))('next to the weights of %s', (_, openPlace) => {
  test('files are read, also from folders below', async () => {
    using checkpoint = await openPlace();
    const config = await checkpoint.sibling('config.json');
    expect([textOf(config), config?.byteLength]).toEqual([CONFIG, CONFIG.length]);
    expect(config?.path).toMatch(/config\.json$/);
    expect(Object.isFrozen(config)).toBe(true);
    expect(textOf(await checkpoint.sibling('./chat/./template.jinja'))).toBe(CHAT);
    expect(await checkpoint.sibling('generation_config.json')).toBeUndefined();
    expect(await checkpoint.sibling('none/config.json')).toBeUndefined();
  });

  test('the first 10 MB of a longer file are read', async () => {
    using checkpoint = await openPlace();
    const file = await checkpoint.sibling(LONG);
    expect([file?.bytes.length, file?.byteLength]).toEqual([10_000_000, 10_000_001]);
  });

  test('all bytes of a longer tokenizer.json are read', async () => {
    using checkpoint = await openPlace();
    const file = await checkpoint.sibling(TOKENIZER);
    expect([file?.bytes.length, file?.byteLength]).toEqual([10_000_002, 10_000_002]);
    expect(textOf(file)?.trimEnd()).toBe('{}');
  });

  test('every call has bytes that the caller may change', async () => {
    using checkpoint = await openPlace();
    const first = await checkpoint.sibling('config.json');
    first?.bytes.fill(0);
    expect(textOf(await checkpoint.sibling('config.json'))).toBe(CONFIG);
  });

  test.each([
    ['../config.json', 'a ".." part'],
    ['chat/../../config.json', 'a ".." part'],
    ['/etc/passwd', 'an absolute path'],
    ['C:config.json', 'a colon'],
    ['..\\config.json', 'a backslash'],
    ['%2e%2e/config.json', 'a ".." part'],
    ['chat//template.jinja', 'an empty part'],
    ['config.json\0', 'a control character'],
    ['', 'an empty name'],
    ['.', 'an empty name'],
  ])('%j is rejected as the name of a shard is', async (name, why) => {
    using checkpoint = await openPlace();
    await expect(checkpoint.sibling(name)).rejects.toMatchObject({
      name: 'FormatError',
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
      path: checkpoint.path,
      message: expect.stringContaining(`found ${why}`),
    });
  });

  test('arguments are checked, and a signal or close() ends the call', async () => {
    using checkpoint = await openPlace();
    const wrong = { code: 'ERR_INVALID_ARG_TYPE' };
    await expect(checkpoint.sibling(7 as never)).rejects.toMatchObject(wrong);
    await expect(checkpoint.sibling('a', { signal: 1 } as never)).rejects.toMatchObject(wrong);
    await expect(checkpoint.sibling('a', { signals: 1 } as never)).rejects.toThrow('signal');
    const signal = AbortSignal.abort('why');
    await expect(checkpoint.sibling('config.json', { signal })).rejects.toBe('why');
    checkpoint.close();
    const closed = { code: 'SAFETENSORS_FILE_CLOSED' };
    await expect(checkpoint.sibling('config.json')).rejects.toMatchObject(closed);
  });
});

describe('no file is next to', () => {
  const bytes = fileBytes([{ name: 'a', dtype: 'U8', shape: [2] }]);

  test.each<[string, () => Promise<Checkpoint | RemoteCheckpoint>]>([
    ['parsed bytes', async () => parse(bytes)],
    ['a Blob', () => open(new Blob([new Uint8Array(bytes)]))],
    [
      'a reader',
      () =>
        openRemote({
          byteLength: bytes.length,
          read: async (begin: number, end: number) => bytes.subarray(begin, end),
        }),
    ],
  ])('%s', async (_, openOne) => {
    using checkpoint = await openOne();
    expect(await checkpoint.sibling('config.json')).toBeUndefined();
    await expect(checkpoint.sibling('../config.json')).rejects.toMatchObject({
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
    });
  });

  test('a descriptor', async () => {
    const handle = await openFile(writeBelow(folder, 'single/model.safetensors', bytes));
    writeBelow(folder, 'single/config.json', CONFIG);
    using checkpoint = await open(handle);
    expect(await checkpoint.sibling('config.json')).toBeUndefined();
    await handle.close();
  });
});

test('a link that leads out of the folder is rejected, one within it is followed', async () => {
  const place = temporaryPath('linked');
  mkdirSync(place);
  writeFileSync(join(place, 'model.safetensors'), fileBytes([]));
  writeFileSync(join(place, 'other.json'), CONFIG);
  symlinkSync(join(folder, 'config.json'), join(place, 'config.json'));
  symlinkSync('other.json', join(place, 'inner.json'));
  using checkpoint = safeOpen(place);
  await expect(checkpoint.sibling('config.json')).rejects.toMatchObject({
    code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
  });
  expect(textOf(await checkpoint.sibling('inner.json'))).toBe(CONFIG);
});

test('the first 64 MiB of a longer tokenizer.json are read, also in a folder below', async () => {
  const place = temporaryPath('tokenizers');
  writeBelow(place, 'model.safetensors', fileBytes([]));
  for (const name of ['tokenizer.json', 'tokenizer/tokenizer.json']) {
    truncateSync(writeBelow(place, name, new Uint8Array(1)), 2 ** 26 + 1);
    using checkpoint = safeOpen(place);
    const file = await checkpoint.sibling(name);
    expect([file?.bytes.length, file?.byteLength]).toEqual([2 ** 26, 2 ** 26 + 1]);
  }
});

test('a torch checkpoint has the siblings of its folder', async () => {
  const path = legacyFile(dict([unicode('w'), tensor('0', [2], [1])]), { 0: 2 });
  writeFileSync(join(dirname(path), 'params.json'), CONFIG);
  using checkpoint = await open(path);
  expect(textOf(await (checkpoint as Checkpoint).sibling('params.json'))).toBe(CONFIG);
});

test('a model of an archive has the files of its own folder in the archive', async () => {
  const path = temporaryPath('pipeline.dduf');
  const model = fileBytes([{ name: 'a', dtype: 'U8', shape: [2] }]);
  const entries = {
    'model_index.json': MODEL_INDEX,
    'scheduler/scheduler_config.json': '{}',
    'text_encoder/config.json': '{}',
    'text_encoder/model.safetensors': model,
    'unet/config.json': CONFIG,
    'unet/tokenizer.json': `{}${' '.repeat(10_000_000)}`,
    'unet/diffusion_pytorch_model.safetensors': model,
  };
  writeFileSync(path, storedArchive(entries));
  const pipeline = await openPipeline(path);
  const unet = pipeline.models.get('unet') as Checkpoint;
  expect(textOf(await unet.sibling('config.json'))).toBe(CONFIG);
  expect((await unet.sibling('tokenizer.json'))?.bytes.length).toBe(10_000_002);
  expect(await unet.sibling('model_index.json')).toBeUndefined();
  pipeline.close();
});

test('answers that are neither the file nor its absence are errors', async () => {
  const bytes = fileBytes([{ name: 'w', dtype: 'U8', shape: [1] }]);
  const answers: Record<string, () => Response> = {
    'config.json': () =>
      new Response('', { status: 302, headers: { Location: 'ftp://h.example/c' } }),
    'absent.json': () => new Response('no', { status: 404 }),
    'refused.json': () => new Response('no', { status: 403 }),
  };
  const ownFetch: typeof fetch = async (input, init) => {
    const name = new URL(String(input)).pathname.slice(1);
    const answer = answers[name];
    if (answer !== undefined) return answer();
    const [, begin = '0', end = ''] =
      /(\d+)-(\d*)/.exec(new Headers(init?.headers).get('range') ?? '') ?? [];
    const part = bytes.subarray(Number(begin), end === '' ? undefined : Number(end) + 1);
    const range = `bytes ${begin}-${Number(begin) + part.length - 1}/${bytes.length}`;
    return new Response(new Uint8Array(part), {
      status: 206,
      headers: { 'Content-Range': range, ETag: '"1"' },
    });
  };
  const remote = await open('https://models.example/m.safetensors', { fetch: ownFetch });
  await expect(remote.sibling('config.json')).rejects.toMatchObject({
    code: 'SAFETENSORS_UNSAFE_URL',
  });
  expect(await remote.sibling('absent.json')).toBeUndefined();
  expect(await remote.sibling('refused.json')).toBeUndefined();
  remote.close();
});
