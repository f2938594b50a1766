/** Eight processes, each with its part of one checkpoint, read every byte from the disk once. */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { safeOpen } from '../../support/api.js';
import { writeCheckpoint } from '../../support/make-checkpoint.js';
import { nightly } from '../../support/nightly.js';
import { dropFromPageCache } from '../../support/page-cache.js';
import { measureInChild } from '../../support/run-child.js';

const MIB = 2 ** 20;
const WORLD_SIZE = 8;
let folder = '';

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Bytes of a tensor. Each of the ranks reads an eighth: more than the system reads ahead. */
const BYTE_LENGTH = nightly(4, 1) * MIB;

/** Four shards of four tensors. */
function writeLarge(): { byteLength: number; sum: number } {
  let sum = 0;
  const shards = Object.fromEntries(
    ['a', 'b', 'c', 'd'].map((shard) => {
      const entries = Array.from({ length: 4 }, (_, i) => {
        const bytes = randomBytes(BYTE_LENGTH);
        for (let at = 0; at < bytes.length; at++) sum += bytes[at] as number;
        const shape = [64, BYTE_LENGTH / 64];
        return { name: `${shard}.${i}`, dtype: 'U8' as const, shape, bytes };
      });
      return [`${shard}.safetensors`, entries];
    }),
  );
  folder = writeCheckpoint({ shards });
  return { byteLength: 16 * BYTE_LENGTH, sum };
}

interface Reading {
  readonly byteLength: number;
  readonly sum: number;
  readonly fetched: number;
}

describe.runIf(process.platform === 'linux')('eight ranks', () => {
  test('fetch a cold checkpoint once together', async ({ skip }) => {
    const written = writeLarge();
    using checkpoint = safeOpen(folder);
    for (const shard of checkpoint.shards) {
      expect(dropFromPageCache(join(folder, shard)), 'needs GNU dd').toBe(true);
    }
    const resident = checkpoint.residency() ?? 0;
    const readings = await Promise.all(
      Array.from({ length: WORLD_SIZE }, (_, rank) =>
        measureInChild<Reading>('file/checkpoint/children/read-partition.mjs', [
          folder,
          `${rank}`,
          `${WORLD_SIZE}`,
        ]),
      ),
    );
    const sumOf = (key: keyof Reading): number =>
      readings.reduce((sum, reading) => sum + reading[key], 0);
    expect(readings.map(({ byteLength }) => byteLength)).toEqual(
      Array(WORLD_SIZE).fill(written.byteLength / WORLD_SIZE),
    );
    expect(sumOf('sum')).toBe(written.sum);
    skip(resident > MIB, 'the temporary folder cannot be dropped from the cache');
    console.info('fetched', sumOf('fetched') / checkpoint.byteLength(), 'of the bytes');
    expect(sumOf('fetched')).toBeLessThanOrEqual(1.05 * checkpoint.byteLength());
    expect(sumOf('fetched')).toBeGreaterThan(0.9 * checkpoint.byteLength());
  });
});
