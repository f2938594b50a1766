/** Shards that are opened between other events, and names that are looked up in turns. */
import { dirname } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { Checkpoint } from '../../../src/file/checkpoint/checkpoint.js';
import { findSource, modelFiles } from '../../../src/file/checkpoint/find-source.js';
import { LazyShards } from '../../../src/file/checkpoint/lazy-shards.js';
import { placesIn, worksIn } from '../../../src/file/checkpoint/transfer-shards.js';
import type { SafetensorsFile } from '../../../src/file/file.js';
import { openFile } from '../../../src/file/open.js';
import { Catalog } from '../../../src/file/source/catalog.js';
import { runSync, type Work } from '../../../src/work/work.js';
import { saveCheckpoint, type Tensor } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

const COUNT = 12;
const names = Array.from({ length: COUNT }, (_, i) => `t${String(i).padStart(2, '0')}`);

let shards: LazyShards;
let checkpoint: Checkpoint;
/** How many files were opened, and how many were open at once. */
let [opened, openNow, mostOpen] = [0, 0, 0];

/** Counts from before the system is asked, as a descriptor is taken then. */
function* countedOpen(path: string): Work<SafetensorsFile> {
  opened++;
  mostOpen = Math.max(mostOpen, ++openNow);
  const file = yield* openFile(path, {});
  const close = file.close.bind(file);
  file.close = (options) => {
    openNow--;
    close(options);
  };
  return file;
}

async function open(count: number, maxShardSize: number): Promise<void> {
  const folder = dirname(temporaryPath('model.safetensors'));
  const tensors = Array.from({ length: count }, (_, i): [string, object] => {
    const data = Float32Array.of(i, -i);
    return [`t${String(i).padStart(2, '0')}`, { dtype: 'F32', shape: [2], data }];
  });
  await saveCheckpoint(folder, Object.fromEntries(tensors) as never, {
    maxShardSize,
    durable: false,
  });
  shards = new LazyShards(modelFiles(runSync(findSource(folder, {}))), countedOpen);
  [opened, openNow, mostOpen] = [0, 0, 0];
  checkpoint = Checkpoint.of(shards);
}

beforeEach(() => open(COUNT, 8));

function valuesOf(tensors: ReadonlyMap<string, Tensor>): [string, number][] {
  return Array.from(tensors, ([name, tensor]) => [name, tensor.toFloat32()[0] as number]);
}

const all = names.map((name, i): [string, number] => [name, i]);

/** The most shards that any turn of the event loop has opened, until the work ends. */
async function mostOfTurn(work: () => Promise<unknown>): Promise<number> {
  let [most, before, isDone] = [0, 0, false];
  const done = work().finally(() => {
    isDone = true;
  });
  for (;;) {
    most = Math.max(most, shards.opened.size - before);
    before = shards.opened.size;
    if (isDone) break;
    await setImmediate();
  }
  await done;
  return most;
}

describe.each<[string, () => Promise<unknown>]>([
  ['readTensors of all', () => checkpoint.readTensors()],
  ['readTensors of names', () => checkpoint.readTensors(names)],
  ['prefetch of all', () => checkpoint.prefetch()],
  ['prefetch of names', () => checkpoint.prefetch(names)],
])('%s', (_, work) => {
  it('opens no more shards in a turn than are opened at once', async () => {
    const opening = work();
    expect(shards.opened.size).toBe(0);
    await opening;
    expect(shards.opened.size).toBe(COUNT);
    checkpoint.close();
    await open(COUNT, 8);
    expect(await mostOfTurn(work)).toBeLessThanOrEqual(3);
    checkpoint.close();
  });
});

it('has a turn for some hundred tensors', async () => {
  await open(3000, 12_000);
  const catalog = new Catalog(shards, []);
  const count = (work: Work<unknown>): number => {
    let turns = 0;
    for (let next = work.next(); next.done !== true; ) {
      const call = next.value;
      if (call === undefined) turns++;
      next = work.next(call?.sync?.());
    }
    return turns;
  };
  const listed = checkpoint.keys();
  expect(count(placesIn(shards, catalog, listed))).toBeGreaterThanOrEqual(2 * (3000 / 256));
  expect(count(placesIn(shards, catalog, undefined))).toBeGreaterThanOrEqual(3000 / 256);
  expect(count(worksIn(shards, catalog, listed))).toBeGreaterThanOrEqual(3 * (3000 / 256));
  checkpoint.close();
});

it('reads what was asked for, although the checkpoint is closed at once', async () => {
  const given = [...names].reverse();
  const reading = checkpoint.readTensors(given);
  given.length = 0;
  checkpoint.close();
  expect(() => checkpoint.getTensor('t01')).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' }),
  );
  await expect(checkpoint.readTensors()).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  expect(valuesOf(await reading)).toEqual(all.toReversed());
  expect(shards.opened.size).toBe(0);
});

it('goes on for each of several readers, until the last is done', async () => {
  const first = checkpoint.readTensors(['t03']);
  const second = checkpoint.readTensors();
  checkpoint.close();
  await first;
  expect(valuesOf(await second)).toEqual(all);
  expect(shards.opened.size).toBe(0);
});

it('ends with a close that detaches', async () => {
  const reading = checkpoint.readTensors();
  checkpoint.close({ detach: true });
  await expect(reading).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  expect(shards.opened.size).toBe(0);
});

it('knows all names before it opens a shard', async () => {
  for (const work of ['readTensors', 'prefetch'] as const) {
    await expect(checkpoint[work](['t01', 'none'])).rejects.toMatchObject({
      code: 'SAFETENSORS_TENSOR_NOT_FOUND',
    });
    await expect(checkpoint[work]('t01')).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  }
  expect(shards.opened.size).toBe(0);
  checkpoint.close();
});

describe('many calls at once', () => {
  const calls = (call: () => Promise<unknown>): Promise<unknown> =>
    Promise.all(Array.from({ length: 100 }, call));

  it.each<[string, () => Promise<unknown>]>([
    ['tensors', () => checkpoint.tensors()],
    ['readTensors', () => checkpoint.readTensors()],
    ['readTensors of names', () => checkpoint.readTensors(names)],
    ['prefetch', () => checkpoint.prefetch()],
  ])('of %s open each shard once', async (_, call) => {
    await calls(call);
    expect(opened).toBe(COUNT);
  });

  it('of headers open one file of each shard at a time, and leave none open', async () => {
    await calls(() => checkpoint.headers());
    expect(mostOpen).toBeLessThanOrEqual(COUNT);
    expect(openNow).toBe(0);
  });
});
