/** Servers of the remote trial, and what its children see there. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RemoteResult } from '../../benchmarks/children/remote.js';
import { writeExpertCheckpoint } from '../../benchmarks/expert-checkpoint.js';
import { runChild } from '../../benchmarks/run-child.js';
import type { Servers } from '../../benchmarks/servers.js';

/** Compiled, beside the programs that it starts. */
const COMPILED = join(import.meta.dirname, '../../build/benchmarks');
const { startServers }: typeof import('../../benchmarks/servers.js') = await import(
  join(COMPILED, 'servers.js')
);

const isInstalled = spawnSync('nginx', ['-v']).status === 0;
if (!isInstalled) console.warn('skipped: nginx is not installed');

const LATENCY = 40;
const SHARDS = 5;
const TENSORS = 100;
const SHARD = `model-00001-of-0000${SHARDS}.safetensors`;

describe.skipIf(!isInstalled)('nginx as a Hub', () => {
  const { signal } = new AbortController();
  let folder: string;
  let files: string;
  let scales: string;
  let servers: Servers;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'safetensors-servers-test-'));
    files = join(folder, 'files');
    mkdirSync(join(files, 'bench'), { recursive: true });
    const made = await writeExpertCheckpoint(join(files, 'bench/experts'), TENSORS, SHARDS);
    scales = made.scales;
  });

  beforeEach(async () => {
    servers = await startServers(files, folder, LATENCY, signal);
  });

  afterEach(() => servers.end());
  afterAll(() => rmSync(folder, { recursive: true }));

  function read(method: string, url: string, name = '-', range = '-'): Promise<RemoteResult> {
    const child = join(COMPILED, 'children/remote.js');
    return runChild(
      { file: process.execPath, args: [child, method, url, name, range, folder] },
      signal,
    );
  }

  it('counts the requests to the Hub and to its network', async () => {
    const { seen } = await read('metadata', `${servers.near.hub}/bench/experts`);
    expect(seen).toBe(TENSORS);
    expect(await servers.takeRequests()).toEqual({ hub: 2 + SHARDS, network: SHARDS });
    expect(await servers.takeRequests()).toEqual({ hub: 0, network: 0 });
  });

  it('takes longer behind the proxy', async () => {
    const url = (place: 'near' | 'far'): string =>
      `${servers[place].network}/bench/experts/${SHARD}`;
    for (const method of ['header', 'two-fetches']) {
      const [near, far] = [await read(method, url('near')), await read(method, url('far'))];
      expect([near.seen, far.seen]).toEqual([TENSORS / SHARDS, TENSORS / SHARDS]);
      // A new connection, and at least one request.
      expect(far.elapsed).toBeGreaterThan(2 * LATENCY);
    }
  });

  it('gives a tensor to every reader', async () => {
    const name = `model-0000${SHARDS}-of-0000${SHARDS}.safetensors`;
    const url = `${servers.near.network}/bench/experts/${name}`;
    expect((await read('tensor', url, scales)).seen).toBe(4096);
    for (const method of ['fetch', 'fetch-ranges', 'curl', 'curl-file']) {
      expect((await read(method, url, '-', '100-4195')).seen).toBe(4096);
    }
  });
});
