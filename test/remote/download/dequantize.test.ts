/** Quantized weights that become plain ones while they arrive. */

import { cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { convert, editMetadata, loadFile, safeOpen } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { root } from '../../support/source-tree.js';
import * as downloads from './downloads.js';
import { breakingFetch, downloadFrom, emptyFolder, noise, useHub } from './downloads.js';
import { FileServer } from './file-server.js';

/** Scales of activations, which are not read. */
const DROPPED = /\.(input|output|k|v)_scale$/;

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const fixtures = join(root, 'test/fixtures/quantized');
const ids = readdirSync(fixtures).filter(
  (id) =>
    existsSync(join(fixtures, id, 'model.safetensors')) ||
    existsSync(join(fixtures, id, 'model.safetensors.index.json')),
);
const exact = ids.filter((id) => !id.startsWith('bad-'));

function filesOf(folder: string): Record<string, Uint8Array> {
  const names = readdirSync(folder).filter((name) => !/expected|reference/.test(name));
  return Object.fromEntries(
    names.map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))]),
  );
}

/** Longer than a window of codes, with rows that end anywhere in a piece. */
const [ROWS, COLUMNS] = [6_001, 3_001];
const block = (name: string): Parameters<typeof fileBytes>[0] => [
  {
    name: `${name}.weight`,
    dtype: 'F8_E5M2',
    shape: [ROWS, COLUMNS],
    bytes: noise(ROWS * COLUMNS),
  },
  {
    name: `${name}.weight_scale_inv`,
    dtype: 'F32',
    shape: [47, 24],
    bytes: new Uint8Array(Float32Array.from({ length: 47 * 24 }, (_, i) => 1 + i / 8).buffer),
  },
];
const norm = {
  name: 'norm.weight',
  dtype: 'F32',
  shape: [500_000],
  bytes: noise(2_000_000),
} as const;
const LARGE = {
  'model.safetensors': fileBytes([...block('a'), norm]),
  'config.json': JSON.stringify({
    torch_dtype: 'bfloat16',
    quantization_config: { quant_method: 'fp8', weight_block_size: [128, 128] },
  }),
  'quantize_config.json': '{}',
  'tokenizer.json': '{}',
};

const hub = useHub({
  'org/large': { files: LARGE },
  ...Object.fromEntries(ids.map((id) => [`org/${id}`, { files: filesOf(join(fixtures, id)) }])),
});

let folder = '';
let expected = '';
beforeEach(() => {
  folder = emptyFolder('target');
  expected = temporaryPath('expected');
});

/** Without what says which version was downloaded. */
function namesIn(path: string): string[] {
  return downloads.namesIn(path).filter((name) => !name.startsWith('.'));
}

function expectSameFolders(): void {
  expect(namesIn(folder)).toEqual(namesIn(expected));
  for (const name of namesIn(expected)) {
    const [actual, wanted] = [folder, expected].map((path) => readFileSync(join(path, name)));
    expect([name, wanted?.equals(actual as Buffer)]).toEqual([name, true]);
  }
}

it.each(exact)('%s: the files that convert writes', async (id) => {
  const options = { dequantize: 'BF16', maxShardSize: 20_000 } as const;
  const local = { ...options, copyOtherFiles: true, durable: false };
  const resharded = await convert(join(fixtures, id), expected, local);
  const { dequantized, cast, notCast, excluded } = await downloadFrom(
    hub(),
    `hf://org/${id}`,
    folder,
    options,
  );
  expect([dequantized, cast, notCast, excluded]).toEqual([resharded.dequantized, [], [], []]);
  expectSameFolders();
});

