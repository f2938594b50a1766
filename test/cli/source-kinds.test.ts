/** Every reading command prints the same of a model, wherever it is. */
import { cpSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fixturePath } from '../foreign/torch/fixtures.js';
import { FileServer } from '../remote/download/file-server.js';
import { useHub } from '../support/hub-environment.js';
import { HubServer } from '../support/hub-server.js';
import {
  type CheckpointDescription,
  filesOf,
  TWO_SHARDS,
  writeCheckpoint,
} from '../support/make-checkpoint.js';
import { temporaryPath } from '../support/make-file.js';
import { root } from '../support/source-tree.js';
import { call, printed, toTarget } from './call.js';

const INDEX = 'model.safetensors.index.json';
const ID = 'org/name';

const MODEL: CheckpointDescription = {
  ...TWO_SHARDS,
  metadata: { ...TWO_SHARDS.metadata, 'modelspec.title': 'Cats', format: 'pt' },
};

/** Commands with the arguments behind the source. */
const COMMANDS: readonly (readonly [name: string, args: readonly string[]])[] = [
  ['inspect', []],
  ['inspect', ['--tree']],
  ['header', []],
  ['show', ['b.weight', '--stats', '--histogram']],
  ['show', ['a.weight', '--slice', '1, 2:4']],
  ['metadata get', []],
  ['metadata get', ['format', 'lost key']],
  ['metadata export', []],
  ['metadata modelspec show', []],
  ['metadata modelspec check', []],
  ['hash', ['--all']],
  ['verify', ['--headers-only']],
];

let folder: string;
let files: FileServer;
let hub: HubServer;

beforeEach(async () => {
  folder = writeCheckpoint(MODEL);
  files = await FileServer.start();
  for (const [name, bytes] of filesOf(MODEL)) files.files.set(name, { bytes, tag: `"${name}"` });
  hub = await HubServer.start({ [ID]: { files: Object.fromEntries(filesOf(MODEL)) } });
  useHub(hub.url);
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await files.close();
  await hub.close();
});

interface Said {
  readonly code: number;
  /** Without the fields that depend on the place. */
  readonly result: unknown;
}

/** A command's JSON output for a source. */
async function said(command: string, source: string, args: readonly string[]): Promise<Said> {
  const { code, stdout, stderr } = await call([...command.split(' '), source, ...args, '--json']);
  expect(stderr).toBe('');
  const { source: given, path: _, ...result } = JSON.parse(stdout);
  if (given !== undefined) expect(given).toBe(source);
  // The Hub's cache declares hashes by the names of its files.
  for (const file of command === 'hash' ? result.files : []) {
    for (const { ok } of file.declaredHashes) expect(ok).toBe(true);
    file.declaredHashes = [];
  }
  return { code, result };
}

/** Where a model can be, and how it gets there. */
const PLACES: Readonly<Record<string, () => Promise<string>>> = {
  'an index': async () => join(folder, INDEX),
  'a file: URL': async () => pathToFileURL(join(folder, INDEX)).href,
  'a URL': async () => files.url(INDEX),
  'hf:// and an id': async () => `hf://${ID}`,
  'hf:// with commit and path': async () => `hf://${ID}@${hub.commit(ID)}/${INDEX}`,
  'a page of the Hub': async () => `${hub.url}/${ID}/blob/main/${INDEX}`,
  'an id in the cache of the Hub': async () => {
    await printed(['download', `hf://${ID}`, 'cache']);
    hub.requests.length = 0;
    return ID;
  },
  'hf:// offline': async () => {
    await printed(['download', `hf://${ID}`, 'cache']);
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    hub.requests.length = 0;
    return `hf://${ID}`;
  },
};

/** Nothing may be asked for these. */
const IN_CACHE = ['an id in the cache of the Hub', 'hf:// offline'];

describe.each(Object.entries(PLACES))('%s', (place, sourceOf) => {
  it('is what its folder is, for every command that reads', async () => {
    const source = await sourceOf();
    for (const [command, args] of COMMANDS) {
      const expected = await said(command, folder, args);
      expect(await said(command, source, args), `${command} ${args}`).toEqual(expected);
    }
    const compared = await call(['diff', source, folder, '--values']);
    expect(compared).toEqual({ code: 0, stdout: 'no difference; 4 tensors\n', stderr: '' });
    if (IN_CACHE.includes(place)) expect(hub.requests).toEqual([]);
  });
});

