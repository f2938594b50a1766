/** Keeps the connections of a server few: a new one takes the place of that which has asked nothing for longest. */

import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * The open connections of a server, at most `maxCount` of them. A server that closed the surplus would be blocked by
 * whoever opens enough of them; here the page gets its connection, and slow readers lose theirs.
 */
export class Connections {
  readonly #maxCount: number;
  /** In the order of their last requests; those without one in the order of their beginnings. */
  readonly #sockets = new Set<Socket>();

  constructor(server: Server, maxCount: number) {
    this.#maxCount = maxCount;
    server.on('connection', (socket: Socket) => this.#add(socket));
  }

  /** Puts off the end of a connection that has sent a request. */
  asked(socket: Socket): void {
    if (this.#sockets.delete(socket)) this.#sockets.add(socket);
  }

  #add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    if (this.#sockets.size <= this.#maxCount) return;
    const [oldest] = this.#sockets as Iterable<Socket> as [Socket];
    this.#sockets.delete(oldest);
    oldest.destroy();
  }
}
