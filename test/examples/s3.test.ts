/** Checkpoints in a bucket, on a server that speaks S3: few bytes, one version, shards, uploads. */
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { loadFile, saveCheckpoint, saveFile } from '../support/api.js';
import { Example, NODE_24, type Running } from './example.js';

const ROWS = 40_000;
const WIDTH = 64;

async function makeModel(path: string, start = 0): Promise<void> {
  const data = Float32Array.from({ length: ROWS * WIDTH }, (_, i) => start + Math.floor(i / WIDTH));
  await saveFile(path, {
    embed: { dtype: 'F32', shape: [ROWS, WIDTH], data },
    norm: { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) },
  });
}

/** The variables that the local server prints. */
async function startServer(example: Example): Promise<[Running, NodeJS.ProcessEnv]> {
  const server = example.start(['local-server.js'], { node: NODE_24, env: { PORT: '0' } });
  const lines = [await server.line(/^export .*URL.*/), await server.line(/^export .*SECRET.*/)];
  const settings = lines.flatMap(([line]) => line.split(' ').slice(1));
  return [server, Object.fromEntries(settings.map((text) => text.split('=')))];
}

it('reads rows by few bytes, and uploads some tensors', async () => {
  const example = new Example('s3');
  const [server, env] = await startServer(example);
  const options = { node: NODE_24, env };
  await makeModel(example.path('model.safetensors'));
  const { size } = statSync(example.path('model.safetensors'));
  const address = 's3://models/a b/model.safetensors';
  expect(example.lines(['upload.js', 'model.safetensors', address], options)).toEqual([
    `2 tensors, ${size} bytes`,
  ]);
  const list = example.lines(['read.js', address], options);
  expect(list.slice(0, 2)).toEqual([`embed  F32  ${ROWS} x ${WIDTH}`, 'norm  F32  2']);
  expect(list.at(-1)).toBe('1 ranges, 100000 bytes');

  const rows = ['--tensor', 'embed', '--rows=-2:, :2'];
  const lines = example.lines(['read.js', address, ...rows], options);
  expect(lines.slice(1, -1).join('')).toBe('Float32Array(4) [ 39998, 39998, 39999, 39999 ]');
  // The header, and from the first of the values to the last.
  expect(lines.at(-1)).toBe(`2 ranges, ${100_000 + 4 * (WIDTH + 2)} bytes`);

  example.lines(['upload.js', 'model.safetensors', 's3://models/x', '--names', 'norm'], options);
  expect(example.lines(['read.js', 's3://models/x'], options)[0]).toBe('norm  F32  2');
  expect((await server.end('SIGTERM')).code).toBe(0);
});

it('opens the shards that it needs', async () => {
  const example = new Example('s3');
  const [server, env] = await startServer(example);
  const options = { node: NODE_24, env };
  await makeModel(example.path('model.safetensors'));
  mkdirSync(example.path('split'));
  const tensors = loadFile(example.path('model.safetensors'));
  const { files } = await saveCheckpoint(example.path('split'), tensors, { maxShardSize: '10MB' });
  expect(files).toHaveLength(2);
  for (const file of files) {
    example.lines(['upload.js', `split/${file}`, `s3://models/deep/split/${file}`], options);
  }
  const index = 'model.safetensors.index.json';
  writeFileSync(
    example.path('put.mjs'),
    `import { readFileSync } from 'node:fs';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { makeClient } from './s3.js';
const Body = readFileSync('split/${index}');
await makeClient().send(new PutObjectCommand({ Bucket: 'models', Key: 'deep/split/${index}', Body }));`,
  );
  example.lines(['put.mjs'], options);
  const address = `s3://models/deep/split/${index}`;
  const lines = example.lines(['read.js', address, '--tensor', 'norm', '--rows', ':'], options);
  expect(lines[1]).toBe('Float32Array(2) [ 1, 2 ]');
  expect(lines.at(-1)).toMatch(/^3 ranges, \d{3} bytes$/);
  await server.end('SIGINT');
});

it('refuses ranges of another version, and says what is wrong', async () => {
  const example = new Example('s3');
  const [server, env] = await startServer(example);
  const options = { node: NODE_24, env };
  await makeModel(example.path('model.safetensors'));
  await makeModel(example.path('other.safetensors'), 1);
  writeFileSync(
    example.path('change.mjs'),
    `import { execFileSync } from 'node:child_process';
import { makeClient, openInBucket, parseAddress } from './s3.js';
const address = 's3://models/model.safetensors';
const upload = (path) => execFileSync(process.execPath, ['upload.js', path, address]);
upload('model.safetensors');
const client = makeClient();
const checkpoint = await openInBucket(client, parseAddress(address), {});
console.log((await checkpoint.getSlice('embed', '5, :2')).toFloat32());
upload('other.safetensors');
await checkpoint.getSlice('embed', '5, :2').catch((error) => console.log(error.message));
client.destroy();`,
  );
  expect(example.lines(['change.mjs'], options)).toEqual([
    'Float32Array(2) [ 5, 5 ]',
    expect.stringContaining('s3://models/model.safetensors has changed'),
  ]);
  const absent = example.run(['read.js', 's3://models/absent'], options);
  expect([absent.code, absent.stderr]).toEqual([1, expect.stringMatching(/^NotFound: /)]);
  const unnamed = example.run(
    ['read.js', 's3://models/model.safetensors', '--tensor', 'x'],
    options,
  );
  expect([unnamed.code, unnamed.stderr]).toEqual([1, expect.stringContaining('"x"')]);
  await server.end('SIGTERM');
});
