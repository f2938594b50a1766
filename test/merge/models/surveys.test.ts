/** Surveys of all rows: what they retain, and callers that share one. */
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import {
  type Checkpoint,
  type MergedInfo,
  mergeAdapters,
  mergeModels,
  openRemote,
  type RemoteCheckpoint,
  serialize,
} from '../../support/api.js';
import { checkpoint, type Tensors, valuesOf } from '../make-adapter.js';

/** Bytes of array buffers that are still referenced. */
async function bufferBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  for (let i = 0; i < 3; i++) {
    gc();
    await new Promise(setImmediate);
  }
  return process.memoryUsage().arrayBuffers;
}

it('a view retains only little of each weight that was computed', async () => {
  const [rows, columns, count] = [64, 512, 40];
  const names = Array.from({ length: count }, (_, i) => `l.${i}`);
  const model = (factor: number): Checkpoint =>
    checkpoint(
      Object.fromEntries(
        names.map((name) => [
          name,
          valuesOf(
            [rows, columns],
            new Float32Array(rows * columns).map((_, i) => factor * (i % 97)),
          ),
        ]),
      ),
    );
  const merged = (await mergeModels({
    method: 'ties',
    base: model(1),
    models: [{ source: model(2), weight: 1, density: 0.5 }],
  })) as Checkpoint;
  const before = await bufferBytes();
  for (const name of names) merged.getTensor(name).toFloat32();
  expect((await bufferBytes()) - before).toBeLessThan(4e6);
});

const FIRST = new Error('the first caller gives up');

/** Contents whose reads wait for the test. */
class WatchedBlob extends Blob {
  onRead: (() => Promise<void>) | undefined;

  override slice(begin?: number, end?: number, type?: string): Blob {
    const waited = this.onRead?.();
    const part = super.slice(begin, end, type);
    return Object.assign(part, {
      arrayBuffer: async () => {
        await waited;
        return await Blob.prototype.arrayBuffer.call(part);
      },
    });
  }
}

function blobOf(tensors: Tensors): WatchedBlob {
  return new WatchedBlob([serialize(new Map(checkpoint(tensors)) as never)]);
}

/** Aborts the first of two callers of a weight while it reads, and returns what the second one gets. */
async function sharedRead(
  merged: RemoteCheckpoint,
  name: string,
  blob: WatchedBlob,
): Promise<number[]> {
  const controller = new AbortController();
  blob.onRead = async () => {
    blob.onRead = undefined;
    await new Promise(setImmediate);
    controller.abort(FIRST);
    await new Promise(setImmediate);
  };
  const first = merged.getTensor(name, { signal: controller.signal });
  const aborted = expect(first).rejects.toBe(FIRST);
  const second = merged.getTensor(name);
  const [values] = await Promise.all([second, aborted]);
  return [...values.toFloat32()];
}

it('a caller that gives up leaves the survey of a model to others', async () => {
  const base = { x: valuesOf([2, 2], [1, 2, 3, 4]) };
  const other = { x: valuesOf([2, 2], [2, 2, 3, 9]) };
  const blob = blobOf(base);
  const merged = (await mergeModels({
    method: 'ties',
    base: await openRemote(blob),
    models: [{ source: await openRemote(blobOf(other)), weight: 1, density: 0.25 }],
  })) as RemoteCheckpoint;
  expect(await sharedRead(merged, 'x', blob)).toEqual([1, 2, 3, 9]);
});

it('a caller that gives up leaves the survey of an adapter to others', async () => {
  const base = { 'x.weight': valuesOf([2, 2], [3, 0, 4, 2]) };
  const adapter = checkpoint({
    'lora_unet_x.lora_down.weight': valuesOf([1, 2], [0, 0]),
    'lora_unet_x.lora_up.weight': valuesOf([2, 1], [0, 0]),
    'lora_unet_x.dora_scale': valuesOf([1, 2], [10, 2]),
  });
  const blob = blobOf(base);
  const merged = await mergeAdapters(await openRemote(blob), [adapter]);
  const values = await sharedRead(merged as RemoteCheckpoint & MergedInfo, 'x.weight', blob);
  expect(values.map((value) => Number(value.toFixed(4)))).toEqual([6, 0, 8, 2]);
});
