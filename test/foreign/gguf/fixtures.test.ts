/** The recorded GGUF files: every value is that of ggml, bit for bit. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type Checkpoint,
  convert,
  dequantize,
  loadFile,
  open,
  type Tensor,
} from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { root } from '../../support/source-tree.js';

const folder = join(root, 'test/fixtures/gguf');
const names = readdirSync(folder);

const openFixture = async (name: string, storage?: 'read'): Promise<Checkpoint> => {
  const path: string = join(folder, name, 'model.gguf');
  return await open(path, { storage, remote: false });
};

/** The tensor `bf16` is recorded with another dtype, which its name lists. */
function expectedOf(name: string): Map<string, Tensor> {
  const found = new Map<string, Tensor>();
  for (const [recorded, tensor] of loadFile(join(folder, name, 'expected.safetensors'))) {
    found.set(recorded.replace('_as_u16', ''), tensor);
  }
  return found;
}

const bitsOf = (values: Float32Array): Uint32Array => new Uint32Array(values.slice().buffer);

describe.each(names)('%s', (name) => {
  test.each([undefined, 'read'] as const)(
    'has the values of ggml (storage: %s)',
    async (storage) => {
      using file = await openFixture(name, storage);
      using view = await dequantize(file);
      const expected = expectedOf(name);
      expect(view.keys()).toEqual([...expected.keys()].sort());
      for (const [tensorName, { dtype, shape, bytes }] of expected) {
        const tensor = view.getTensor(tensorName);
        expect([tensor.dtype, tensor.shape]).toEqual([dtype === 'U16' ? 'BF16' : dtype, shape]);
        expect(Buffer.from(tensor.bytes).equals(bytes), tensorName).toBe(true);
      }
    },
  );

  test('has the same values row by row', async () => {
    using file = await openFixture(name);
    using view = await dequantize(file);
    for (const [tensorName, whole] of expectedOf(name)) {
      const columns = whole.shape.at(-1) ?? 1;
      if (whole.shape.length < 2 || whole.dtype === 'U16') continue;
      const values = whole.toFloat32();
      const tensor = view.getTensor(tensorName);
      for (let row = 0; row < values.length / columns; row++) {
        const got = tensor.toFloat32({ rows: [row, row + 1] });
        const wanted = values.subarray(row * columns, (row + 1) * columns);
        expect(bitsOf(got), `${tensorName} ${row}`).toEqual(bitsOf(wanted));
      }
    }
  });

  test('converts to the same values', async () => {
    const target = temporaryPath('out.safetensors');
    await convert(join(folder, name, 'model.gguf'), target, { dequantize: 'F32' });
    const expected = expectedOf(name);
    const written = loadFile(target);
    expect([...written.keys()].sort()).toEqual([...expected.keys()].sort());
    for (const [tensorName, { bytes }] of expected) {
      expect(Buffer.from(written.get(tensorName)?.bytes ?? []).equals(bytes), tensorName).toBe(
        true,
      );
    }
  });
});

test('metadata and values of every type', async () => {
  using file = await openFixture('kv-all-types');
  const recorded: Record<string, unknown> = JSON.parse(
    readFileSync(join(folder, 'kv-all-types/expected.metadata.json'), 'utf8'),
  );
  const values = (await file.extra()) as Map<string, unknown>;
  const shown = [...values].map(([key, value]) => [
    key,
    typeof value === 'bigint' ? `${value}` : value,
  ]);
  expect(Object.fromEntries(shown)).toMatchObject(recorded);
  const scalars = Object.entries(recorded).filter(([, value]) => !Array.isArray(value));
  expect(Object.fromEntries(file.metadata ?? [])).toMatchObject(
    Object.fromEntries(scalars.map(([key, value]) => [key, String(value)])),
  );
  expect(file.metadata?.has('t.arr_i32')).toBe(false);
  expect(await file.extra()).toBe(values);
});

test('a tensor of blocks is listed as bytes, with how they are stored', async () => {
  using file = await openFixture('q4_k');
  const name = file.keys().find((one) => file.info(one).quantization !== undefined) as string;
  const { dtype, shape, quantization } = file.info(name);
  expect([dtype, (shape.at(-1) ?? 0) % 144]).toEqual(['U8', 0]);
  expect(quantization).toEqual({
    ...{ scheme: 'gguf-q4_k', bits: 4, block: [1, 256], storedAs: { weight: name } },
    byteLength: file.getTensor(name).byteLength,
  });
  expect(file.getTensor(name).buffer).toBe(file.getTensor(name).buffer);
});
