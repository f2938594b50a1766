/**
 * Files as the lanes write them: in workers on their own thread. When a worker is ended, Node cancels its calls that wait for
 * the thread pool: an open descriptor that was to be closed then stays open, and the soak would count Node's leak.
 */
import * as fs from 'node:fs';
import { promisify } from 'node:util';
import { isMainThread } from 'node:worker_threads';

function callOf(asynchronous, synchronous) {
  return isMainThread ? promisify(asynchronous) : async (...args) => synchronous(...args);
}

export const makeFolder = callOf(fs.mkdir, fs.mkdirSync);
export const namesIn = callOf(fs.readdir, fs.readdirSync);
export const cutFile = callOf(fs.truncate, fs.truncateSync);
export const putFile = callOf(fs.writeFile, fs.writeFileSync);