describe('weights of several windows', () => {
  const local = async (options: object): Promise<void> => {
    const source = emptyFolder('source');
    for (const [name, bytes] of Object.entries(LARGE)) writeFileSync(join(source, name), bytes);
    await convert(source, expected, { ...options, copyOtherFiles: true, durable: false });
  };

  it('are those of convert, counted, and recognised when they are there', async () => {
    const options = { dequantize: 'F16' } as const;
    await local(options);
    const source = 'hf://org/large';
    const plan = await downloadFrom(hub(), source, folder, { ...options, dryRun: true } as never);
    expect(namesIn(folder)).toEqual([]);
    expect(plan.files.map(({ name }) => name)).toEqual([
      'model.safetensors',
      'tokenizer.json',
      'config.json',
    ]);
    writeFileSync(join(folder, 'quant_config.json'), '{}');
    const done = await downloadFrom(hub(), source, folder, options);
    expectSameFolders();
    expect(done.deleted).toEqual(['quant_config.json']);
    expect(done.overflowed.get('a.weight')).toBeGreaterThan(1000);
    const again = await downloadFrom(hub(), source, folder, options);
    expect(again.downloadedBytes).toBe(0);
    const other = await downloadFrom(hub(), source, folder, { dequantize: 'BF16' });
    expect(other.downloadedBytes).toBeGreaterThan(2 * ROWS * COLUMNS);
    expect(JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))).toEqual({
      torch_dtype: 'bfloat16',
    });
  });

  it('leave the old folder when the line breaks', async () => {
    writeFileSync(join(folder, 'model.safetensors'), 'old');
    writeFileSync(join(folder, 'config.json'), 'old');
    const cut = { dequantize: 'F32', fetch: breakingFetch(12_000_000), overwrite: true } as const;
    await expect(downloadFrom(hub(), 'hf://org/large', folder, cut)).rejects.toThrow(
      'the line is cut',
    );
    for (const name of ['model.safetensors', 'config.json']) {
      expect(readFileSync(join(folder, name), 'utf8')).toBe('old');
    }
  });

  it('may be chosen, and go to one path', async () => {
    const path = join(folder, 'one.safetensors');
    const options = {
      dequantize: 'F32',
      names: ['a.weight'],
      rename: { 'a.weight': 'w' },
    } as const;
    await local(options);
    const source = 'hf://org/large/model.safetensors';
    const plan = await downloadFrom(hub(), source, path, { ...options, dryRun: true } as never);
    const done = await downloadFrom(hub(), source, path, options);
    const { size } = statSync(path);
    for (const { files, byteLength } of [plan, done]) {
      expect(files.map((file) => [file.path, file.byteLength])).toEqual([[path, size]]);
      expect(byteLength).toBe(size);
    }
    expect(done.downloadedBytes).toBe(size);
    expect(readFileSync(path).equals(readFileSync(join(expected, 'model.safetensors')))).toBe(true);
    expect(namesIn(folder)).toEqual(['one.safetensors']);
    await downloadFrom(hub(), 'hf://org/large', folder, options);
    expect(namesIn(folder)).toEqual(['config.json', 'model.safetensors', 'one.safetensors']);
  });
});

it.each(['bad-missing-scale', 'bad-block-size-zero', 'bad-nan-scale'])(
  '%s is refused',
  async (id) => {
    const failed = downloadFrom(hub(), `hf://org/${id}`, folder, { dequantize: 'BF16' });
    await expect(failed).rejects.toMatchObject({ code: 'SAFETENSORS_QUANTIZATION_INVALID' });
    expect(namesIn(folder)).toEqual([]);
  },
);

describe('from other servers', () => {
  let server: FileServer;
  beforeAll(async () => {
    server = await FileServer.start();
  });
  afterAll(() => server.close());

  const serve = (files: Readonly<Record<string, Uint8Array>>): void => {
    server.files.clear();
    for (const [name, bytes] of Object.entries(files))
      server.files.set(name, { bytes, tag: `"${name}"` });
  };

  it('comes with its config, few requests and windows of codes', async () => {
    const id = 'fp8-block-bf16-scales-other-shard';
    serve(filesOf(join(fixtures, id)));
    const before = server.requestCount;
    const source = server.url('model.safetensors.index.json');
    await downloadFrom(hub(), source, folder, { dequantize: 'BF16' });
    await convert(join(fixtures, id), expected, { dequantize: 'BF16', durable: false });
    expectSameFolders();
    expect(server.requestCount - before).toBeLessThan(30);
  });

  it('needs none where there is none', async () => {
    const { 'config.json': _, ...files } = filesOf(join(fixtures, 'fp8-block-ragged'));
    serve(files);
    const source = server.url('model.safetensors');
    await downloadFrom(hub(), source, folder, { dequantize: 'BF16', maxShardSize: '5GB' });
    expect(namesIn(folder)).toEqual(['model.safetensors']);
    expect(safeOpen(folder).size).toBe(loadFile(folder).size);
  });

  it.each(exact)('%s: damaged tensors that have a digest are rejected', async (id) => {
    const source = emptyFolder('damaged');
    cpSync(join(fixtures, id), source, { recursive: true });
    const random = new Random(SEED, exact.indexOf(id));
    const shards = downloads.namesIn(source).filter((name) => /^model.*\.safetensors$/.test(name));
    const path = join(source, random.pick(shards));
    for (const name of shards) await editMetadata(join(source, name), {}, { digests: true });
    const file = safeOpen(path, { storage: 'read' });
    const [{ dataStart } = { dataStart: Number.NaN }] = await file.headers();
    const tensor = random.pick(file.offsetKeys().filter((name) => !DROPPED.test(name)));
    const [begin, end] = file.info(tensor).dataOffsets;
    const bytes = readFileSync(path);
    const at = dataStart + random.from(begin, end - 1);
    file.close();
    bytes[at] = (bytes[at] as number) ^ 1;
    writeFileSync(path, bytes);
    serve(filesOf(source));
    const [main = 'model.safetensors'] = downloads
      .namesIn(source)
      .filter((name) => name.endsWith('.index.json'));
    const failed = downloadFrom(hub(), server.url(main), folder, { dequantize: 'BF16' });
    await expect(failed).rejects.toMatchObject({ code: 'SAFETENSORS_CHECKSUM_MISMATCH', tensor });
    expect(namesIn(folder)).toEqual([]);
  });
});
