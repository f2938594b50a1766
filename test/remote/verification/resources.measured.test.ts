/** Memory of a comparison with a repository of 100 GB on the Hub, and of the preview of its repair. */
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { temporaryPath } from '../../support/make-file.js';
import { measureInChild } from '../../support/run-child.js';
import { useHub } from '../download/downloads.js';

const SHARDS = 200;
const BYTE_LENGTH = 500_000_000;
/** Those of the right length are hashed. */
const HASHED = 2;

const names = Array.from({ length: SHARDS }, (_, i) => {
  const number = String(i + 1).padStart(5, '0');
  return `model-${number}-of-00200.safetensors`;
});
const shardOf = (name: string): Uint8Array => {
  const json = { [name]: { dtype: 'U8', shape: [BYTE_LENGTH], data_offsets: [0, BYTE_LENGTH] } };
  const header = Buffer.from(JSON.stringify(json));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([prefix, header]);
};
const index = JSON.stringify({ weight_map: Object.fromEntries(names.map((name) => [name, name])) });
const shards = names.map((name) => {
  const start = shardOf(name);
  return [name, { start, byteLength: start.length + BYTE_LENGTH }] as const;
});
const hub = useHub({
  'org/large': {
    files: {
      'model.safetensors.index.json': index,
      'config.json': '{}',
      ...Object.fromEntries(shards),
    },
  },
});

interface Measured {
  readonly found: number;
  readonly grown: number;
}

it.each([
  ['verify against the Hub', 'verify'],
  ['download with repair, as a dry run', 'repair'],
])('%s needs less than 100 MB for 100 GB in 200 files', async (_, call) => {
  const folder = temporaryPath('large');
  mkdirSync(folder);
  writeFileSync(join(folder, 'model.safetensors.index.json'), index);
  writeFileSync(join(folder, 'config.json'), '{}');
  for (const [i, [name, { start, byteLength }]] of shards.entries()) {
    writeFileSync(join(folder, name), start);
    // Sparse: no block is on the disk.
    truncateSync(join(folder, name), i < HASHED ? byteLength : byteLength - 1);
  }
  const { found, grown } = await measureInChild<Measured>(
    'remote/verification/children/compare-large.mjs',
    [call, 'hf://org/large', folder],
    { env: { HF_ENDPOINT: hub().url } },
  );
  expect(found).toBe(SHARDS);
  expect(grown).toBeLessThan(100_000_000);
});
