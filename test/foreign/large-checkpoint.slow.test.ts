import { writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openTorchCheckpoint } from '../../src/foreign/torch/open.js';
import { temporaryPath } from '../support/make-file.js';
import { LARGE_CHECKPOINT_SIZE, largeCheckpoint } from './hostile-files.js';

it(`the limits allow ${LARGE_CHECKPOINT_SIZE} tensors`, () => {
  const path = temporaryPath('large.pt');
  writeFileSync(path, largeCheckpoint());
  using checkpoint = openTorchCheckpoint(path);
  expect(checkpoint.size).toBe(LARGE_CHECKPOINT_SIZE);
});
