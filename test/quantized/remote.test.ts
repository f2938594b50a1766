/** Quantized checkpoints on a server: what goes over the wire, and that the values are the same. */
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { dequantized, openRemote, parse, safeOpen, select, serialize } from '../support/api.js';
import { root } from '../support/source-tree.js';
import { rowCountOf } from './opened-tensors.js';
import { patternsOf } from './rules.js';

const FIXTURES = join(root, 'test/fixtures/quantized');
const ROWS = 2048;
const COLUMNS = 4096;
const SCALES = 'big.weight_scale_inv';

const files = new Map<string, Uint8Array>();
/** Statuses of paths that are not given. */
const refused = new Map<string, number>();
/** Path and bytes of every request. */
const asked: [path: string, byteLength: number][] = [];
/** The version of all files. */
let version = 1;
let server: Server;
let origin: string;

beforeAll(async () => {
  for (const name of readdirSync(FIXTURES)) {
    if (!name.includes('.')) {
      for (const file of readdirSync(join(FIXTURES, name))) {
        files.set(`/${name}/${file}`, readFileSync(join(FIXTURES, name, file)));
      }
    }
  }
  const codes = Uint8Array.from({ length: ROWS * COLUMNS }, (_, i) => i % 120);
  const scales = Float32Array.from({ length: (ROWS * COLUMNS) / 128 ** 2 }, (_, i) => 1 + i);
  files.set(
    '/big/model.safetensors',
    serialize({
      'a.norm': { dtype: 'F32', shape: [4], data: new Float32Array(4) },
      'big.weight': { dtype: 'F8_E4M3', shape: [ROWS, COLUMNS], data: codes },
      [SCALES]: { dtype: 'F32', shape: [ROWS / 128, COLUMNS / 128], data: scales },
    }),
  );
  server = createServer((request, response) => {
    const path = request.url ?? '';
    const bytes = files.get(path);
    const [, first = '', last = ''] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    if (bytes === undefined || refused.has(path)) {
      asked.push([path, 0]);
      // Too long a wait: the client does not retry.
      response.writeHead(refused.get(path) ?? 404, { 'Retry-After': 3600 }).end();
      return;
    }
    const [begin, end] = [Number(first), Math.min(Number(last) + 1, bytes.length)];
    asked.push([path, end - begin]);
    const range = `bytes ${begin}-${end - 1}/${bytes.length}`;
    const headers = { 'Content-Range': range, ETag: `"${version}"` };
    response.writeHead(206, headers).end(bytes.subarray(begin, end));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

beforeEach(() => {
  asked.length = 0;
});

it.each([
  'fp8-block-ragged',
  'fp8-block-bf16-scales-other-shard',
  'ct-pack-w4-group-asym',
  'bnb-nf4-nested',
  'bnb-int8',
  'gptq-4bit-asym-desc-act',
  'awq-gemm',
  'mxfp4-gpt-oss',
  'mlx-4bit-override-8bit',
])('%s has the values of the local checkpoint', async (id) => {
  const isSharded = files.has(`/${id}/model.safetensors.index.json`);
  const file = isSharded ? 'model.safetensors.index.json' : 'model.safetensors';
  const remote = await dequantized(await openRemote(`${origin}/${id}/${file}`));
  const local = await dequantized(safeOpen(join(FIXTURES, id)));
  expect(remote.keys()).toEqual(local.keys());
  expect(remote.problems).toEqual([]);
  expect(remote.local).toBe(false);
  for (const name of remote.keys()) {
    const [far, near] = [await remote.getTensor(name), local.getTensor(name)];
    const expected = patternsOf(near.toFloat32());
    expect([far.dtype, far.shape]).toEqual([near.dtype, near.shape]);
    expect(patternsOf(far.toFloat32()), name).toEqual(expected);
    const { dataOffsets, ...info } = local.info(name);
    expect(await remote.info(name)).toMatchObject(info);
    const rows: number[] = [];
    for (let row = 0; far.shape.length === 2 && row < rowCountOf(far); row++) {
      rows.push(...patternsOf((await remote.getSlice(name, row)).toFloat32()));
    }
    if (far.shape.length === 2) expect(Uint32Array.from(rows), name).toEqual(expected);
  }
});

it('asks for the configuration, then scales once, then the codes of the rows', async () => {
  const checkpoint = await openRemote(`${origin}/big/model.safetensors`);
  const model = await dequantized(checkpoint);
  const paths = ['model.safetensors', 'config.json'].map((name) => `/big/${name}`);
  // Nothing next to the weights says how they are quantized: the files of older tools are looked for, too.
  expect(asked.map(([path]) => path)).toEqual([
    ...paths,
    '/big/hf_quant_config.json',
    '/big/quantize_config.json',
    '/big/quant_config.json',
  ]);
  asked.length = 0;
  const rows = await model.getSlice('big.weight', [127, 129]);
  const scaleBytes = (4 * ROWS * COLUMNS) / 128 ** 2;
  expect(asked.map(([, byteLength]) => byteLength)).toEqual([scaleBytes, 2 * COLUMNS]);
  const own = await dequantized(
    parse(files.get('/big/model.safetensors') as Uint8Array<ArrayBuffer>),
  );
  expect(rows.data).toEqual(own.getTensor('big.weight').toFloat32({ rows: [127, 129] }));
  asked.length = 0;
  await select(model, { dtype: 'BF16' }).getSlice('big.weight', 5);
  expect(asked.map(([, byteLength]) => byteLength)).toEqual([COLUMNS]);
  asked.length = 0;
  await model.getTensor('big.weight');
  const total = asked.reduce((sum, [, byteLength]) => sum + byteLength, 0);
  expect([asked.length, total]).toEqual([1, ROWS * COLUMNS]);
  expect((await model.getTensor('a.norm')).data).toEqual(new Float32Array(4));
});

it('is refused when the server has a configuration and cannot give it', async () => {
  const id = 'fp8-block-ragged';
  for (const [status, isThere] of [
    [404, false],
    [403, false],
    [501, true],
  ] as const) {
    refused.set(`/${id}/config.json`, status);
    const model = dequantized(await openRemote(`${origin}/${id}/model.safetensors`));
    if (isThere) await expect(model).rejects.toMatchObject({ status });
    else await expect(model).resolves.toMatchObject({ quantMethod: null });
  }
  refused.clear();
});

it('reads packed tensors of GPTQ once', async () => {
  const id = 'gptq-4bit-asym-desc-act';
  const model = await dequantized(await openRemote(`${origin}/${id}/model.safetensors`));
  asked.length = 0;
  const name = 'model.layers.0.self_attn.q_proj.weight';
  const [rows = 0] = (await model.info(name)).shape;
  expect(rows).toBeGreaterThan(1);
  for (let row = 0; row < rows; row++) await model.getSlice(name, row);
  // All four in the same turn, near each other.
  expect(asked.length).toBe(1);
});

it('fetches a column by the rows of codes that it needs', async () => {
  const model = await dequantized(await openRemote(`${origin}/big/model.safetensors`));
  const own = await dequantized(
    parse(files.get('/big/model.safetensors') as Uint8Array<ArrayBuffer>),
  );
  asked.length = 0;
  const part = await model.getSlice('big.weight', [100, 130], 7);
  expect(part.data).toEqual(own.getSlice('big.weight', [100, 130], 7).data);
  const [, codes] = asked.map(([, byteLength]) => byteLength);
  expect([asked.length, codes]).toEqual([2, 30 * COLUMNS]);
});

it('rejects a file that changed since', async () => {
  const checkpoint = await openRemote(`${origin}/big/model.safetensors`);
  const model = await dequantized(checkpoint);
  version++;
  await expect(model.getSlice('big.weight', 0)).rejects.toMatchObject({
    code: 'SAFETENSORS_FILE_CHANGED',
    path: checkpoint.path,
  });
  expect([model.ok, checkpoint.ok]).toEqual([false, false]);
});

it('ends with its signal', async () => {
  const model = await dequantized(await openRemote(`${origin}/big/model.safetensors`));
  for (const read of [
    (signal: AbortSignal) => model.getTensor('big.weight', { signal }),
    (signal: AbortSignal) => model.getSlice('big.weight', 1, { signal }),
    (signal: AbortSignal) => model.readTensors(['big.weight'], { signal }),
  ]) {
    const controller = new AbortController();
    const work = read(controller.signal);
    controller.abort(new Error('enough'));
    await expect(work).rejects.toThrow('enough');
  }
  const aborted = AbortSignal.abort(new Error('before'));
  const checkpoint = await openRemote(`${origin}/big/model.safetensors`);
  await expect(dequantized(checkpoint, { signal: aborted })).rejects.toThrow('before');
});
