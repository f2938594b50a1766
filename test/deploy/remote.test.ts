/** Remote files in other runtimes, each with its own `fetch`. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HubServer, TOKEN } from '../support/hub-server.js';
import { filesOf } from '../support/make-checkpoint.js';
import { root } from '../support/source-tree.js';
import { makeApp, programOf, type Runtime } from './tools.js';

const RUNTIMES: readonly [Runtime, ...string[]][] = [
  ['bun'],
  ['deno', 'run', '--no-prompt', '--allow-read', '--allow-env', '--allow-net=127.0.0.1'],
  ['node-22'],
  ['node-24'],
  ['node-26'],
];

/** Prints a tensor of the repository that it is given. */
const PROGRAM = `
import { open } from 'safetensors-mmap';
const checkpoint = await open(process.argv[2]);
const tensor = await checkpoint.getTensor('embed');
console.log(JSON.stringify([checkpoint.keys(), tensor.shape, [...tensor.toFloat32()]]));
checkpoint.close();
`;

const SHARD = 'model-00001-of-00002.safetensors';
const FILES = filesOf({
  shards: {
    [SHARD]: [{ name: 'embed', dtype: 'U8', shape: [2, 3] }],
    'model-00002-of-00002.safetensors': [{ name: 'other', dtype: 'U8', shape: [1] }],
  },
});

let folder: string;
let hub: HubServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-lies-'));
  const child = 'test/support/tell-lies.mjs';
  await build({
    absWorkingDir: root,
    entryPoints: { lies: child },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
  });
  const files = Object.fromEntries(FILES);
  hub = await HubServer.start({ 'tests/private': { files, access: 'private' } });
});

beforeEach(() => {
  hub.requests.length = 0;
});

afterAll(async () => {
  await hub.close();
  rmSync(folder, { recursive: true });
});

/** The output of a program, parsed from JSON. */
async function runProgram(
  [runtime, ...flags]: readonly [Runtime, ...string[]],
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<unknown> {
  const options = { env: { HOME: folder, ...env }, timeout: 120_000 };
  const run = promisify(execFile);
  const { stdout } = await run(programOf(runtime), [...flags, ...args], options);
  return JSON.parse(stdout);
}

describe.each(RUNTIMES)('%s', (...runtime) => {
  it('is not fooled by a server that lies', async () => {
    const told = await runProgram(runtime, [join(folder, 'lies.mjs')]);
    expect(told).toEqual({ lies: expect.any(Number), failures: [] });
    expect(told).toHaveProperty(
      'lies',
      expect.toSatisfy((count: number) => count > 90),
    );
  });

  it('opens a repository with the installed package', async () => {
    const app = makeApp();
    app.write('remote.mjs', PROGRAM);
    const args = [join(app.folder, 'remote.mjs'), 'hf://tests/private'];
    const env = { HF_ENDPOINT: hub.url, HF_TOKEN: TOKEN };
    expect(await runProgram(runtime, args, env)).toEqual([
      ['embed', 'other'],
      [2, 3],
      [1, 2, 3, 4, 5, 6],
    ]);
    const asked = hub.requests.map(({ server, method, path }) => {
      return `${server} ${method} ${path.replace(/\?.*/, '').split('/').at(-1)}`;
    });
    const { path: blob = '' } = hub.requests.at(-1) ?? {};
    const hash = blob.replace(/\?.*/, '').split('/').at(-1);
    expect(asked).toEqual([
      'hub GET main',
      'hub GET model.safetensors',
      'hub GET model.safetensors.index.json',
      'hub GET model.safetensors.index.json',
      `hub GET ${SHARD}`,
      `network GET ${hash}`,
      `network GET ${hash}`,
    ]);
    for (const { server, headers } of hub.requests) {
      const token = server === 'hub' ? `Bearer ${TOKEN}` : undefined;
      expect(headers.authorization).toBe(token);
      // Node's fetch adds its own where there is a range.
      expect(headers['accept-encoding']).toMatch(/^identity(?:, identity)?$/);
    }
  });
});
