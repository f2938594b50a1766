/** Vocabularies of merged models: heads with biases, and malformed tokenizers. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  type Checkpoint,
  type MergedModelInfo,
  mergeModels,
  saveCheckpoint,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { checkpoint, type Values, valuesOf } from '../make-adapter.js';

let count = 0;

/** A model with a vocabulary, and a row of the same number for every token. */
async function model(
  vocab: Readonly<Record<string, number>>,
  values: readonly number[],
  others: object = { added_tokens: [] },
): Promise<string> {
  const folder = temporaryPath(`model-${count++}`);
  const rows = (columns: number): Values =>
    valuesOf(columns === 0 ? [values.length] : [values.length, columns], values);
  await saveCheckpoint(
    folder,
    checkpoint({
      'embed_tokens.weight': rows(1),
      'lm_head.weight': rows(1),
      'lm_head.bias': rows(0),
    }),
  );
  const json = { model: { type: 'WordLevel', vocab }, ...others };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(json));
  return folder;
}

it('the bias of a head has the rows of its tokens', async () => {
  const sources = [await model({ a: 0, b: 1 }, [1, 2]), await model({ b: 0, a: 1 }, [20, 10])];
  const models = sources.map((source) => ({ source, weight: 0.5 }));
  const merged = (await mergeModels({
    method: 'linear',
    models,
    tokenizer: 'union',
  })) as Checkpoint;
  for (const name of ['embed_tokens.weight', 'lm_head.weight', 'lm_head.bias']) {
    expect([...merged.getTensor(name).toFloat32()], name).toEqual([5.5, 11]);
  }
  const third = await model({ a: 0, b: 1, c: 2 }, [1, 2, 3]);
  const longer = (await mergeModels({
    method: 'linear',
    models: [...models, { source: third, weight: 0 }],
    tokenizer: 'union',
  })) as Checkpoint;
  expect(longer.info('lm_head.bias').shape).toEqual([3]);
});

it('heads of different lengths are cut to their common rows', async () => {
  const sources = [await model({ a: 0 }, [1]), await model({ a: 0, b: 1 }, [3, 4])];
  const models = sources.map((source) => ({ source, weight: 1 }));
  const recipe = { method: 'linear', models } as const;
  const merged = (await mergeModels(recipe, { unmatched: 'skip' })) as Checkpoint;
  expect([...merged.getTensor('lm_head.bias').toFloat32()]).toEqual([2]);
  const cut = / is cut to 1 rows: model ".*" has 1, model ".*" has 2$/;
  const warning = expect.stringMatching(cut);
  expect(Object(merged).warnings).toEqual([warning, warning, warning]);
  const last = (await mergeModels(
    { method: 'linear', models: models.toReversed() },
    { unmatched: 'skip' },
  )) as Checkpoint;
  expect([...last.getTensor('lm_head.bias').toFloat32()]).toEqual([2]);
});

it('embeddings of another width are left out', async () => {
  const values = (count: number): Float32Array => new Float32Array(count).fill(3);
  const [narrow, wide] = [4, 6].map((width) =>
    checkpoint({
      'lm_head.weight': valuesOf([2, width], values(2 * width)),
      x: valuesOf([1], [width]),
    }),
  ) as [Checkpoint, Checkpoint];
  for (const [first, other] of [[narrow, wide] as const, [wide, narrow] as const]) {
    const models = [first, other].map((source) => ({ source, weight: 1 }));
    const merged = (await mergeModels(
      { method: 'linear', models },
      { unmatched: 'skip' },
    )) as Checkpoint & MergedModelInfo;
    const { shape } = first.info('lm_head.weight');
    expect(merged.info('lm_head.weight').shape).toEqual(shape);
    expect(merged.warnings).toEqual([expect.stringContaining('which is left out')]);
    expect([...merged.getTensor('x').toFloat32()]).toEqual([5]);
  }
});

it.each<[object, string]>([
  [{ added_tokens: 5 }, 'without a vocabulary'],
  [{ added_tokens: [null] }, 'without a vocabulary'],
  [{ added_tokens: [{ id: '1', content: 'x' }] }, 'without a vocabulary'],
  [
    { added_tokens: [{ id: 16_000_000, content: 'x' }] },
    'has a token with the id 16000000, and embeddings of 1 rows',
  ],
])('a tokenizer with %j is an error', async (others, message) => {
  const source = await model({ a: 0 }, [1], others);
  const models = [{ source, weight: 1 }];
  await expect(mergeModels({ method: 'linear', models, tokenizer: 'union' })).rejects.toMatchObject(
    {
      code: 'SAFETENSORS_MERGE_UNSUPPORTED',
      message: expect.stringContaining(message),
    },
  );
});
