/** Files that change, vanish or give way to others while they are served. No answer has bytes of two versions. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PageServer } from '../../../src/cli/serve/server.js';
import { servedSources } from '../../../src/cli/serve/sources.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { type Answer, ask, connectTo, headOf, PAGE } from './ask.js';

const NAME = 'model.safetensors';
const FILE = `/source/0/${NAME}`;
/** More than the buffers of a connection whose reader takes nothing. */
const BYTE_LENGTH = 16 * 2 ** 20;
const ENTRY = { name: 'a', dtype: 'U8', shape: [BYTE_LENGTH] } as const;
const FIRST = fileBytes([ENTRY]);
/** Another file of the same length. */
const OTHER = fileBytes([{ ...ENTRY, bytes: new Uint8Array(BYTE_LENGTH) }]);

let folder: string;
let path: string;
let server: PageServer;

beforeEach(async () => {
  folder = temporaryPath('folder');
  path = writeBelow(folder, NAME, FIRST);
  const { sources } = await servedSources(path, {}, new AbortController().signal);
  server = await PageServer.start({ page: PAGE, sources }, 0);
});

afterEach(async () => {
  await server.close();
});

/** A reader that has the head of an answer and takes nothing more. */
async function stalledReader(): Promise<Socket> {
  const socket = await connectTo(server);
  socket.write(headOf(server, FILE, ['Connection: close']));
  await once(socket, 'readable');
  return socket;
}

/** Takes the rest of an answer: how long its body should be, and what came. */
async function rest(socket: Socket): Promise<{ expected: number; body: Buffer }> {
  const pieces: Buffer[] = [];
  for await (const piece of socket) pieces.push(piece);
  const all = Buffer.concat(pieces);
  const end = all.indexOf('\r\n\r\n');
  const head = all.subarray(0, end).toString('latin1');
  const expected = Number(/^content-length: (\d+)$/im.exec(head)?.[1]);
  return { expected, body: all.subarray(end + 4) };
}

async function listed(): Promise<unknown> {
  return JSON.parse((await ask(server, '/sources.json')).body.toString()).sources[0].files;
}

async function expectGone(): Promise<void> {
  const { status, body } = await ask(server, FILE, { headers: { Range: 'bytes=0-7' } });
  expect([status, body.toString()]).toEqual([404, 'the file is gone\n']);
  expect(await listed()).toEqual([]);
}

function tagOf({ headers }: Answer): string {
  expect(headers.etag).toMatch(/^"[\w-]+"$/);
  return headers.etag as string;
}

describe('an answer under way breaks off', () => {
  it.each<[string, () => void]>([
    ['is cut short', () => truncateSync(path, 1000)],
    ['is emptied', () => truncateSync(path, 0)],
    ['grows', () => appendFileSync(path, 'more')],
    ['is written over', () => writeFileSync(path, OTHER, { flag: 'r+' })],
    ['is truncated and rewritten', () => writeFileSync(path, OTHER)],
    ['only gets another time', () => utimesSync(path, 1, 1)],
  ])('when the file %s', async (_, change) => {
    const reader = await stalledReader();
    change();
    const { expected, body } = await rest(reader);
    expect(expected).toBeGreaterThan(BYTE_LENGTH);
    expect(body.length).toBeLessThan(expected);
    expect(body.equals(FIRST.subarray(0, body.length))).toBe(true);
    expect((await ask(server, '/sources.json')).status).toBe(200);
  });
});

describe('an answer under way goes on with the bytes it began with', () => {
  it.each<[string, () => void]>([
    ['is removed', () => rmSync(path)],
    ['is moved away', () => renameSync(path, `${path}.old`)],
    ['gives way to another', () => renameSync(writeBelow(folder, 'new', OTHER), path)],
  ])('when the file %s', async (_, change) => {
    const reader = await stalledReader();
    change();
    const { expected, body } = await rest(reader);
    expect(expected).toBe(FIRST.length);
    expect(body.equals(FIRST)).toBe(true);
  });
});

describe('the next request', () => {
  it('gets the new version, and a 412 if it wants the old one', async () => {
    const old = tagOf(await ask(server, FILE, { method: 'HEAD' }));
    for (const change of [
      () => renameSync(writeBelow(folder, 'new', OTHER), path),
      () => appendFileSync(path, 'more'),
      () => truncateSync(path, 5000),
      () => utimesSync(path, 1, 1),
    ]) {
      const before = tagOf(await ask(server, FILE, { method: 'HEAD' }));
      change();
      const headers = { Range: 'bytes=0-99', 'If-Match': before };
      expect((await ask(server, FILE, { headers })).status).toBe(412);
      const now = await ask(server, FILE, { headers: { Range: 'bytes=0-99' } });
      expect([now.status, now.body.length]).toEqual([206, 100]);
      expect([old, before]).not.toContain(tagOf(now));
    }
  });

  it('beyond the end of a file that was cut short gets a 416 with the length of now', async () => {
    truncateSync(path, 1000);
    const { status, headers } = await ask(server, FILE, { headers: { Range: 'bytes=1000-1999' } });
    expect([status, headers['content-range']]).toEqual([416, 'bytes */1000']);
    expect(await listed()).toMatchObject([{ name: NAME, size: 1000 }]);
    truncateSync(path, 0);
    const empty = await ask(server, FILE, { headers: { Range: 'bytes=0-' } });
    expect([empty.status, empty.headers['content-range']]).toEqual([416, 'bytes */0']);
  });

  it('for a file that is removed gets a 404, and the file once it is back', async () => {
    rmSync(path);
    await expectGone();
    writeFileSync(path, OTHER);
    expect((await ask(server, FILE, { headers: { Range: 'bytes=0-7' } })).status).toBe(206);
    expect(await listed()).toMatchObject([{ name: NAME }]);
  });
});

describe.skipIf(process.platform === 'win32')('nothing is sent of', () => {
  const secret = (): string => writeBelow(temporaryPath('outside'), NAME, 'secret');

  it.each<[string, () => void]>([
    ['a link', () => symlinkSync(secret(), path)],
    ['a link to its own folder', () => symlinkSync('.', path)],
    ['a link to a file that is served', () => symlinkSync(writeBelow(folder, 'x', OTHER), path)],
    ['a link to itself', () => symlinkSync(NAME, path)],
    ['a folder', () => mkdirSync(path)],
    ['a pipe', () => execFileSync('mkfifo', [path])],
  ])('%s that takes the place of a file', async (_, replace) => {
    rmSync(path);
    replace();
    await expectGone();
  });

  it('a folder that takes the place of that of a file, by a link', async () => {
    const outside = join(secret(), '..');
    renameSync(folder, `${folder}.old`);
    symlinkSync(outside, folder);
    await expectGone();
    // Nor if it leads to the file itself: the path is another.
    rmSync(folder);
    symlinkSync(`${folder}.old`, folder);
    await expectGone();
    rmSync(folder);
    renameSync(`${folder}.old`, folder);
    expect(await listed()).toMatchObject([{ name: NAME }]);
  });
});
