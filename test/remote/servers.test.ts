/** Files on servers that people use. Servers that are not installed are skipped, with a message. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_HUB_SETTINGS } from '../../src/file/hub/settings.js';
import type { RemoteSource } from '../../src/remote/remote-file.js';
import { resolveSource } from '../../src/remote/source.js';
import { download, loadFile, openRemote, safeOpen } from '../support/api.js';
import { filesOf } from '../support/make-checkpoint.js';
import { fileBytes } from '../support/make-file.js';
import { textOf } from '../support/source-tree.js';

const NGINX = 'nginx';
const PYTHON = 'python3';

function isInstalled(command: string, flag: string): boolean {
  const isThere = spawnSync(command, [flag]).status === 0;
  if (!isThere) console.warn(`skipped: ${command} is not installed`);
  return isThere;
}

const FILE = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 31) % 256);

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
writeFileSync(join(folder, 'model.safetensors'), FILE);
writeFileSync(join(folder, 'empty.safetensors'), '');
const LARGE = fileBytes([{ name: 't', dtype: 'U8', shape: [5_000_000] }]);
writeFileSync(join(folder, 'large.safetensors'), LARGE);
writeFileSync(
  join(folder, 'small.safetensors'),
  fileBytes([{ name: 't', dtype: 'U8', shape: [9] }]),
);
const shards = Array.from({ length: 100 }, (_, i) => `model-${i}.safetensors`);
const checkpoint = filesOf({
  shards: Object.fromEntries(shards.map((name) => [name, [{ name, dtype: 'U8', shape: [9] }]])),
});
for (const [name, bytes] of checkpoint) writeFileSync(join(folder, name), bytes);

afterAll(() => rmSync(folder, { recursive: true }));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function takesConnections(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Starts a server, and waits until it takes connections. */
async function start(
  command: string,
  args: readonly string[],
  port: number,
): Promise<ChildProcess> {
  const child = spawn(command, args, { cwd: folder, stdio: 'ignore' });
  while (!(await takesConnections(port))) {
    if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}`);
    await sleep(50);
  }
  return child;
}

async function stop(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null) return;
  child.kill();
  await once(child, 'exit');
}

/** Added to the server of the page: a presigned URL, and a redirect. */
const SIGNED_AND_MOVED = `
  location /signed/ {
    if ($arg_signature != valid) { return 403; }
    rewrite ^/signed/(.*)$ /$1 break;
  }
  location /moved/ { rewrite ^/moved/(.*)$ /$1 redirect; }
}`;

async function open(url: string): Promise<RemoteSource> {
  const { signal } = new AbortController();
  return resolveSource(url, { startByteLength: 1000 }, DEFAULT_HUB_SETTINGS, signal);
}

describe.skipIf(!isInstalled(NGINX, '-v'))('nginx, as docs/remote.md says', () => {
  let port = 0;
  let child: ChildProcess | undefined;
  const [documented = ''] = /^server \{[\s\S]*?^\}/m.exec(textOf('docs/remote.md')) ?? [];

  beforeAll(async () => {
    port = await freePort();
    const inFolder = (name: string): string => JSON.stringify(join(folder, name));
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${inFolder(name)};`,
    );
    writeFileSync(
      join(folder, 'nginx.conf'),
      `daemon off; pid ${inFolder('nginx.pid')}; error_log ${inFolder('error.log')};
      ${process.getuid?.() === 0 ? 'user root;' : ''}
      events {}
      http {
        log_format connections '$connection $request_uri';
        access_log ${inFolder('access.log')} connections; ${temporary.join(' ')}
        gzip on; gzip_types *; gzip_min_length 1;
        ${documented
          .replace('127.0.0.1:8000', `127.0.0.1:${port}`)
          .replace('/srv/models', folder)
          .replace(/\}\s*$/, () => SIGNED_AND_MOVED)}
      }`,
    );
    child = await start(NGINX, ['-c', join(folder, 'nginx.conf'), '-p', folder], port);
  });

  afterAll(() => stop(child));

  it('answers ranges, pinned by its ETag', async () => {
    const { file } = await open(`http://127.0.0.1:${port}/model.safetensors`);
    const { bytes, fileByteLength } = await file.readStart(1000);
    expect([bytes, fileByteLength]).toEqual([FILE.slice(0, 1000), FILE.length]);
    const target = new Uint8Array(100_000);
    await file.readInto(target, 150_000);
    expect(target).toEqual(FILE.slice(150_000, 250_000));
    writeFileSync(join(folder, 'model.safetensors'), FILE.slice(0, -1));
    await expect(file.readInto(target, 0)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
    });
    writeFileSync(join(folder, 'model.safetensors'), FILE);
  });

  it('redirects, and has empty and missing files', async () => {
    const moved = await open(`http://127.0.0.1:${port}/moved/model.safetensors`);
    expect((await moved.file.readStart(10)).bytes).toEqual(FILE.slice(0, 10));
    const empty = await open(`http://127.0.0.1:${port}/empty.safetensors`);
    expect((await empty.file.readStart(10)).fileByteLength).toBe(0);
    const missing = await open(`http://127.0.0.1:${port}/missing.safetensors`);
    await expect(missing.file.readStart(10)).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_NOT_FOUND',
    });
  });

  /** Requests whose query this is, and the connections that they came by. */
  function askedWith(query: string): { requests: number; connections: number } {
    const lines = readFileSync(join(folder, 'access.log'), 'latin1').split('\n');
    const asked = lines.filter((line) => line.endsWith(`?${query}`));
    const connections = new Set(asked.map((line) => line.split(' ')[0]));
    return { requests: asked.length, connections: connections.size };
  }

  it('is asked over connections that are used again', async () => {
    const { file } = await open(`http://127.0.0.1:${port}/model.safetensors?in-turn`);
    await file.readStart(1000);
    for (let at = 0; at < 20; at++) await file.readInto(new Uint8Array(5000), 10_000 * at);
    const inTurn = askedWith('in-turn');
    expect(inTurn.requests).toBe(21);
    expect(inTurn.connections).toBeLessThanOrEqual(2);
    const index = `http://127.0.0.1:${port}/model.safetensors.index.json?at-once`;
    const { parameters } = await (await openRemote(index)).summary();
    expect(parameters).toBe(9 * shards.length);
    const atOnce = askedWith('at-once');
    // The index, its shards, and config.json, which is not there.
    expect(atOnce.requests).toBe(1 + shards.length + 1);
    // 16 at a time: each can begin a moment before the connection of the one before it is free.
    expect(atOnce.connections).toBeLessThan(40);
  });

  it('keeps a presigned URL, whose query no message shows', async () => {
    const url = `http://127.0.0.1:${port}/signed/model.safetensors`;
    const { file } = await open(`${url}?signature=valid`);
    expect((await file.readStart(10)).bytes).toEqual(FILE.slice(0, 10));
    const expired = await open(`${url}?signature=expired`);
    const error = await expired.file.readStart(10).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'SAFETENSORS_FORBIDDEN', path: url, url });
    expect(String(error)).toContain('a presigned URL has expired');
    expect(String(error)).not.toContain('signature=');
  });
});

