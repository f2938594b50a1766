/** Tensors that are renamed and cast while they arrive. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { convert, safeOpen } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { breakingFetch, downloadFrom, emptyFolder, namesIn, noise, useHub } from './downloads.js';

/** Of floats: more than one piece. */
const LENGTH = 1_500_001;

/** Patterns that are mostly finite in each dtype. */
function floats(length: number): Uint8Array {
  const values = Float32Array.from(noise(4 * length), (byte, i) => (byte - 128) / (1 + (i % 5)));
  const bytes = new Uint8Array(values.buffer, 0, 4 * length);
  values[7] = 1e6;
  return bytes;
}

const FILE = fileBytes(
  [
    { name: 'mask', dtype: 'U8', shape: [3], bytes: Uint8Array.of(1, 2, 3) },
    { name: 'a', dtype: 'F32', shape: [LENGTH], bytes: floats(LENGTH) },
    { name: 'ids', dtype: 'U8', shape: [5], bytes: noise(5) },
    { name: 'b', dtype: 'F32', shape: [LENGTH], bytes: floats(LENGTH) },
    { name: 'c', dtype: 'BF16', shape: [LENGTH], bytes: noise(2 * LENGTH) },
    { name: 'd', dtype: 'F32', shape: [2], bytes: floats(2) },
  ],
  { metadata: { format: 'pt', tied: 'a' } },
);
const hub = useHub({
  'org/one': { files: { 'model.safetensors': FILE, 'config.json': '{}' } },
});
const source = 'hf://org/one';

let folder = '';
let local = '';
beforeEach(() => {
  folder = emptyFolder('target');
  local = temporaryPath('local.safetensors');
  writeFileSync(local, FILE);
});

const options = {
  rename: (name: string): string => `model.${name}`,
  dtype: 'F16',
  maxShardSize: 3_000_000,
} as const;

it('writes the files that convert writes', async () => {
  const expected = temporaryPath('expected');
  const resharded = await convert(local, expected, { ...options, durable: false });
  const { cast, overflowed, files } = await downloadFrom(hub(), source, folder, options);
  expect(files.map(({ name }) => name)).toContain('config.json');
  for (const name of namesIn(expected)) {
    const [actual, wanted] = [folder, expected].map((path) => readFileSync(join(path, name)));
    expect([name, wanted?.equals(actual as Uint8Array)]).toEqual([name, true]);
  }
  expect([...cast].sort()).toEqual([...resharded.cast].sort());
  expect(cast).toHaveLength(4);
  expect([...overflowed].sort()).toEqual([...resharded.overflowed].sort());
  expect(overflowed.get('model.a')).toBe(1);
  using checkpoint = safeOpen(folder);
  expect(checkpoint.getTensor('model.tied').name).toBe('model.a');
});

it('begins a file anew that broke, of which nothing stays, and tells of progress', async () => {
  const widened = { names: ['c', 'ids', 'a'], dtype: 'F32' } as const;
  const expected = temporaryPath('expected.safetensors');
  await downloadFrom(hub(), `${source}/model.safetensors`, expected, widened);
  for (const byteLength of [2_000_003, 5_000_001, 7_000_002]) {
    const path = join(folder, `${byteLength}.safetensors`);
    const one = `${source}/model.safetensors`;
    const cut = { ...widened, fetch: breakingFetch(byteLength) };
    await expect(downloadFrom(hub(), one, path, cut)).rejects.toThrow('the line is cut');
    expect(namesIn(folder).filter((name) => name.endsWith('.incomplete'))).toEqual([]);
    const done: number[] = [];
    const { downloadedBytes, byteLength: whole } = await downloadFrom(hub(), one, path, {
      ...widened,
      onProgress: ({ bytes, totalBytes }) => {
        expect(bytes).toBeLessThanOrEqual(totalBytes);
        done.push(bytes);
      },
    });
    expect(downloadedBytes).toBe(whole);
    expect(done).toEqual(done.toSorted((a, b) => a - b));
    expect(readFileSync(path).equals(readFileSync(expected))).toBe(true);
  }
});

it('recognises what it has finished, and not what has another dtype', async () => {
  await downloadFrom(hub(), source, folder, { dtype: 'BF16' });
  const again = await downloadFrom(hub(), source, folder, { dtype: 'BF16' });
  expect(again.downloadedBytes).toBe(0);
  const other = await downloadFrom(hub(), source, folder, { dtype: 'F16' });
  expect(other.downloadedBytes).toBeGreaterThan(4 * LENGTH);
});

it('reports problems before a tensor is fetched', async () => {
  const dtype = (): 'F8_E5M2' => 'F8_E5M2';
  await expect(downloadFrom(hub(), source, folder, { dtype })).rejects.toMatchObject({
    code: 'SAFETENSORS_INVALID_SELECTION',
  });
  expect(namesIn(folder)).toEqual([]);
});

const part = (entry: Parameters<typeof fileBytes>[0][number]): Uint8Array => fileBytes([entry]);
const scale = { name: 'm.weight_scale', dtype: 'F32', shape: [2], bytes: floats(2) } as const;
const packed = { name: 'm.qweight', dtype: 'I32', shape: [2], bytes: noise(8) } as const;
const quantizedHub = useHub({
  'org/packed': {
    files: {
      'model-00001-of-00002.safetensors': part(packed),
      'model-00002-of-00002.safetensors': part({ ...scale, name: 'm.scales' }),
      'model.safetensors.index.json': JSON.stringify({
        metadata: { total_parameters: 16 },
        weight_map: {
          'm.qweight': 'model-00001-of-00002.safetensors',
          'm.scales': 'model-00002-of-00002.safetensors',
        },
      }),
    },
  },
  'org/quantized': {
    files: {
      'model-00001-of-00003.safetensors': part({
        ...scale,
        name: 'm.weight',
        dtype: 'F8_E4M3',
        bytes: noise(2),
      }),
      'model-00002-of-00003.safetensors': part(scale),
      'model-00003-of-00003.safetensors': part({ ...scale, name: 'other.scale' }),
      'model.safetensors.index.json': JSON.stringify({
        metadata: { total_parameters: 6 },
        weight_map: Object.fromEntries(
          ['m.weight', 'm.weight_scale', 'other.scale'].map((name, i) => [
            name,
            `model-0000${i + 1}-of-00003.safetensors`,
          ]),
        ),
      }),
    },
  },
});

it.each([
  [undefined, ['m.weight', 'm.weight_scale', 'other.scale'], undefined],
  [['m.weight_scale', 'other.scale'], ['m.weight_scale', 'other.scale'], '2'],
])('leaves scales of weights of any shard as they are, of %j', async (names, found, total) => {
  const from = 'hf://org/quantized';
  const result = await downloadFrom(quantizedHub(), from, folder, { names, dtype: 'F16' });
  expect([result.cast, result.notCast]).toEqual([['other.scale'], ['m.weight_scale']]);
  using checkpoint = safeOpen(folder);
  expect(checkpoint.keys()).toEqual(found);
  expect(checkpoint.getTensor('m.weight_scale').bytes).toEqual(scale.bytes);
  if (total) expect(checkpoint.metadata?.get('total_parameters')).toBe(total);
});

it.each([
  ['m.qweight', undefined],
  ['m.scales', '0'],
])('counts no parameters of %s, whose other part is in another shard', async (name, total) => {
  await downloadFrom(quantizedHub(), 'hf://org/packed', folder, { names: [name] });
  using checkpoint = safeOpen(folder);
  expect(checkpoint.metadata?.get('total_parameters')).toBe(total);
});
