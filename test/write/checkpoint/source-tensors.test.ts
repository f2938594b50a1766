/** The tensors of a checkpoint as bytes of its headers: which of them are written together. */
import { afterEach, expect, it } from 'vitest';
import { openShards } from '../../../src/file/checkpoint/open.js';
import { runSync } from '../../../src/work/work.js';
import { SourceTensors } from '../../../src/write/checkpoint/source-tensors.js';
import { saveCheckpoint } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { equalTensors } from '../../support/saved-tensors.js';

const opened: { close(options: object): void }[] = [];
afterEach(() => {
  for (const shards of opened.splice(0)) shards.close({});
});

/** Names and lengths of consecutive writes, of all tensors in one file. */
async function runsOf(verify: boolean, digests = false): Promise<unknown[]> {
  const source = temporaryPath('source');
  const tensors = equalTensors(8, 'a', 'b', 'c');
  await saveCheckpoint(source, tensors, { durable: false, digests, maxShardSize: 16 });
  const shards = runSync(openShards(source, { storage: 'read' }));
  opened.push(shards);
  const table = new SourceTensors(shards, verify);
  const { placed } = runSync(table.layOut([...table.byteLengths.keys()], null));
  return Array.from(placed, ({ begin, spec }) => {
    return [begin, spec.byteLength, 'name' in spec ? spec.name : undefined];
  });
}

const EACH = [
  [0, 8, 'a'],
  [8, 8, 'b'],
  [16, 8, 'c'],
];

it('joins neighbours of one shard', async () => {
  expect(await runsOf(true)).toEqual([
    [0, 16, undefined],
    [16, 8, undefined],
  ]);
});

it('keeps tensors with digests apart', async () => {
  expect(await runsOf(true, true)).toEqual(EACH);
  expect(await runsOf(false, true)).toHaveLength(2);
});
