import { expect, it } from 'vitest';
import { TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';
import { call } from '../call.js';

/** `push(...problems)` would throw a RangeError. */
const COUNT = 150_000;

it('verify lists more problems than a call takes arguments', async () => {
  const [shard = ''] = Object.keys(TWO_SHARDS.shards);
  const names = Array.from({ length: COUNT }, (_, i) => [`gone${i}`, shard] as const);
  const folder = writeCheckpoint({ ...TWO_SHARDS, weightMap: Object.fromEntries(names) });
  const { stdout } = await call(['verify', folder, '--headers-only', '--json']);
  expect(JSON.parse(stdout).problems.length).toBeGreaterThan(COUNT);
});
