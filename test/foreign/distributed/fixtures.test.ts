/** Distributed checkpoints that torch wrote: the tensors that it saved, or that it reads back. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadFile, open } from '../../support/api.js';
import { root } from '../../support/source-tree.js';

const folder = join(root, 'test/fixtures/dcp');
const manifestOf = (id: string): { readonly expect?: string } =>
  JSON.parse(readFileSync(join(folder, id, 'manifest.json'), 'utf8'));
const ids = readdirSync(folder).filter((id) => manifestOf(id).expect !== 'refuse');

describe.each(ids)('%s', (id) => {
  it('has the tensors of the original', async () => {
    const expected = loadFile(join(folder, id, 'expected.safetensors'));
    const checkpoint = await open(join(folder, id, 'ckpt'), { remote: false });
    expect(checkpoint.problems).toEqual([]);
    expect(checkpoint.keys()).toEqual([...expected.keys()].sort());
    for (const [name, { dtype, shape, bytes }] of expected) {
      const tensor = checkpoint.getTensor(name);
      expect([name, tensor.dtype, tensor.shape]).toEqual([name, dtype, shape]);
      expect(tensor.bytes).toEqual(bytes);
    }
    checkpoint.close();
  });
});

it('one without the first rank is rejected', async () => {
  const opening = open(join(folder, 'bad-dcp-hf-first-rank-missing/ckpt'));
  await expect(opening).rejects.toMatchObject({ code: 'SAFETENSORS_MISSING_SHARDS' });
});

it('objects are listed, and not read', async () => {
  const checkpoint = await open(join(folder, 'dcp-nested-bytes/ckpt'), { remote: false });
  const extra = (await checkpoint.extra()) as ReadonlyMap<string, unknown>;
  expect([extra.get('ranks'), extra.get('isComplete')]).toEqual([2, true]);
  expect(extra.get('objects')).toEqual(expect.arrayContaining(['step', 'note']));
});
