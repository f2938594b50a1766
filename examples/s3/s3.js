/** Checkpoints in a bucket: objects as readers for `open`. */
import { posix } from 'node:path';
import { GetObjectCommand, HeadObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { open } from 'safetensors-mmap';

const TRIES = 3;

/** Credentials, region and endpoint come from the environment, as for every program of the SDK. */
export function makeClient() {
  return new S3Client({
    // Other stores than Amazon's have no names of hosts for buckets.
    forcePathStyle: process.env.AWS_ENDPOINT_URL_S3 !== undefined,
    // Those of whole objects say nothing about ranges; streams would need them at their end.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  });
}

/** `s3://bucket/key`, as `{ Bucket, Key }`. */
export function parseAddress(text) {
  const [, Bucket, Key] = /^s3:\/\/([^/]+)\/(.+)$/.exec(text) ?? [];
  if (Bucket === undefined) throw new TypeError(`expected s3://bucket/key, found ${text}`);
  return { Bucket, Key };
}

/** An object as a source of bytes; `counts` adds up what is fetched. The client may be used for others, too. */
export async function objectSource(client, { Bucket, Key }, counts) {
  const { ContentLength, ETag } = await client.send(new HeadObjectCommand({ Bucket, Key }));
  const name = `s3://${Bucket}/${Key}`;

  async function fetchRange(begin, end, abortSignal) {
    const Range = `bytes=${begin}-${end - 1}`;
    const command = new GetObjectCommand({ Bucket, Key, Range, IfMatch: ETag });
    const answer = await client.send(command, { abortSignal });
    // Not every store knows If-Match. A new object must not mix with what was read of the old one.
    if (answer.ETag !== ETag) {
      answer.Body.destroy();
      throw Object.assign(new Error(`${name} has changed`), { name: 'PreconditionFailed' });
    }
    const bytes = await answer.Body.transformToByteArray();
    counts.requests++;
    counts.bytes += bytes.length;
    return bytes;
  }

  return {
    name,
    byteLength: ContentLength,
    async read(begin, end, signal) {
      // The SDK repeats requests that fail, but not answers that break off.
      for (let tries = 1; ; tries++) {
        try {
          return await fetchRange(begin, end, signal);
        } catch (error) {
          const isFinal = error.$metadata !== undefined || error.name === 'PreconditionFailed';
          if (isFinal || signal.aborted || tries === TRIES) throw error;
        }
      }
    },
  };
}

/** A checkpoint of shards, beside their index; a shard is opened when something in it is first asked for. */
class Shards {
  #open;
  #map;
  #shards = new Map();

  constructor(map, open) {
    this.#map = map;
    this.#open = open;
  }

  keys() {
    return [...this.#map.keys()].sort();
  }

  #shardOf(name) {
    const file = this.#map.get(name);
    if (file === undefined) throw new Error(`there is no tensor "${name}"`);
    if (!this.#shards.has(file)) this.#shards.set(file, this.#open(file));
    return this.#shards.get(file);
  }

  async info(name) {
    return (await this.#shardOf(name)).info(name);
  }

  async getSlice(name, ...rest) {
    return (await this.#shardOf(name)).getSlice(name, ...rest);
  }

  async close() {
    const opened = await Promise.allSettled(this.#shards.values());
    for (const { value } of opened) value?.close();
  }
}

/** Opens a file, or an index and its shards. */
export async function openInBucket(client, address, counts) {
  const source = await objectSource(client, address, counts);
  if (!address.Key.endsWith('.index.json')) return open(source);
  const bytes = await source.read(0, source.byteLength, new AbortController().signal);
  const { weight_map: files } = JSON.parse(new TextDecoder().decode(bytes));
  return new Shards(new Map(Object.entries(files)), async (file) => {
    // A name is a file beside the index, whatever the index says.
    const Key = posix.join(posix.dirname(address.Key), posix.basename(file));
    return open(await objectSource(client, { ...address, Key }, counts));
  });
}
