/**
 * Random files that torch writes now: tensors of other devices, and whole modules. Torch's own reading is the oracle.
 */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { convert, loadFile } from '../../support/api.js';
import { findPython, runPython } from '../../support/python.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const COUNT = 60;

const TORCH_DTYPES: Readonly<Record<string, string>> = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
  I64: 'int64',
  I32: 'int32',
  I16: 'int16',
  I8: 'int8',
  U8: 'uint8',
  BOOL: 'bool',
  C64: 'complex64',
};

interface ExpectedTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sha256: string;
}

interface ReadTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

function described({ dtype, shape, bytes }: ReadTensor): ExpectedTensor {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { dtype: TORCH_DTYPES[dtype] as string, shape: [...shape], sha256 };
}

const python = findPython('torch');
const folder = mkdtempSync(join(tmpdir(), 'safetensors-oracle-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe.skipIf(python.executable === undefined)('torch and this package read the same of', () => {
  it.each([
    ['tensors of other devices', 'save_device_tensors.py'],
    ['whole modules', 'save_modules.py'],
  ])('%s', async (_, script) => {
    const path = join(import.meta.dirname, script);
    const output = runPython(python, [path, folder, String(SEED), String(COUNT)]);
    const expected = JSON.parse(output) as Record<string, Record<string, ExpectedTensor>>;
    expect(Object.keys(expected).length).toBeGreaterThan(COUNT / 3);
    for (const [file, tensors] of Object.entries(expected)) {
      const about = `seed ${SEED}, ${script}, ${file}`;
      const source = join(folder, file);
      using checkpoint = openTorchCheckpoint(source, { unknownGlobals: 'placeholder' });
      expect(checkpoint.problems, about).toEqual([]);
      const found = Array.from(checkpoint, ([name, tensor]) => [name, described(tensor)]);
      expect(Object.fromEntries(found), about).toEqual(tensors);
      const target = join(folder, 'converted');
      const options = { unknownGlobals: 'placeholder', shared: 'copy', overwrite: true } as const;
      await convert(source, target, options);
      const written = Array.from(loadFile(join(target, 'model.safetensors')), ([name, tensor]) => [
        name,
        described(tensor),
      ]);
      expect(Object.fromEntries(written), about).toEqual(tensors);
    }
  });
});
