/** What goes over the wire: requests and connections of every operation, counted by a server. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { openRemote } from '../support/api.js';
import { filesOf } from '../support/make-checkpoint.js';
import { fileBytes } from '../support/make-file.js';

const COUNT = 163;
const ROW = 4096;

const files = new Map<string, Uint8Array>();
const asked: string[] = [];
const methods = new Set<string | undefined>();
let connections = 0;
let served = 0;
let server: Server;
let origin: string;

beforeAll(async () => {
  const shards = Object.fromEntries(
    Array.from({ length: COUNT }, (_, i) => [
      `model-${i + 1}.safetensors`,
      [{ name: `layers.${i}`, dtype: 'U8' as const, shape: [100, ROW] }],
    ]),
  );
  for (const [name, bytes] of filesOf({ shards })) files.set(name, bytes);
  files.set(
    'long.safetensors',
    fileBytes([{ name: 't', dtype: 'U8', shape: [3] }], { padding: 200_000 }),
  );
  files.set('table.safetensors', fileBytes([{ name: 't', dtype: 'BF16', shape: [3000, ROW] }]));
  server = createServer((request, response) => {
    const name = (request.url ?? '').slice(1);
    asked.push(name);
    methods.add(request.method);
    const bytes = files.get(name);
    const [, first = '', last = ''] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    if (bytes === undefined) {
      response.writeHead(404).end();
      return;
    }
    const [begin, end] = [Number(first), Math.min(Number(last) + 1, bytes.length)];
    served += end - begin;
    const headers = { 'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}`, ETag: '"1"' };
    response.writeHead(206, headers).end(bytes.subarray(begin, end));
  });
  server.on('connection', () => connections++);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

beforeEach(() => {
  asked.length = 0;
  served = 0;
});

it('one opens a file, whatever it is asked that the header knows', async () => {
  const checkpoint = await openRemote(`${origin}/table.safetensors`);
  await checkpoint.info('t');
  await checkpoint.offsetKeys();
  await checkpoint.byteLength();
  expect([asked.length, served]).toEqual([1, 100_000]);
});

it('two open a file with a long header', async () => {
  const checkpoint = await openRemote(new URL(`${origin}/long.safetensors`));
  expect(checkpoint.keys()).toEqual(['t']);
  expect([asked.length, served]).toEqual([
    2,
    (files.get('long.safetensors')?.length as number) - 3,
  ]);
});

it('one fetches a row of a table, and its bytes alone', async () => {
  const checkpoint = await openRemote(`${origin}/table.safetensors`);
  asked.length = served = 0;
  const row = await checkpoint.getSlice('t', 1234);
  expect([row.shape, asked.length, served]).toEqual([[ROW], 1, 2 * ROW]);
});

it('three fetch a tensor of 24 MB beside each other', async () => {
  const checkpoint = await openRemote(`${origin}/table.safetensors`);
  asked.length = served = 0;
  const tensor = await checkpoint.getTensor('t');
  expect(
    Buffer.compare(
      tensor.bytes,
      files.get('table.safetensors')?.subarray(-tensor.byteLength) as Uint8Array,
    ),
  ).toBe(0);
  expect([asked.length, served]).toEqual([3, tensor.byteLength]);
});

it('one opens an index, one more each shard that is needed, over connections that are used again', async () => {
  connections = 0;
  const checkpoint = await openRemote(`${origin}/model.safetensors.index.json`);
  expect([checkpoint.size, asked.length]).toEqual([COUNT, 1]);
  await checkpoint.getSlice('layers.7', 3);
  expect(asked.slice(1)).toEqual(['model-8.safetensors', 'model-8.safetensors']);
  const { parameters } = await checkpoint.summary();
  expect(parameters).toBe(COUNT * 100 * ROW);
  // One for each other shard, and one for config.json, which is not there.
  const all = 3 + COUNT - 1 + 1;
  expect(asked.length).toBe(all);
  // Neither is asked for again.
  await Promise.all([checkpoint.summary(), checkpoint.sibling('config.json')]);
  expect(asked.length).toBe(all);
  // A request can begin a moment before the connection of another one is free.
  expect(connections).toBeLessThan(25);
  checkpoint.close();
});

it('none asks for a head first', () => {
  expect([...methods]).toEqual(['GET']);
});