describe.skipIf(!isInstalled(PYTHON, '--version'))(
  "Python's http.server, which ignores ranges",
  () => {
    let port = 0;
    let child: ChildProcess | undefined;

    beforeAll(async () => {
      port = await freePort();
      child = await start(PYTHON, ['-m', 'http.server', String(port), '--bind', '127.0.0.1'], port);
    });

    afterAll(() => stop(child));

    it('is an error that says so', async () => {
      const { file } = await open(`http://127.0.0.1:${port}/model.safetensors`);
      const error = await file.readStart(1000).catch((error: unknown) => error);
      expect(error).toMatchObject({ code: 'SAFETENSORS_RANGES_UNSUPPORTED', status: 200 });
      expect(String(error)).toContain(
        'a server that answers ranges, found 200 with all 300000 bytes',
      );
    });

    it('is good enough to download what openRemote opens', async () => {
      const url = `http://127.0.0.1:${port}/small.safetensors`;
      const target = join(folder, 'downloaded.safetensors');
      expect((await openRemote(url)).keys()).toEqual(['t']);
      await download(url, target, { durable: false });
      expect(loadFile(target).get('t')?.shape).toEqual([9]);
    });

    it('sends files of any length to download, and no range of a long one to openRemote', async () => {
      const url = `http://127.0.0.1:${port}/large.safetensors`;
      const target = join(folder, 'large-copy.safetensors');
      const { downloadedBytes, files } = await download(url, target, { durable: false });
      expect([downloadedBytes, files[0]?.byteLength]).toEqual([LARGE.length, LARGE.length]);
      expect(readFileSync(target).equals(LARGE)).toBe(true);
      const [planned] = (await download(url, target, { dryRun: true })).files;
      expect(planned?.byteLength).toBe(LARGE.length);
      const error = await openRemote(url).catch((error: unknown) => error);
      expect(error).toMatchObject({ code: 'SAFETENSORS_RANGES_UNSUPPORTED', status: 200 });
      expect(String(error)).toContain('`download` receives the whole file');
      const index = `http://127.0.0.1:${port}/model.safetensors.index.json`;
      const { path } = await download(index, join(folder, 'copied'), { durable: false });
      expect(safeOpen(path).keys().length).toBe(shards.length);
    });

    it('gives the tensors of a small file, whose bytes came with its header', async () => {
      const checkpoint = await openRemote(`http://127.0.0.1:${port}/small.safetensors`);
      const small = loadFile(join(folder, 'small.safetensors'));
      expect((await checkpoint.getTensor('t')).bytes).toEqual(small.get('t')?.bytes);
      expect((await checkpoint.getSlice('t', [2, 5])).shape).toEqual([3]);
      checkpoint.close();
      await expect(checkpoint.getTensor('t')).rejects.toMatchObject({
        code: 'SAFETENSORS_FILE_CLOSED',
      });
    });

    it('is good enough for a file that is no longer than what is asked', async () => {
      const { file } = await open(`http://127.0.0.1:${port}/model.safetensors`);
      expect((await file.readStart(400_000)).bytes).toEqual(FILE);
    });
  },
);
