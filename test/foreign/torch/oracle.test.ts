/** Checkpoints that the torch of this machine writes now. */
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { scanPickle } from '../../../src/foreign/scan/scan-file.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { findPython, runPython } from '../../support/python.js';

interface ExpectedTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sha256: string;
}

const python = findPython('torch');
const folder = mkdtempSync(join(tmpdir(), 'safetensors-oracle-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe.skipIf(python.executable === undefined)('checkpoints of torch', () => {
  it('are read as torch reads them, or left out', () => {
    const script = fileURLToPath(new URL('save_checkpoints.py', import.meta.url));
    const output = runPython(python, [script, folder]);
    const expected = JSON.parse(output) as Record<string, Record<string, ExpectedTensor> | null>;
    expect(Object.keys(expected).length).toBeGreaterThan(20);
    for (const [file, tensors] of Object.entries(expected)) {
      const path = join(folder, file);
      expect(scanPickle(path, { verify: true }).verdict, file).toBe('safe');
      using checkpoint = openTorchCheckpoint(path, { root: [] });
      if (tensors === null) {
        expect(checkpoint.problems, file).toMatchObject([
          { code: 'SAFETENSORS_UNSUPPORTED_TENSOR', tensor: 'x' },
        ]);
        expect(checkpoint.size, file).toBe(0);
        continue;
      }
      expect(checkpoint.problems, file).toEqual([]);
      const found = Array.from(checkpoint, ([name, { dtype, shape, bytes }]) => {
        const sha256 = createHash('sha256').update(bytes).digest('hex');
        return [name, { dtype, shape: [...shape], sha256 }];
      });
      expect(Object.fromEntries(found), file).toEqual(tensors);
    }
  });
});
