/** `--digests` of the commands that write checkpoints. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';
import { call, printed, toTarget } from '../call.js';
import { LAYERED } from '../models.js';

const ADAPTED = join(root, 'test/fixtures/merge/peft-linear-f32');

const CALLS: Readonly<Record<string, (target: string) => readonly string[]>> = {
  convert: (target) => ['convert', join(root, 'test/fixtures/torch/zip-state-dict.pt'), target],
  split: (target) => ['split', writeTemporary(LAYERED), target, '--max-shard-size', '600B'],
  join: (target) => ['join', writeCheckpoint(TWO_SHARDS), ...toTarget('join', target)],
  'join of several': (target) => [
    'join',
    ...[writeCheckpoint(TWO_SHARDS), writeTemporary(LAYERED), '--duplicates', 'first'],
    ...toTarget('join', target),
  ],
  merge: (target) => [
    'merge',
    join(ADAPTED, 'base'),
    ...['--adapter', join(ADAPTED, 'adapter'), '-o', target],
  ],
};

it.each(Object.entries(CALLS))('%s --digests records what verify compares', async (_, argsTo) => {
  const target = temporaryPath('target');
  await printed([...argsTo(target), '--digests']);
  const { ok, files } = JSON.parse(await printed(['verify', target, '--json']));
  expect(ok).toBe(true);
  for (const { tensors, comparedTensors } of files) expect(comparedTensors).toBe(tensors);
  const without = temporaryPath('without');
  await printed(argsTo(without));
  expect(await printed(['verify', without])).toContain('no digests');
});

it.each([
  [writeTemporary(LAYERED), '-'],
  ['https://models.example/model.safetensors', temporaryPath('copy.safetensors')],
])('convert %s %s rejects --digests', async (source, target) => {
  const { code, stderr } = await call(['convert', source, target, '--digests']);
  expect([code, stderr]).toEqual([2, expect.stringContaining('--digests ')]);
});
