/** The recipe of docs/servers.md in a server: 1,200 versions, with requests in flight all the time. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type Checkpoint, safeOpen, saveCheckpoint, saveFile, watch } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';

const NAMES = ['a', 'b', 'c'];

/** A server whose answers are the values of all tensors, as two reads with a pause between them find them. */
async function serve(path: string) {
  let swaps = 0;
  const errors: unknown[] = [];
  const watcher = watch(
    path,
    async (error, next) => {
      if (error !== null) {
        errors.push(error);
        return;
      }
      await next.prefetch();
      current.close();
      current = next;
      swaps++;
    },
    { settle: 0 },
  );
  let current: Checkpoint = safeOpen(path);
  const server = createServer(async (_, response) => {
    const tensors = NAMES.map((name) => current.getTensor(name));
    const values = tensors.map(({ data }) => data[0]);
    await delay(2);
    values.push(...tensors.map(({ data }) => data[0]));
    response.end(JSON.stringify(values));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    errors,
    swaps: () => swaps,
    version: () => current.getTensor('a').data[0] as number,
    close: async () => {
      server.close();
      server.closeAllConnections();
      watcher.close();
      current.close();
    },
  };
}

const tensorsOf = (value: number) =>
  Object.fromEntries(
    NAMES.map((name) => [
      name,
      { dtype: 'F64', shape: [1], data: Float64Array.of(value) } as const,
    ]),
  );

const saves = {
  file: (path: string, value: number) => saveFile(path, tensorsOf(value), { durable: false }),
  folder: (path: string, value: number) =>
    saveCheckpoint(path, tensorsOf(value), { maxShardSize: 8, durable: false }),
};

/** Of every burst of versions the last must be served before the next is written; others may be replaced before. */
const swaps = [
  ['file', 1000, 1],
  ['folder', 200, 2],
] as const;

it.each(swaps)(
  'swaps a %s: no request fails or mixes versions',
  { timeout: 600_000 },
  async (kind, versions, burst) => {
    const save = saves[kind];
    const path = join(temporaryPath(kind));
    await save(path, 0);
    const before = openDescriptors().length;
    const server = await serve(path);
    let version = 0;
    let isDone = false;
    let answers = 0;
    const seen = new Set<number>();
    const ask = async (): Promise<void> => {
      while (!isDone) {
        const values = (await (await fetch(server.url)).json()) as number[];
        expect(new Set(values).size).toBe(1);
        expect(values[0]).toBeLessThanOrEqual(version);
        seen.add(values[0] as number);
        answers++;
      }
    };
    const requests = Array.from({ length: 4 }, ask);
    while (version < versions) {
      version++;
      await save(path, version);
      while (version % burst === 0 && server.version() < version) await delay(1);
    }
    while (!seen.has(versions)) await delay(1);
    isDone = true;
    await Promise.all(requests);
    await server.close();
    expect(server.errors).toEqual([]);
    expect(answers).toBeGreaterThan(versions);
    expect(server.swaps()).toBeGreaterThanOrEqual(versions / burst);
    await delay(100);
    expect(openDescriptors().length).toBeLessThan(before + 20);
  },
);
