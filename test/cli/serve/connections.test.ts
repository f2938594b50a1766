/** The server closes the connection that has been idle longest for a new one beyond the maximum. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Connections } from '../../../src/cli/serve/connections.js';

let server: Server;
let connections: Connections;

beforeEach(async () => {
  server = createServer();
  connections = new Connections(server, 3);
  await once(server.listen(0, '127.0.0.1'), 'listening');
});

afterEach(() => void server.close());

/** A connection: the side of the reader, that of the server, and whether it has been closed. */
async function open(): Promise<{ reader: Socket; served: Socket; isClosed: () => boolean }> {
  const accepted = once(server, 'connection');
  const reader = connect((server.address() as AddressInfo).port, '127.0.0.1').resume();
  const [served] = await accepted;
  return { reader, served, isClosed: () => served.destroyed };
}

it('a new connection takes the place of the one whose last request is the oldest', async () => {
  const opened = [await open(), await open(), await open()];
  const closed = (): boolean[] => opened.map(({ isClosed }) => isClosed());
  expect(closed()).toEqual([false, false, false]);
  connections.asked(opened[0]?.served as Socket);
  opened.push(await open());
  expect(closed()).toEqual([false, true, false, false]);
  opened.push(await open());
  expect(closed()).toEqual([false, true, true, false, false]);
  opened.push(await open());
  expect(closed()).toEqual([true, true, true, false, false, false]);
  for (const { reader } of opened) reader.destroy();
});

it('a connection that ended leaves its place', async () => {
  const opened = [await open(), await open(), await open()];
  const [first] = opened as [(typeof opened)[0]];
  const gone = once(first.served, 'close');
  first.reader.destroy();
  await gone;
  opened.push(await open());
  expect(opened.slice(1).map(({ isClosed }) => isClosed())).toEqual([false, false, false]);
  for (const { reader } of opened) reader.destroy();
});
