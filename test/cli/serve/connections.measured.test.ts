/** Hundreds of readers at once, each a slow one: the server's memory, its descriptors, and those who ask meanwhile. */
import { spawn } from 'node:child_process';
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
import { afterAll, beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import { root } from '../../support/source-tree.js';
import { ask, connectTo, headOf } from './ask.js';

/** More than the server has connections. */
const READERS = nightly(1000, 300);
/** The server has no more than these. */
const MAX_CONNECTIONS = 256;
const NAME = 'model.safetensors';
const FILE = `/source/0/${NAME}`;
/** Of the file: more than the buffers of a connection take. */
const BYTE_LENGTH = 16 * 2 ** 20;
/** What a reader takes at a time. */
const PIECE_BYTE_LENGTH = 4096;
const MAX_SERVER_BYTES = 100e6;

let path: string;

beforeAll(() => {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  path = writeBelow(folder, NAME, fileBytes([{ name: 'a', dtype: 'U8', shape: [0] }]));
  // Zeros that take no room on the disk.
  truncateSync(path, BYTE_LENGTH);
});

afterAll(() => rmSync(dirname(path), { recursive: true }));

/** A process that serves the file. */
interface ServerProcess {
  readonly address: string;
  readonly pid: number | undefined;
}

/** Starts a server, which ends with the test. */
async function startServer(onTestFinished: TestContext['onTestFinished']): Promise<ServerProcess> {
  const args = [join(root, 'lib/cli.js'), 'serve', '--json', path];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGINT');
    await ended;
  });
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  return { address: JSON.parse(line).address, pid: child.pid };
}

/** The most memory that the server has had so far. */
function memoryOf({ pid }: ServerProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

/** How often the server has the file open. */
function openFiles({ pid }: ServerProcess): number {
  const folder = `/proc/${pid}/fd`;
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
async function slowReader(server: ServerProcess): Promise<Socket> {
  const socket = await connectTo(server);
  socket.write(headOf(server, FILE, ['Connection: close']));
  await takePiece(socket);
  return socket;
}

/** Somebody else gets answers. */
async function expectAnswers(server: ServerProcess): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const page = await ask(server, '/sources.json', { agent });
  const headers = { Range: `bytes=${BYTE_LENGTH - 100_000}-` };
  const range = await ask(server, FILE, { agent, headers });
  agent.destroy();
  expect([page.status, range.status, range.body.length]).toEqual([200, 206, 100_000]);
}

// At the same time, as one of them waits for a limit of ten seconds.
describe.skipIf(process.platform !== 'linux')(
  `${READERS} connections`,
  { concurrent: true },
  () => {
    it('of slow readers take little memory, keep nobody waiting, and the last of them get everything', async ({
      expect,
      onTestFinished,
    }) => {
      const server = await startServer(onTestFinished);
      const readers: Socket[] = [];
      for (let i = 0; i < READERS; i++) {
        readers.push(await slowReader(server));
        if (i % 100 === 99) await expectAnswers(server);
      }
      // They go on, a little at a time, and others are answered between.
      for (let round = 0; round < 3; round++) {
        await Promise.all(readers.map(takePiece));
        await expectAnswers(server);
      }
      expect(memoryOf(server)).toBeLessThan(MAX_SERVER_BYTES);
      expect(openFiles(server)).toBeLessThanOrEqual(MAX_CONNECTIONS);
      const [last] = readers.slice(-1) as [Socket];
      while (await takePiece(last));
      expect(last.bytesRead).toBeGreaterThan(BYTE_LENGTH);
      for (const reader of readers) reader.destroy();
      await expect.poll(() => openFiles(server)).toBe(0);
      expect(memoryOf(server)).toBeLessThan(MAX_SERVER_BYTES);
    });

    it('at once, all of which ask together, leave the server answering', async ({
      expect,
      onTestFinished,
    }) => {
      const server = await startServer(onTestFinished);
      const readers = await Promise.all(Array.from({ length: READERS }, () => slowReader(server)));
      await expectAnswers(server);
      expect(openFiles(server)).toBeLessThanOrEqual(MAX_CONNECTIONS);
      expect(memoryOf(server)).toBeLessThan(MAX_SERVER_BYTES);
      for (const reader of readers) reader.destroy();
      await expect.poll(() => openFiles(server)).toBe(0);
    });

    it('that never finish their requests leave the server answering, and are closed', async ({
      expect,
      onTestFinished,
    }) => {
      const server = await startServer(onTestFinished);
      const connected = Array.from({ length: READERS }, () => connectTo(server));
      const sockets = await Promise.all(connected);
      const closed = sockets.map((socket) => closing(socket.resume()));
      for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nHost: ');
      await expectAnswers(server);
      await Promise.all(closed);
      expect(memoryOf(server)).toBeLessThan(MAX_SERVER_BYTES);
    });
  },
);
