/** The other transitions of killed.test.ts. */
import { describe, it } from 'vitest';
import {
  CUSTOM,
  expectWholeCheckpoints,
  FOUR,
  ONE,
  saveIndexedCustom,
  saveIndexedFile,
  type Transition,
  TWO,
} from './killed-saves.js';

const transitions: Transition[] = [
  ['nothing to shards', null, TWO],
  ['a file to a file', ONE, ONE],
  ['shards to more', TWO, FOUR],
  ['shards to fewer', FOUR, TWO],
  ['a file with an index to a file', saveIndexedFile, ONE],
  ['a file of another name to shards', CUSTOM, { ...CUSTOM, ...TWO }],
  ['shards of another name to a file', { ...CUSTOM, ...TWO }, CUSTOM],
  ['a file of another name with an index', saveIndexedCustom, CUSTOM],
  ['shards of a variant', { ...TWO, variant: 'fp16' }, { ...TWO, variant: 'fp16' }],
];

describe('killed before each call that changes a name', () => {
  it.each(transitions)('%s', async (_, before, layout, links) => {
    await expectWholeCheckpoints(before, layout, links);
  });
});
