/** Random servers: what carries its proof is accepted, all else is an error, and accepted bytes are the right ones. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runDownload } from '../../src/remote/download/run-download.js';
import { openRemote } from '../support/api.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';
import { nightly } from '../support/nightly.js';
import { Random } from '../support/random.js';
import {
  type Behaviour,
  isDownloadable,
  isReadable,
  type Knowledge,
  RandomServer,
  randomBehaviour,
} from './random-servers.js';

/** Each is a file, a server, and a call. */
const COUNT = nightly(500, 15);

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);

let server: RandomServer;
beforeAll(async () => {
  server = await RandomServer.start();
});
afterAll(() => server.close());

const CODE = /^SAFETENSORS_/;

/** Faults of a body that the knowledge shows: others look like another file. */
const KNOWN_BODIES: Readonly<Record<Knowledge, readonly Behaviour['body'][]>> = {
  hash: ['shorter', 'longer', 'changed'],
  // What the server itself declares counts more than the length in a list.
  length: [],
  nothing: [],
};

/** Files that come whole with their header, and one that does not. */
function randomFile(random: Random): Uint8Array {
  const byteLength = random.pick([5, 1000, 60_000, 200_000, 1_500_000]);
  const bytes = Uint8Array.from({ length: byteLength }, (_, i) => (i * 7 + (i >> 8)) % 251);
  return fileBytes([{ name: 'w', dtype: 'U8', shape: [byteLength], bytes }]);
}

it(`download takes what carries its proof, and nothing else (seed ${SEED})`, async () => {
  const folder = temporaryPath('random-servers');
  mkdirSync(folder, { recursive: true });
  for (let number = 0; number < COUNT; number++) {
    const random = new Random(SEED, number);
    const bytes = randomFile(random);
    const knowledge = random.pick<Knowledge>(['hash', 'length', 'nothing']);
    const behaviour = randomBehaviour(random, KNOWN_BODIES[knowledge]);
    const about = `number ${number}: ${bytes.length} bytes, ${knowledge}, ${JSON.stringify(behaviour)}`;
    server.served = { bytes, behaviour, knowledge };
    const target = join(folder, `${number}.safetensors`);
    const file = 'org/name/resolve/main/model.safetensors';
    const source =
      knowledge === 'nothing' ? `${server.url}/model.safetensors` : `${server.url}/${file}`;
    const endpoint = knowledge === 'nothing' ? 'https://huggingface.co' : server.url;
    const settings = { endpoint, isOffline: false, readToken: () => undefined };
    const options = { durable: false, firstDelayMs: 1, token: 'hf_secret' };
    let error: unknown;
    try {
      await runDownload(source, target, options, settings);
    } catch (thrown) {
      error = thrown;
    }
    expect(new Set(server.leaks).has('Bearer hf_secret'), about).toBe(false);
    if (isDownloadable(behaviour, bytes.length, knowledge)) {
      expect(error, about).toBeUndefined();
      expect(readFileSync(target).equals(bytes), about).toBe(true);
    } else {
      expect(String(Object(error).code), about).toMatch(CODE);
      expect(existsSync(target), about).toBe(false);
    }
  }
});

it(`openRemote reads what carries its proof, and nothing else (seed ${SEED})`, async () => {
  for (let number = 0; number < COUNT; number++) {
    const random = new Random(SEED, 1000 + number);
    const bytes = randomFile(random);
    const behaviour = randomBehaviour(random, ['shorter', 'longer']);
    const about = `number ${number}: ${bytes.length} bytes, ${JSON.stringify(behaviour)}`;
    server.served = { bytes, behaviour, knowledge: 'nothing' };
    let error: unknown;
    let read: Uint8Array | undefined;
    try {
      const checkpoint = await openRemote(`${server.url}/model.safetensors`);
      read = (await checkpoint.getTensor('w')).bytes;
      checkpoint.close();
    } catch (thrown) {
      error = thrown;
    }
    if (isReadable(behaviour, bytes.length)) {
      expect(error, about).toBeUndefined();
      expect(
        Buffer.from(read as Uint8Array).equals(bytes.subarray(-(read?.length ?? 0))),
        about,
      ).toBe(true);
    } else expect(String(Object(error).code), about).toMatch(CODE);
  }
});
