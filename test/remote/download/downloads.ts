/** Downloads from a Hub on this machine, and connections that break. */
import { mkdirSync, readdirSync } from 'node:fs';
import { afterAll, beforeAll } from 'vitest';
import type { HubSettings } from '../../../src/file/hub/settings.js';
import { REPOSITORY_RECORD } from '../../../src/platform/io/temporary-names.js';
import {
  type DownloadResult,
  type RunOptions,
  runDownload,
} from '../../../src/remote/download/run-download.js';
import { type Files, type HubRepository, HubServer } from '../../support/hub-server.js';
import { countedBytes, fileBytes, temporaryPath } from '../../support/make-file.js';

/** Long enough for several pieces. */
export const LARGE_BYTE_LENGTH = 10_000_000;

export const CONFIG = '{"model_type":"test"}';

/** Two shards and an index, files next to them, and files that are left out. */
export const SHARDED: Files = {
  'model-00001-of-00002.safetensors': fileBytes([
    { name: 'embed', dtype: 'U8', shape: [LARGE_BYTE_LENGTH], bytes: noise(LARGE_BYTE_LENGTH) },
  ]),
  'model-00002-of-00002.safetensors': fileBytes([{ name: 'norm', dtype: 'U8', shape: [4] }]),
  'model.safetensors.index.json': JSON.stringify({
    metadata: { total_size: LARGE_BYTE_LENGTH + 4 },
    weight_map: {
      embed: 'model-00001-of-00002.safetensors',
      norm: 'model-00002-of-00002.safetensors',
    },
  }),
  'config.json': CONFIG,
  'tokenizer.json': '{}',
  'pytorch_model.bin': 'weights of another format',
  '.gitattributes': '*.safetensors filter=lfs',
  'onnx/config.json': '{}',
};

export const SINGLE: Files = {
  'model.safetensors': fileBytes([
    { name: 'embed', dtype: 'U8', shape: [LARGE_BYTE_LENGTH], bytes: noise(LARGE_BYTE_LENGTH) },
  ]),
  'config.json': CONFIG,
};

/** Length of the headers of `startedNoise`. */
const STARTED_HEADER_LENGTH = 80;

/** Bytes in which no two places look alike. */
export function noise(byteLength: number, seed = 1): Uint8Array {
  const words = new Uint32Array(Math.ceil(byteLength / 4));
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, byteLength);
}

/** The same as the only tensor of a safetensors file of that length. */
export function startedNoise(byteLength: number, seed = 1): Uint8Array {
  const bytes = noise(byteLength, seed);
  const length = byteLength - 8 - STARTED_HEADER_LENGTH;
  const header = `{"t":{"dtype":"U8","shape":[${length}],"data_offsets":[0,${length}]}}`;
  bytes.set([STARTED_HEADER_LENGTH, 0, 0, 0, 0, 0, 0, 0]);
  bytes.set(new TextEncoder().encode(header.padEnd(STARTED_HEADER_LENGTH)), 8);
  return bytes;
}

/** A Hub for the tests of a file. */
export function useHub(repositories: Readonly<Record<string, HubRepository>>): () => HubServer {
  let hub: HubServer | undefined;
  beforeAll(async () => {
    hub = await HubServer.start(repositories);
  });
  afterAll(() => hub?.close());
  return () => hub as HubServer;
}

export function settingsOf(hub: HubServer): HubSettings {
  return { endpoint: hub.url, isOffline: false, readToken: () => undefined };
}

/** Downloads with short waits between tries. */
export async function downloadFrom(
  hub: HubServer,
  source: string | URL,
  target: string,
  options: Partial<RunOptions> = {},
): Promise<DownloadResult> {
  return await runDownload(
    source,
    target,
    { durable: false, firstDelayMs: 1, ...options },
    settingsOf(hub),
  );
}

/** A new folder. */
export function emptyFolder(name: string): string {
  const folder = temporaryPath(name);
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** Names in a folder, sorted, without the record of its repository. */
export function namesIn(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name !== REPOSITORY_RECORD)
    .sort();
}

/** A `fetch` whose connections break for good once so many bytes of large files have come. */
export function breakingFetch(byteLength: number): typeof fetch {
  let left = byteLength;
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!String(input).includes('/blobs/') && !String(input).includes('/files/')) return response;
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const length = Math.min(chunk.length, left);
        left -= length;
        if (length > 0) controller.enqueue(chunk.subarray(0, length));
        if (length < chunk.length) controller.error(new TypeError('the line is cut'));
      },
    });
    const { status, headers } = response;
    return new Response(response.body?.pipeThrough(cut) ?? null, { status, headers });
  };
}

export { countedBytes };
