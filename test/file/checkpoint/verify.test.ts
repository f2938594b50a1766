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
  /** The problems as lines of text. */
  async function complaints(checkpoint: Checkpoint): Promise<string[]> {
    const report = await checkpoint.verify();
    expect(report).toMatchObject({ ok: false, checks: ['headers', 'index'] });
    return report.problems.map(({ file, code, message }) => `${code}: ${file}: ${message}`);
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
    expect(await complaints(checkpoint)).toContain(`SAFETENSORS_INDEX_MISMATCH: ${message}`);
  });

  it('finds a tensor that two shards have', async () => {
    const shards = { ...TWO_SHARDS.shards, 'third.safetensors': TWO_SHARDS.shards[FIRST] ?? [] };
    const map = { ...weightMap, 'a.weight': 'third.safetensors' };
    const found = await complaints(twoShards({ metadata: {}, shards, weightMap: map }));
    expect(found).toHaveLength(2);
    expect(found.join()).toContain(
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
      if (isRight) expect((await checkpoint.verify()).problems).toEqual([]);
      else
        expect((await complaints(checkpoint)).join()).toContain(
          'total_size is 35, but the tensors have 34 bytes',
        );
    }
  });

  it('finds bad and missing shards, and says so of each', async () => {
    const checkpoint = twoShards();
    const folder = join(`${checkpoint.path}`, '..');
    truncateSync(join(folder, FIRST), 3);
    rmSync(join(folder, SECOND));
    const found = await complaints(checkpoint);
    expect(found).toHaveLength(2);
    expect(found[0]).toContain(`${FIRST}: expected at least 8 bytes`);
    expect(found[1]).toMatch(/^ENOENT: /);
  });

  it('finds a shard that changed after it was opened', async () => {
    const checkpoint = twoShards();
    checkpoint.getTensor('embed');
    truncateSync(join(`${checkpoint.path}`, '..', FIRST), 9);
    expect((await complaints(checkpoint)).join()).toContain('the file changed after it was opened');
    expect(checkpoint.ok).toBe(false);
  });

  it('lists all problems', async () => {
    const strays = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`t${i}`, FIRST]));
    const found = await complaints(
      twoShards({ ...TWO_SHARDS, weightMap: { ...weightMap, ...strays } }),
    );
    expect(found).toHaveLength(1000);
  });

  it('rejects when the checkpoint is closed', async () => {
    const checkpoint = twoShards();
    checkpoint.close();
    await expect(checkpoint.verify()).rejects.toThrow('the file is closed');
  });
});
