import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { call } from '../cli/call.js';
import { open, openPipeline, parse, safeOpen, serialize, verify } from '../support/api.js';
import { writeBelow } from '../support/make-checkpoint.js';
import { temporaryPath } from '../support/make-file.js';

const { NaN: NAN, POSITIVE_INFINITY: INFINITE } = Number;

function f32(...values: readonly number[]) {
  return { dtype: 'F32', shape: [values.length], data: Float32Array.from(values) } as const;
}

const TENSORS = {
  right: f32(1, 2),
  nan: f32(1, NAN),
  both: f32(NAN, -INFINITE, INFINITE),
  half: { dtype: 'F16', shape: [3], data: Uint16Array.of(0x7c00, 0, 0) },
  ones: { dtype: 'BF16', shape: [2, 2], data: new Uint16Array(4).fill(0x3f80) },
  zero: f32(0, -0),
  one: f32(5),
  empty: f32(),
  ids: { dtype: 'I64', shape: [2], data: BigInt64Array.of(2n ** 60n, 2n ** 60n + 1n) },
  mask: { dtype: 'BOOL', shape: [2], data: Uint8Array.of(1, 1) },
  complex: { dtype: 'C64', shape: [1], data: Float32Array.of(0, NAN) },
} as const;

const FOUND = {
  tensors: 11,
  nan: ['both', 'complex', 'nan'],
  infinite: ['both', 'half'],
  constant: ['mask', 'ones'],
  zero: ['zero'],
};

function sorted<Values extends { readonly [name: string]: unknown }>(values: Values | undefined) {
  const lists = Object.entries(values ?? {}).map(([name, list]) => {
    return [name, Array.isArray(list) ? list.toSorted() : list];
  });
  return Object.fromEntries(lists);
}

it('lists NaN and infinities as problems, constant and all-zero tensors besides', async () => {
  const path = writeBelow(temporaryPath('values'), 'model.safetensors', serialize(TENSORS));
  const { ok, checks, problems, values } = await verify(path, { values: true });
  expect([ok, checks]).toEqual([false, ['headers', 'values']]);
  expect(sorted({ ...values })).toEqual(FOUND);
  expect(problems.map(({ tensor }) => tensor).sort()).toEqual(['both', 'complex', 'half', 'nan']);
  expect(problems.find(({ tensor }) => tensor === 'both')).toEqual({
    ...{ file: 'model.safetensors', tensor: 'both', code: 'SAFETENSORS_NON_FINITE' },
    message: '1 NaN and 2 infinite of 3 values of tensor "both"',
  });
});

it('does the same for handles, local and by requests, and for pipelines', async () => {
  const bytes = serialize(TENSORS);
  const folder = temporaryPath('pipeline');
  writeBelow(folder, 'model_index.json', '{}');
  writeBelow(folder, 'unet/model.safetensors', bytes);
  const handles = [parse(bytes), await open(new Blob([bytes]))];
  for (const handle of handles) {
    expect(sorted({ ...(await verify(handle, { values: true })).values })).toEqual(FOUND);
    handle.close();
  }
  const pipeline = await openPipeline(folder);
  for (const source of [folder, pipeline]) {
    const { values, problems } = await verify(source, { values: true });
    expect(values?.zero).toEqual(['unet/zero']);
    expect(problems[0]?.file).toBe('unet/model.safetensors');
  }
  pipeline.close();
});

it('of files that cannot be opened has no findings, and is no success', async () => {
  const path = writeBelow(temporaryPath('broken'), 'model.safetensors', serialize(TENSORS));
  truncateSync(path, 100);
  const report = await verify(path, { values: true });
  expect(report).not.toHaveProperty('values');
  expect(report).toMatchObject({ ok: false, checks: ['headers'] });
});

it('that cannot all be read are no check', async () => {
  const bytes = serialize(TENSORS);
  const path = writeBelow(temporaryPath('shorter'), 'model.safetensors', bytes);
  const file = safeOpen(path, { storage: 'read' });
  truncateSync(path, bytes.length - 1);
  const { ok, checks, problems } = await verify(file, { values: true });
  expect([ok, checks.includes('values')]).toEqual([false, false]);
  expect(problems.at(-1)).toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
  file.close();
});

it('excludes headersOnly, and handles need tensors', async () => {
  const path = writeBelow(temporaryPath('fine'), 'model.safetensors', serialize({ a: f32(1, 2) }));
  const wrong = { code: 'ERR_OUT_OF_RANGE' };
  await expect(verify(path, { values: true, headersOnly: true })).rejects.toMatchObject(wrong);
  await expect(verify(path, { values: 1 as never })).rejects.toMatchObject({
    code: 'ERR_INVALID_ARG_TYPE',
  });
  const seen: number[] = [];
  const file = safeOpen(path);
  const onProgress = ({ bytes }: { bytes: number }): void => void seen.push(bytes);
  expect(await verify(file, { values: true, onProgress })).toMatchObject({ ok: true });
  expect(seen.at(-1)).toBe(8);
  file.close();
});

it('on the command line lists them by name, and exits with 1 only for NaN and infinities', async () => {
  const folder = temporaryPath('command');
  const path = writeBelow(folder, 'model.safetensors', serialize(TENSORS));
  const { code, stdout } = await call(['verify', path, '--values']);
  expect(code).toBe(1);
  expect(stdout).toContain(
    'SAFETENSORS_NON_FINITE: 1 NaN and 0 infinite of 2 values of tensor "nan"',
  );
  expect(stdout).toContain('zero: all zeros\n');
  expect(stdout).toContain('ones: constant\n');
  const { zero, ones } = TENSORS;
  const fine = writeBelow(folder, 'fine.safetensors', serialize({ zero, ones }));
  const other = await call(['verify', fine, '--values', '--json']);
  expect(other.code).toBe(0);
  expect(JSON.parse(other.stdout).values).toMatchObject({ zero: ['zero'], constant: ['ones'] });
  expect(await call(['verify', join(folder), '--values', '--headers-only'])).toMatchObject({
    code: 2,
  });
});
