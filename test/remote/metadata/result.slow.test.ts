import { expect, it } from 'vitest';
import { parseCheckpointIndex } from '../../../src/file/shards/checkpoint-index.js';
import { indexRecord } from '../../../src/remote/metadata/result.js';
import { runSync } from '../../../src/work/work.js';

it.each([
  ['200 000 tensors', 200_000, 1, true],
  ['200 001 tensors', 200_001, 1, false],
  ['24 million characters', 1000, 24_000, true],
  ['more characters', 1000, 24_001, false],
])('an index record has the weight map of %s: %s', (_, size, length, isGiven) => {
  const shard = 's.safetensors';
  const names = Array.from({ length: size }, (_, i) =>
    length === 1 ? `t${i}` : String(i).padEnd(length - shard.length, '.'),
  );
  const index = { weight_map: Object.fromEntries(names.map((name) => [name, shard])) };
  const parsed = parseCheckpointIndex(new TextEncoder().encode(JSON.stringify(index)));
  const record = runSync(indexRecord(parsed));
  expect(Object.keys(record.weight_map ?? {}).length).toBe(isGiven ? size : 0);
  expect('weight_map' in record).toBe(isGiven);
});
