// A worker of the soak, which is ended at any moment.

import { inspect } from 'node:util';
import { parentPort, workerData } from 'node:worker_threads';
import { Lane } from './lane.mjs';

parentPort.postMessage('loaded');
try {
  await new Lane({ ...workerData, isMain: false }).work(() => false);
} catch (error) {
  parentPort.postMessage(inspect(error));
}
