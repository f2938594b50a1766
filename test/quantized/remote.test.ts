/** Quantized checkpoints on a server: what goes over the wire, and that the values are the same. */
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { dequantized, openRemote, parse, safeOpen, serialize } from '../support/api.js';
import { root } from '../support/source-tree.js';
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
    const headers = { 'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}`, ETag: '"1"' };
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
  for (const name of remote.keys()) {
    const [far, near] = [remote, local].map((model) => model.getTensor(name));
    const expected = patternsOf(near?.toFloat32() as Float32Array);
    expect(far?.tensor).toBe(null);
    expect(patternsOf((await far?.toFloat32Async()) as Float32Array), name).toEqual(expected);
    const blocks: number[] = [];
    for await (const { values } of far?.rowBlocks({ maxByteLength: 1 }) ?? []) {
      blocks.push(...patternsOf(values as Float32Array));
    }
    expect(Uint32Array.from(blocks), name).toEqual(expected);
  }
});

it('asks for the configuration, then scales once, then the codes of the rows', async () => {
  const checkpoint = await openRemote(`${origin}/big/model.safetensors`);
  const model = await dequantized(checkpoint);
  const paths = ['model.safetensors', 'config.json'].map((name) => `/big/${name}`);
  // Nothing beside the weights says how they are quantized: the files of older tools are looked for, too.
  expect(asked.map(([path]) => path)).toEqual([
    ...paths,
    '/big/hf_quant_config.json',
    '/big/quantize_config.json',
    '/big/quant_config.json',
  ]);
  asked.length = 0;
  const tensor = model.getTensor('big.weight');
  const rows = await tensor.toFloat32Async({ rows: [127, 129] });
  const scaleBytes = (4 * ROWS * COLUMNS) / 128 ** 2;
  expect(asked.map(([, byteLength]) => byteLength)).toEqual([scaleBytes, 2 * COLUMNS]);
  const own = await dequantized(
    parse(files.get('/big/model.safetensors') as Uint8Array<ArrayBuffer>),
  );
  expect(rows).toEqual(own.getTensor('big.weight').toFloat32({ rows: [127, 129] }));
  asked.length = 0;
  await tensor.cast('BF16', { rows: [5, 6] });
  expect(asked.map(([, byteLength]) => byteLength)).toEqual([COLUMNS]);
  asked.length = 0;
  await tensor.toFloat32Async();
  const total = asked.reduce((sum, [, byteLength]) => sum + byteLength, 0);
  expect([asked.length, total]).toEqual([1, ROWS * COLUMNS]);
  await expect(model.getTensor('a.norm').toFloat32Async()).resolves.toEqual(new Float32Array(4));
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
    else await expect(model).resolves.toMatchObject({ method: null });
  }
  refused.clear();
});

it('reads packed tensors of GPTQ once', async () => {
  const id = 'gptq-4bit-asym-desc-act';
  const model = await dequantized(await openRemote(`${origin}/${id}/model.safetensors`));
  asked.length = 0;
  const tensor = model.getTensor('model.layers.0.self_attn.q_proj.weight');
  for await (const { row } of tensor.rowBlocks({ maxByteLength: 1 })) expect(row).toBeLessThan(24);
  // All four in the same turn, near each other.
  expect(asked.length).toBe(1);
});

it('reads the next block of rows while one is used', async () => {
  const model = await dequantized(await openRemote(`${origin}/big/model.safetensors`));
  const blocks = model.getTensor('big.weight').rowBlocks({ maxByteLength: 4 * 64 * COLUMNS });
  asked.length = 0;
  await blocks.next();
  await expect.poll(() => asked.length).toBe(3);
  expect(asked.slice(1).map(([, byteLength]) => byteLength)).toEqual([64 * COLUMNS, 64 * COLUMNS]);
  await blocks.return();
  expect(asked.length).toBe(3);
});

it('is not read on this thread', async () => {
  const model = await dequantized(await openRemote(`${origin}/fp8-block-ragged/model.safetensors`));
  const tensor = model.getTensor('model.layers.0.mlp.down_proj.weight');
  expect(() => tensor.toFloat32()).toThrow(
    expect.objectContaining({ name: 'TypeError', code: 'ERR_INVALID_STATE' }),
  );
});

it('ends with its signal', async () => {
  const model = await dequantized(await openRemote(`${origin}/big/model.safetensors`));
  const controller = new AbortController();
  const work = model.getTensor('big.weight').toFloat32Async({ signal: controller.signal });
  controller.abort(new Error('enough'));
  await expect(work).rejects.toThrow('enough');
  const aborted = AbortSignal.abort(new Error('before'));
  const checkpoint = await openRemote(`${origin}/big/model.safetensors`);
  await expect(dequantized(checkpoint, { signal: aborted })).rejects.toThrow('before');
});
