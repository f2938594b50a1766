/** A sharded checkpoint that transformers writes, opened here with the values that torch has. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';

const python = findPython('transformers', 'torch', 'safetensors');
const script = fileURLToPath(new URL('../../support/save_pretrained.py', import.meta.url));

it.skipIf(isSkipped(python))(
  titleWith(python, 'a checkpoint of save_pretrained opens with equal tensors'),
  { timeout: 300_000 },
  async () => {
    const folder = temporaryPath('pretrained');
    const parameters = Number(runPython(python, [script, folder]).trim().split('\n').at(-1));
    const expected = JSON.parse(readFileSync(join(folder, 'tensors.json'), 'utf8')) as Record<
      string,
      { shape: number[]; bytes: string }
    >;
    for (const variant of [undefined, 'fp16']) {
      using checkpoint = safeOpen(folder, { variant });
      expect((await checkpoint.verify()).problems).toEqual([]);
      expect(checkpoint.shards.length).toBeGreaterThan(2);
      for (const [name, { shape, bytes }] of Object.entries(expected)) {
        const tensor = checkpoint.getTensor(name);
        expect([name, tensor.dtype, tensor.shape]).toEqual([name, 'F32', shape]);
        expect(Buffer.from(tensor.bytes).toString('hex'), name).toBe(bytes);
      }
      // The head is tied to the embedding, and only the latter is written.
      expect(checkpoint.keys()).toEqual(Object.keys(expected).sort());
      expect(await checkpoint.summary()).toMatchObject({ parameters, totalParameters: parameters });
    }
  },
);
