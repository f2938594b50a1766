/** Advice in messages as data: its words are those of the message. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  convert,
  download,
  open,
  type SafetensorsError,
  safeOpen,
  saveCheckpoint,
  scanPickle,
  verify,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { root } from '../support/source-tree.js';

const fixture = (name: string): string => join(root, 'test/fixtures/torch', name);
const tensors = { a: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) } } as const;

it.each<[option: string, call: () => unknown, value?: string]>([
  ['root', () => open(fixture('zip-two-roots.pth'))],
  ['unknownGlobals', () => open(fixture('zip-namespace.pt')), 'placeholder'],
  ['voidDtype', () => open(fixture('np-bf16-void.npy'))],
  ['open', () => safeOpen(fixture('zip-state-dict.pt'))],
  ['read', () => open('s3://bucket/model.safetensors')],
  ['URL', () => download('./model', temporaryPath('model'))],
  ['download', () => safeOpen('https://models.example/model.safetensors')],
  [
    'overwrite',
    async () => {
      const target = temporaryPath('model');
      await saveCheckpoint(target, tensors);
      await convert(fixture('zip-state-dict.pt'), target);
    },
    'true',
  ],
])('%s', async (option, call, value) => {
  const error = await Promise.resolve()
    .then(call)
    .then(
      () => expect.unreachable(),
      (reason: SafetensorsError) => reason,
    );
  expect(error.advice).toHaveLength(1);
  const [advice] = error.advice ?? [];
  expect(advice).toMatchObject(value === undefined ? { option } : { option, value });
  expect(error.message).toContain(advice?.text);
});

it('is that of problems and of scans, too', async () => {
  const [problem] = (await verify(fixture('zip-namespace.pt'))).problems;
  const { advice, optionAdvice = [] } = await scanPickle(fixture('zip-namespace.pt'));
  for (const [text, found] of [
    [problem?.message, problem?.advice],
    [advice, optionAdvice],
  ] as const) {
    expect(found).toMatchObject([{ option: 'unknownGlobals', value: 'placeholder' }]);
    expect(text).toContain(found?.[0]?.text);
  }
});
