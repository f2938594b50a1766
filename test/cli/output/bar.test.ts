import { expect, it } from 'vitest';
import { bar } from '../../../src/cli/output/bar.js';

it('bars show every share that is not nothing', () => {
  expect([0, 1e-9, 0.5, 1, 2, Number.NaN].map((share) => bar(share, 4))).toEqual([
    '',
    '▏',
    '██',
    '████',
    '████',
    '',
  ]);
});
