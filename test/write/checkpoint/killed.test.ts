import { describe, it } from 'vitest';
import {
  expectWholeCheckpoints,
  FOUR,
  ONE,
  saveBesideIncomplete,
  saveUnindexed,
  type Transition,
  TWO,
} from './killed-saves.js';

const transitions: Transition[] = [
  ['nothing to a file', null, ONE],
  ['a file to shards', ONE, TWO],
  ['shards to a file', TWO, ONE],
  ['shards to shards of the same names', TWO, TWO],
  ['the same without links', TWO, TWO, 'refused'],
  ['shards without an index to shards', saveUnindexed, TWO],
  ['shards without an index to more shards', saveUnindexed, FOUR],
  ['a file beside a broken index to its shards', saveBesideIncomplete, TWO],
];

describe('killed before each call that changes a name', () => {
  it.each(transitions)('%s', async (_, before, layout, links) => {
    await expectWholeCheckpoints(before, layout, links);
  });
});