describe('what is in the cache of the Hub', () => {
  it('can be split, joined and converted, and its hashes are compared', async () => {
    await printed(['download', `hf://${ID}`, 'cache']);
    for (const command of ['split', 'join', 'convert']) {
      const target = temporaryPath(command);
      await printed([command, ID, ...toTarget(command, target)]);
      expect((await call(['diff', ID, target])).code).toBe(0);
    }
    const [{ declaredHashes }] = JSON.parse(await printed(['hash', ID, '--json'])).files;
    expect(declaredHashes).toMatchObject([{ by: 'Hub cache', ok: true }]);
    expect(await printed(['verify', ID])).toBe(
      'no problems; checked: headers, index, digests (2 of 2 files)\n',
    );
  });

  it('and what is not', async () => {
    const { code, stderr } = await call(['inspect', 'org/other']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^safetensors-mmap: ENOENT: .*\n$/);
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    const offline = await call(['inspect', 'hf://org/other']);
    expect(offline.code).toBe(1);
    expect(offline.stderr).toMatch(/^safetensors-mmap: SAFETENSORS_NOT_IN_CACHE: .*\n$/);
  });

  it('is not what can be changed', async () => {
    const { code, stderr } = await call(['metadata', 'set', `hf://${ID}`, 'a=b']);
    expect(code).toBe(2);
    expect(stderr).toContain('a local file');
  });
});

describe('a GGUF file', () => {
  const path = join(root, 'test/fixtures/gguf/q4_0/model.gguf');
  const target = (): string => temporaryPath('out.safetensors');

  it('is listed, shown, verified and compared', async () => {
    const listed = JSON.parse(await printed(['inspect', path, '--json']));
    expect(listed).toMatchObject({
      format: 'gguf',
      metadata: { 'general.architecture': 'llama' },
      logical: { quantized: [{ scheme: 'gguf-q4_0', bits: 4, block: [1, 32], weights: 2 }] },
    });
    expect(await printed(['inspect', path])).toContain('2 of 3 weights Q4_0 in groups of 32');
    expect(await printed(['show', path, 'random.weight', '--slice', '0, :2'])).toContain(
      '[0.         0.06170654]',
    );
    expect(await printed(['show', path, 'random.weight', '--raw'])).toContain('U8');
    expect(await printed(['diff', path, path])).toBe('no difference; 3 tensors\n');
    expect(await printed(['verify', path])).toContain('checked: headers');
    expect(await printed(['metadata', 'get', path])).toContain('general.architecture');
  });

  it('has no JSON header', async () => {
    expect((await call(['header', path])).stderr).toContain('found a GGUF file without a JSON');
  });

  it('names the flag for names of Transformers', async () => {
    const torch = fixturePath('zip-numpy.pt');
    const { code, stderr } = await call(['convert', torch, target(), '--names', 'hf']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--names must be left out for')]);
  });

  it('converts with --dequantize only', async () => {
    const { code, stderr } = await call(['convert', path, target()]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('cannot hold blocks of gguf-q4_0')]);
    const written = target();
    await printed(['convert', path, written, '--dequantize', 'bf16']);
    expect(await printed(['show', written, 'random.weight', '--slice', '0, :2'])).toContain('BF16');
  });
});

describe('torch and NumPy are known by their first bytes, as `convert` knows them', () => {
  const torch = fixturePath('zip-state-dict.pt');
  const arrays = fixturePath('np-savez.npz');
  it.each([
    ['arrays.zip', arrays, 'numpy', false],
    ['plain.npz', torch, 'torch', false],
    ['pytorch_model.bin', torch, 'torch', true],
  ])('%s', async (name, from, format, isByFolder) => {
    const path = temporaryPath(name);
    cpSync(from, path);
    const source = isByFolder ? dirname(path) : path;
    expect(JSON.parse(await printed(['inspect', source, '--json']))).toMatchObject({
      format,
      path,
    });
    expect(await printed(['verify', source])).toBe('no problems; checked: headers, checksums\n');
    await printed(['convert', source, temporaryPath('target.safetensors'), '--dry-run']);
  });
});

describe('a private repository', () => {
  it('is read with the token of the machine, else the error says so', async () => {
    hub.put('org/private', {
      files: Object.fromEntries(filesOf(MODEL)),
      access: 'private',
    });
    const { code, stderr } = await call(['hash', 'hf://org/private']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^safetensors-mmap: SAFETENSORS_\w+: .*\n$/);
    vi.stubEnv('HF_TOKEN', 'hf_reader');
    expect(await said('hash', 'hf://org/private', [])).toEqual(await said('hash', folder, []));
  });
});
