/** Labels of rows that are shortened to a width. */
import { expect, it } from 'vitest';
import { fittingLabels } from '../../viewer/parts/fitting-labels.js';

/** Labels of 17 letters at most. */
const shown = (...labels: string[]) => fittingLabels(labels, ({ length }) => length <= 17);

it('labels lose whole words at their beginning, or in the middle', () => {
  expect(shown('mlp.up_proj', 'block.conv_out.weight1', 'block.conv_output.weight')).toEqual([
    'mlp.up_proj',
    '…conv_out.weight1',
    '…output.weight',
  ]);
  expect(shown('up_blocks…transformer.conv1')).toEqual(['up_blocks…conv1']);
  expect(shown('x'.repeat(30))).toEqual([`…${'x'.repeat(16)}`]);
});

it('labels of different rows stay different', () => {
  expect(shown('up_blocks…resnets.conv1', 'up_blocks…attentions.conv1')).toEqual([
    '…resnets.conv1',
    '…attentions.conv1',
  ]);
  const pairs = ['up', 'down'].flatMap((head) =>
    ['resnets', 'attentions'].map((part) => `${head}_blocks…${part}.conv1`),
  );
  expect(shown(...pairs)).toEqual([
    'u…resnets.conv1',
    'u…ttentions.conv1',
    'd…resnets.conv1',
    'd…ttentions.conv1',
  ]);
  expect(shown(`first.${'x'.repeat(30)}`, `second.${'x'.repeat(30)}`)).toEqual([
    `f…${'x'.repeat(15)}`,
    `s…${'x'.repeat(15)}`,
  ]);
});
