/** `ShardedTorchCheckpoint.verifyChecksums`: of all shards, with one progress. */
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { FileClosedError } from '../../../src/errors/errors.js';
import { ForeignFile } from '../../../src/foreign/foreign-file.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import type { ShardedTorchCheckpoint } from '../../../src/foreign/torch/sharded.js';
import { temporaryPath } from '../../support/make-file.js';
import { fixturePath } from './fixtures.js';

const right = readFileSync(fixturePath('zip-state-dict.pt'));

/** The same with one other byte in its first storage. */
function damaged(): typeof right {
  const bytes = Buffer.from(right);
  const end = bytes.indexOf('PK\x07\x08', bytes.indexOf('data/0'), 'latin1');
  bytes[end - 1] = (bytes[end - 1] as number) ^ 1;
  return bytes;
}

/** A checkpoint of these files, of which each is to give one tensor. */
function sharded(...files: readonly (typeof right)[]): ShardedTorchCheckpoint {
  const index = temporaryPath('pytorch_model.bin.index.json');
  const names = ['l1.weight', 'l1.bias'];
  const weightMap = Object.fromEntries(files.map((_, i) => [names[i], `${i + 1}.bin`]));
  for (const [i, bytes] of files.entries())
    writeFileSync(join(dirname(index), `${i + 1}.bin`), bytes);
  writeFileSync(index, JSON.stringify({ metadata: {}, weight_map: weightMap }));
  return openTorchCheckpoint(index) as ShardedTorchCheckpoint;
}

test('right ones pass, and progress is that of all shards', async () => {
  using checkpoint = sharded(right, right);
  const seen: number[] = [];
  await checkpoint.verifyChecksums({ onProgress: ({ bytes }) => seen.push(bytes) });
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  using single = openTorchCheckpoint(fixturePath('zip-state-dict.pt'));
  let ofOne = 0;
  await single.verifyChecksums({
    onProgress: ({ bytes }) => {
      ofOne = bytes;
    },
  });
  expect(seen.at(-1)).toBeGreaterThanOrEqual(2 * ofOne);
});

test.each([0, 1])('a wrong one in shard %i is found', async (wrong) => {
  using checkpoint = sharded(...[right, right].with(wrong, damaged()));
  await expect(checkpoint.verifyChecksums()).rejects.toMatchObject({
    code: 'SAFETENSORS_CHECKSUM_MISMATCH',
    path: expect.stringMatching(new RegExp(`${wrong + 1}\\.bin$`)),
  });
});

test('an abort reaches the shards; a closed checkpoint has none', async () => {
  const checkpoint = sharded(right, right);
  const ofShard = vi.spyOn(ForeignFile.prototype, 'verifyChecksums');
  const reason = new AbortController();
  ofShard.mockImplementation(({ signal } = {}) => {
    reason.abort(new Error('enough'));
    signal?.throwIfAborted();
    return Promise.resolve();
  });
  const { signal } = reason;
  await expect(checkpoint.verifyChecksums({ signal })).rejects.toThrow('enough');
  expect(ofShard.mock.results.map(({ type }) => type)).toContain('throw');
  ofShard.mockRestore();
  await expect(checkpoint.verifyChecksums({ storage: 'read' } as never)).rejects.toThrow('storage');
  checkpoint.close();
  await expect(checkpoint.verifyChecksums()).rejects.toThrow(FileClosedError);
});
