import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../support/api.js';
import { openUntilEnd, TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';

function twoShards(description = TWO_SHARDS): Checkpoint {
  return openUntilEnd(writeCheckpoint(description));
}

const [FIRST = '', SECOND = ''] = Object.keys(TWO_SHARDS.shards);

describe('verify', () => {
  async function complaint(checkpoint: Checkpoint): Promise<string> {
    const error: unknown = await checkpoint.verify().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'SAFETENSORS_INDEX_MISMATCH', name: 'VerificationError' });
    return (error as Error).message;
  }
  const weightMap = { embed: FIRST, 'a.weight': FIRST, 'b.weight': SECOND, 'b.bias': SECOND };

  it.each([
    [
      'a stray tensor',
      { ...weightMap, embed: undefined },
      `${FIRST}: tensor "embed" is missing in the index`,
    ],
    [
      'a tensor that is nowhere',
      { ...weightMap, c: SECOND },
      `${SECOND}: tensor "c" of the index is missing`,
    ],
    [
      'a tensor of another shard',
      { ...weightMap, embed: SECOND },
      `${FIRST}: tensor "embed" belongs to another shard by the index: "${SECOND}"`,
    ],
  ])('finds %s', async (_, map, message) => {
    const checkpoint = twoShards({ ...TWO_SHARDS, weightMap: map as Record<string, string> });
    expect(await complaint(checkpoint)).toContain(message);
  });

  it('finds a tensor that two shards claim', async () => {
    const shards = { ...TWO_SHARDS.shards, 'third.safetensors': TWO_SHARDS.shards[FIRST] ?? [] };
    const map = { ...weightMap, 'a.weight': 'third.safetensors' };
    const text = await complaint(twoShards({ metadata: {}, shards, weightMap: map }));
    expect(text).toContain('found 2 problems');
    expect(text).toContain(
      'third.safetensors: tensor "embed" belongs to another shard by the index',
    );
  });

  it('finds a wrong total_size, and takes it as any spelling of a number', async () => {
    const totals: [unknown, boolean][] = [
      [34, true],
      [34.0, true],
      ['34', true],
      ['34.0', true],
      ['', true],
      [null, true],
      ['many', true],
      [[34], true],
      [35, false],
      ['35', false],
    ];
    for (const [total, isRight] of totals) {
      const checkpoint = twoShards({ ...TWO_SHARDS, metadata: { total_size: total } });
      if (isRight) await checkpoint.verify();
      else
        expect(await complaint(checkpoint)).toContain(
          'total_size is 35, but the tensors have 34 bytes',
        );
    }
  });

  it('finds bad and missing shards, and says so of each', async () => {
    const checkpoint = twoShards();
    const folder = join(`${checkpoint.path}`, '..');
    truncateSync(join(folder, FIRST), 3);
    rmSync(join(folder, SECOND));
    const text = await complaint(checkpoint);
    expect(text).toContain('found 2 problems');
    expect(text).toContain(`${FIRST}: expected at least 8 bytes`);
    expect(text).toContain('ENOENT');
  });

  it('finds a shard that changed after it was opened', async () => {
    const checkpoint = twoShards();
    checkpoint.getTensor('embed');
    truncateSync(join(`${checkpoint.path}`, '..', FIRST), 9);
    expect(await complaint(checkpoint)).toContain('the file changed after it was opened');
    expect(checkpoint.ok).toBe(false);
  });

  it('lists a bounded number of problems', async () => {
    const strays = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`t${i}`, FIRST]));
    const text = await complaint(
      twoShards({ ...TWO_SHARDS, weightMap: { ...weightMap, ...strays } }),
    );
    expect(text).toContain('found 1000 problems');
    expect(text).toContain('; and 980 more');
  });

  it('rejects when the checkpoint is closed', async () => {
    const checkpoint = twoShards();
    checkpoint.close();
    await expect(checkpoint.verify()).rejects.toThrow('the file is closed');
  });
});
