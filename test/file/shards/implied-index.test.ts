import { describe, expect, it } from 'vitest';
import { impliedIndex } from '../../../src/file/shards/implied-index.js';
import { ITEMS_PER_YIELD } from '../../../src/work/yielding.js';

describe('the index of shards that have none', () => {
  it('yields to the event loop within a shard, which may have very many tensors', () => {
    const size = 10 * ITEMS_PER_YIELD;
    let read = 0;
    const name = (entry: number): string => {
      read++;
      return `t${entry}`;
    };
    const work = impliedIndex([{ name: 'model.safetensors', header: { size, name } }], undefined);
    let next = work.next();
    let before = 0;
    while (next.done !== true) {
      expect(read - before).toBeLessThanOrEqual(ITEMS_PER_YIELD);
      before = read;
      next = work.next();
    }
    expect([read, next.value.size]).toEqual([size, size]);
  });
});
