/** `dtype` of `saveCheckpoint`: a checkpoint cast as `select` casts it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { open, parse, saveCheckpoint, select } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

const FLOATS = Float32Array.of(0, 1.00390625, -2.5, 3e38);
const BYTES = fileBytes(
  [
    { name: 'w', dtype: 'F32', shape: [2, 2], bytes: new Uint8Array(FLOATS.buffer) },
    { name: 'ids', dtype: 'I32', shape: [1], bytes: new Uint8Array(4).fill(7) },
  ],
  { metadata: { note: 'x' } },
);
const durable = false;

function written(folder: string): Buffer {
  return readFileSync(join(folder, 'model.safetensors'));
}

it.each(['BF16', 'F16', 'F8_E4M3'] as const)('casts to %s', async (dtype) => {
  const [found, expected] = [temporaryPath('found'), temporaryPath('expected')];
  const { totalSize } = await saveCheckpoint(found, parse(BYTES), { dtype, durable });
  await saveCheckpoint(expected, select(parse(BYTES), { dtype }), { durable });
  expect(written(found)).toEqual(written(expected));
  const saved = parse(written(found));
  expect(saved.info('w').dtype).toBe(dtype);
  expect(saved.info('ids').dtype).toBe('I32');
  expect(saved.metadata?.get('note')).toBe('x');
  expect(totalSize).toBe(saved.info('w').dataOffsets.reduce((a, b) => b - a) + 4);
});

it('casts a remote checkpoint whose headers were not fetched', async () => {
  const folder = temporaryPath('remote');
  const remote = await open(new Blob([BYTES]));
  await saveCheckpoint(folder, remote, { dtype: 'BF16', durable });
  expect(parse(written(folder)).info('w').dtype).toBe('BF16');
});

it('plans the cast', async () => {
  const plan = await saveCheckpoint(temporaryPath('planned'), parse(BYTES), {
    dtype: 'F16',
    dryRun: true,
  });
  expect(plan.totalSize).toBe(12);
});

it('rejects tensors that are not of a checkpoint', async () => {
  const tensors = new Map([['w', parse(BYTES).getTensor('w')]]);
  const saving = saveCheckpoint(temporaryPath('never'), tensors, { dtype: 'F16' });
  await expect(saving).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE', argument: 'dtype' });
});

it('rejects a dtype that nothing is cast to', async () => {
  const saving = saveCheckpoint(temporaryPath('never'), parse(BYTES), { dtype: 'I8' as 'F16' });
  await expect(saving).rejects.toThrow(/dtype/);
});
