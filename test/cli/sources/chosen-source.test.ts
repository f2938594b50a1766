/** Which path `--variant` chooses at a source that is written again. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { chosenAt } from '../../../src/cli/sources/chosen-source.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { temporaryPath } from '../../support/make-file.js';

const { signal } = new AbortController();

it('reads no headers: neither of a model nor of the models of a pipeline', async () => {
  const folder = temporaryPath('pipeline');
  writeBelow(folder, 'model_index.json', '{"unet": ["diffusers", "UNet2DConditionModel"]}');
  writeBelow(folder, 'unet/model.fp16.safetensors', 'no header');
  const pipeline = await chosenAt(folder, { variant: 'fp16' }, signal);
  expect(pipeline).toEqual({ path: folder, naming: { variant: 'fp16' } });
  const model = await chosenAt(join(folder, 'unet'), { variant: 'fp16' }, signal);
  expect(model).toEqual({
    path: join(folder, 'unet/model.fp16.safetensors'),
    naming: { filenamePattern: 'model{suffix}.safetensors', variant: 'fp16' },
  });
});
