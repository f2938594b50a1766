/** The embedding server: under load, with a new table, with a bad one, when it ends; and in several processes. */
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { fromFloat32, saveFile } from '../../src/index.js';
import { Example, freePort } from './example.js';

const TABLE = ['table.safetensors', '--rows', '60000', '--width', '1024'];

function makeTable(example: Example): void {
  expect(example.lines(['make-table.js', ...TABLE])).toEqual([
    'table.safetensors: version 1, 60000 x 1024, 0.12288 GB',
  ]);
}

function ask(port: number, path: string, ids: readonly number[]): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ids }),
  });
}

/** Resolves once a request on a separate connection has been sent; `status` is that of the answer. */
async function sent(port: number, path: string, ids: readonly number[]) {
  const headers = { 'content-type': 'application/json' };
  const options = { host: '127.0.0.1', port, path, method: 'POST', headers, agent: false };
  const request = httpRequest(options).end(JSON.stringify({ ids }));
  const status = once(request, 'response').then(([response]) => response.resume().statusCode);
  await once(request, 'finish');
  return { status };
}

it('answers under load, swaps the table, needs no more memory, and ends after the last answer', async () => {
  const example = new Example('embedding-server');
  makeTable(example);
  const port = await freePort();
  const server = example.start(['server.js', '--port', `${port}`]);
  await server.line(/listens on port \d+, 60000 x 1024$/);

  const load = example.start(['load.js', '--port', `${port}`, '--seconds', '6']);
  expect((await load.line(/^versions in the answers: (.*)$/))[1]).toBe('1, 2');
  expect((await load.line(/^(\d+) requests of 32 rows per second, 0 failed$/))[1]).toMatch(/^\d\d/);
  await load.line(/^private memory: \d+ MB before, \d+ MB after \d+ answers$/);
  expect(await load.ended).toBe(0);
  await server.line(/^serves version 2$/);

  const far = await ask(port, '/rows', [60000]);
  expect([far.status, await far.json()]).toEqual([
    400,
    expect.objectContaining({ code: 'SAFETENSORS_SLICE_OUT_OF_RANGE' }),
  ]);
  expect((await ask(port, '/embed', [])).status).toBe(400);

  const ids = Array.from({ length: 512 }, (_, i) => i * 100);
  const asked = await Promise.all(Array.from({ length: 20 }, () => sent(port, '/embed', ids)));
  const { code, stdout, stderr } = await server.end('SIGTERM');
  expect(await Promise.all(asked.map(({ status }) => status))).toEqual(asked.map(() => 200));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/ended by SIGTERM$/);
});

it('goes on with the old table when the new one is bad', async () => {
  const example = new Example('embedding-server');
  makeTable(example);
  const port = await freePort();
  const server = example.start(['server.js', '--port', `${port}`]);
  await server.line(/listens on/);
  writeFileSync(example.path('bad'), 'no table');
  renameSync(example.path('bad'), example.path('table.safetensors'));
  await delay(2000);
  const answer = await ask(port, '/rows', [7]);
  expect([answer.status, answer.headers.get('x-version')]).toEqual([200, '1']);
  const { code, stderr } = await server.end('SIGINT');
  expect(code).toBe(0);
  expect(stderr).toMatch(/^still serves version 1: table.safetensors: .*\n$/);
});

it('serves new versions, 1,000 in all: no request fails, no answer mixes two', async () => {
  const example = new Example('embedding-server');
  const publish = async (version: number): Promise<void> => {
    const data = fromFloat32(new Float32Array(64 * 8).fill(version), 'F16');
    const metadata = { version: `${version}` };
    const table = { dtype: 'F16', shape: [64, 8], data } as const;
    const options = { metadata, durable: false };
    await saveFile(example.path('table.safetensors'), { embeddings: table }, options);
  };
  await publish(0);
  const port = await freePort();
  const server = example.start(['server.js', '--port', `${port}`]);
  await server.line(/listens on/);
  const ids = Array.from({ length: 32 }, (_, i) => 2 * i);
  const seen = new Set<number>();
  let isDone = false;
  const requests = Array.from({ length: 4 }, async () => {
    while (!isDone) {
      const answer = await ask(port, '/rows', ids);
      const version = Number(answer.headers.get('x-version'));
      const found = new Uint16Array(await answer.arrayBuffer());
      expect(answer.status).toBe(200);
      expect(found).toEqual(fromFloat32(new Float32Array(32 * 8).fill(version), 'F16'));
      seen.add(version);
    }
  });
  for (let version = 1; version <= 1000; version++) {
    await publish(version);
    // The last of a burst is served; the others may be replaced before.
    if (version % 20 === 0) await server.line(new RegExp(`^serves version ${version}$`));
  }
  isDone = true;
  await Promise.all(requests);
  expect(seen.size).toBeGreaterThan(40);
  const { code, stderr } = await server.end('SIGTERM');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

it('says why it cannot start', () => {
  const example = new Example('embedding-server');
  const { code, stderr } = example.run(['server.js', 'absent.safetensors', '--port', '0']);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^ENOENT: .*absent.safetensors'\n$/)]);
});

it('runs in several processes, one of which is replaced when it dies', async () => {
  const example = new Example('embedding-server');
  makeTable(example);
  const port = await freePort();
  const args = ['cluster.js', '--port', `${port}`];
  const server = example.start(args, { env: { PROCESSES: '2' } });
  const [, first] = await server.line(/^\[(\d+)\] listens on/);
  const [, second] = await server.line(new RegExp(`^\\[(?!${first})(\\d+)\\] listens on`));

  const load = example.start(['load.js', '--port', `${port}`, '--seconds', '6']);
  expect((await load.line(/^versions in the answers: (.*)$/))[1]).toBe('1, 2');
  expect(await load.ended).toBe(0);

  process.kill(Number(first), 'SIGKILL');
  await server.line(new RegExp(`^\\[(?!${first}|${second})\\d+\\] listens on`));
  expect((await ask(port, '/embed', [1, 2])).status).toBe(200);
  const { code, stdout, stderr } = await server.end('SIGTERM');
  expect({ code, stderr }).toEqual({ code: 0, stderr: `[${first}] ended with SIGKILL\n` });
  expect(stdout.match(/ended by SIGTERM$/gm)).toHaveLength(2);
});
