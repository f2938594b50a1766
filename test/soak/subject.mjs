/**
 * The process that the soak watches: lanes in the main thread, and workers that start and are ended at random. Now
 * and then it rests: no worker, no operation, garbage collected. The memory, descriptors and mappings that remain are
 * the package's. Its parent takes the samples. Started under a small limit of descriptors.
 */
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep, setImmediate as yieldNow } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Worker } from 'node:worker_threads';
import { safeOpenAsync, saveFile } from 'safetensors-mmap';
import { Lane, OPERATION_NAMES, SHARED_MODELS } from './lane.mjs';
import { LoopClock } from './loop-clock.mjs';
import { checkTensors, identityOf, makeMetadata, makeTensors } from './models.mjs';
import { Random } from './random.mjs';
import { SHARED_ROWS } from './writing.mjs';

const LANES = 6;
const WORKERS = 3;
const WORKER_MS = 4000;

/** Files that stay open over rests, and are replaced one by one. */
const SHELF = 8;

// Node's client gives a connection that is not used up after this long; see the server.
const SOCKETS_MS = 2500;

const { folder, seed, server, restMs } = JSON.parse(process.argv[2]);
const shared = join(folder, 'shared');
const counts = new Int32Array(new SharedArrayBuffer(4 * OPERATION_NAMES.length));
const random = new Random(seed);
const clock = new LoopClock();
const shelf = [];
const errors = [];
let isResting = false;
let isOver = false;
let workerCount = 0;
let leftBehind = 0;

function note(error) {
  errors.push(typeof error === 'string' ? error : inspect(error));
}

function settings(name) {
  const laneFolder = join(folder, name);
  return { seed: random.below(2 ** 32), folder: laneFolder, shared, server, counts };
}

/** Runs workers one after the other, each for a random time, until a rest. */
async function runWorkers(place) {
  while (!isResting) {
    const options = settings(`worker-${place}`);
    const worker = new Worker(new URL('worker.mjs', import.meta.url), {
      workerData: options,
      resourceLimits: { maxOldGenerationSizeMb: 128 },
    });
    workerCount++;
    worker.on('error', note);
    // Node itself leaves the descriptor of a module open that it loads while the worker is ended.
    await once(worker, 'message');
    let isEnding = false;
    // While Node ends a worker, its calls of addons fail already: ignore its last messages.
    worker.on('message', (error) => isEnding || note(error));
    const end = performance.now() + random.below(WORKER_MS);
    while (!isResting && performance.now() < end) await sleep(20);
    isEnding = true;
    await worker.terminate();
    await rm(options.folder, { recursive: true, force: true });
  }
}

/** Opens, looks at and replaces the files that stay open over rests. */
async function tendShelf() {
  while (!isResting) {
    const place = random.below(SHELF);
    const { file } = shelf[place];
    await checkTensors(file, identityOf(file));
    if (random.chance(0.3)) {
      if (random.chance(0.5)) file.close();
      shelf[place] = { file: await safeOpenAsync(lanes[0].sharedModel()) };
    }
    await sleep(random.below(50));
  }
}

/** Removes leftovers of workers that were ended during a save; nothing else may be there. */
async function sweep() {
  for (const name of await readdir(shared)) {
    if (/^\d\.safetensors$/.test(name)) continue;
    if (/^\.safetensors-mmap-[0-9a-f]{16}\.tmp$/.test(name)) leftBehind++;
    else note(`left in the folder: ${name}`);
    await rm(join(shared, name));
  }
}

/** Collects garbage, and waits until unused connections have closed. */
async function settle() {
  const end = performance.now() + SOCKETS_MS;
  do {
    for (let round = 0; round < 4; round++) {
      globalThis.gc();
      for (let turn = 0; turn < 5; turn++) await yieldNow();
    }
    await sleep(50);
  } while (
    performance.now() < end &&
    process.getActiveResourcesInfo().some((name) => name.startsWith('TCP'))
  );
}

function handles() {
  const names = process.getActiveResourcesInfo().toSorted();
  return Object.fromEntries(
    names.map((name) => [name, names.filter((other) => other === name).length]),
  );
}

/** Announces a state to the parent, and waits for its sample. */
async function report(kind, loop) {
  const answered = new Promise((resolve) => process.once('message', resolve));
  process.send({
    kind,
    loop,
    memory: process.memoryUsage(),
    handles: handles(),
    counts: Object.fromEntries(OPERATION_NAMES.map((name, i) => [name, counts[i]])),
    workerCount,
    leftBehind,
    errors: errors.splice(0),
  });
  ({ isOver } = await answered);
}

const orphaned = () => process.exit(1);
process.once('disconnect', orphaned);
mkdirSync(shared, { recursive: true });
for (let i = 0; i < SHARED_MODELS; i++) {
  const metadata = makeMetadata(i, SHARED_ROWS);
  await saveFile(join(shared, `${i}.safetensors`), await makeTensors(i, SHARED_ROWS), { metadata });
}
const lanes = Array.from(
  { length: LANES },
  (_, i) => new Lane({ ...settings(`lane-${i}`), isMain: true }),
);
for (let i = 0; i < SHELF; i++) shelf.push({ file: await safeOpenAsync(lanes[0].sharedModel()) });

while (!isOver) {
  isResting = false;
  clock.restart();
  const work = [
    ...lanes.map((lane) => lane.work(() => isResting)),
    ...Array.from({ length: WORKERS }, (_, place) => runWorkers(place)),
    tendShelf(),
  ].map((promise) => promise.catch(note));
  await sleep(restMs);
  const loop = clock.stop();
  isResting = true;
  await Promise.all(work);
  for (const lane of lanes) lane.kept = [];
  await sweep();
  await settle();
  await report('rest', loop);
}
clock.close();
for (const { file } of shelf) file.close();
rmSync(folder, { recursive: true, force: true });
process.off('disconnect', orphaned);
process.disconnect();
