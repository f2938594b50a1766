import { expect, it } from 'vitest';
import { namesIn } from '../../../src/file/checkpoint/pipeline.js';
import { runAsync } from '../../../src/work/work.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';

it('an abort ends the list of a folder, which is not taken for empty', async () => {
  const folder = temporaryPath('folder');
  writeBelow(folder, 'model.safetensors', '');
  const aborting = new AbortController();
  const listing = runAsync(namesIn(folder), aborting.signal);
  aborting.abort(new Error('stop'));
  await expect(listing).rejects.toThrow('stop');
});

it('a folder that is not there is empty', async () => {
  expect(await runAsync(namesIn(temporaryPath('none')), undefined)).toEqual([]);
});
