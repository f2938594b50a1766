/** A thousand readers at once, each a slow one: the server's memory, its descriptors, and those who ask meanwhile. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  truncateSync,
} from 'node:fs';
import { Agent } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { ask, connectTo, headOf } from './ask.js';

const READERS = 1000;
/** The server has no more than these. */
const MAX_CONNECTIONS = 256;
const NAME = 'model.safetensors';
const FILE = `/source/0/${NAME}`;
/** Of the file: more than the buffers of a connection take. */
const BYTE_LENGTH = 16 * 2 ** 20;
/** What a reader takes at a time. */
const PIECE_BYTE_LENGTH = 4096;
const MAX_SERVER_BYTES = 100e6;

let child: ChildProcess;
let server: { readonly address: string };
let path: string;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  path = writeBelow(folder, NAME, fileBytes([{ name: 'a', dtype: 'U8', shape: [0] }]));
  // Zeros that take no room on the disk.
  truncateSync(path, BYTE_LENGTH);
  const args = [join(root, 'lib/cli.js'), 'serve', '--json', path];
  child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const [line] = await once(lines, 'line');
  server = JSON.parse(line as string);
});

afterAll(async () => {
  const ended = once(child, 'exit');
  child.kill('SIGINT');
  await ended;
  rmSync(dirname(path), { recursive: true });
});

/** The most memory that the server has had so far. */
function serverBytes(): number {
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

/** How often the server has the file open. */
function openFiles(): number {
  const folder = `/proc/${child.pid}/fd`;
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(join(folder, fd)) === path;
    } catch {
      return false; // Closed meanwhile.
    }
  }).length;
}

function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });
}

/** Takes a little of an answer; false once the connection has ended. */
async function takePiece(socket: Socket): Promise<boolean> {
  while (!socket.closed) {
    if (socket.read(PIECE_BYTE_LENGTH) !== null) return true;
    await new Promise<void>((resolve) => {
      const goOn = (): void => {
        socket.off('readable', goOn).off('close', goOn);
        resolve();
      };
      socket.on('readable', goOn).on('close', goOn);
    });
    // At its end there is less than a piece.
    if (socket.readableEnded || socket.readableLength < PIECE_BYTE_LENGTH) socket.read();
  }
  return false;
}

/** A reader that has asked for the whole file and taken the first piece of it. */
async function slowReader(): Promise<Socket> {
  const socket = await connectTo(server);
  socket.write(headOf(server, FILE, ['Connection: close']));
  await takePiece(socket);
  return socket;
}

/** Somebody else gets answers. */
async function expectAnswers(): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const page = await ask(server, '/sources.json', { agent });
  const headers = { Range: `bytes=${BYTE_LENGTH - 100_000}-` };
  const range = await ask(server, FILE, { agent, headers });
  agent.destroy();
  expect([page.status, range.status, range.body.length]).toEqual([200, 206, 100_000]);
}

describe.skipIf(process.platform !== 'linux')('a thousand connections', () => {
  it('of slow readers take little memory, keep nobody waiting, and the last of them get everything', async () => {
    const readers: Socket[] = [];
    for (let i = 0; i < READERS; i++) {
      readers.push(await slowReader());
      if (i % 100 === 99) await expectAnswers();
    }
    // They go on, a little at a time, and others are answered between.
    for (let round = 0; round < 3; round++) {
      await Promise.all(readers.map(takePiece));
      await expectAnswers();
    }
    expect(serverBytes()).toBeLessThan(MAX_SERVER_BYTES);
    expect(openFiles()).toBeLessThanOrEqual(MAX_CONNECTIONS);
    const [last] = readers.slice(-1) as [Socket];
    while (await takePiece(last));
    expect(last.bytesRead).toBeGreaterThan(BYTE_LENGTH);
    for (const reader of readers) reader.destroy();
    await expect.poll(openFiles).toBe(0);
    expect(serverBytes()).toBeLessThan(MAX_SERVER_BYTES);
  });

  it('at once, all of which ask together, leave the server answering', async () => {
    const readers = await Promise.all(Array.from({ length: READERS }, slowReader));
    await expectAnswers();
    expect(openFiles()).toBeLessThanOrEqual(MAX_CONNECTIONS);
    expect(serverBytes()).toBeLessThan(MAX_SERVER_BYTES);
    for (const reader of readers) reader.destroy();
    await expect.poll(openFiles).toBe(0);
  });

  it('that never finish their requests leave the server answering, and are closed', async () => {
    const sockets = await Promise.all(Array.from({ length: READERS }, () => connectTo(server)));
    const closed = sockets.map((socket) => closing(socket.resume()));
    for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nHost: ');
    await expectAnswers();
    await Promise.all(closed);
    expect(serverBytes()).toBeLessThan(MAX_SERVER_BYTES);
  });
});
