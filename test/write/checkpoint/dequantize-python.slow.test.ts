/**
 * transformers loads a plain checkpoint as what it makes of the quantized one by itself. Of what it dequantizes without a
 * GPU only block FP8, MXFP8, MXFP4 and MLX need no further package: compressed-tensors, bitsandbytes and GPTQModel are
 * separate packages, whose code made the values of `test/fixtures/quantized`.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convert } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';
import { childPath } from '../../support/run-child.js';

const python = findPython('torch', 'safetensors', 'transformers');
const run = (...args: readonly string[]): never =>
  JSON.parse(
    runPython(python, [childPath('write/checkpoint/children/dequantized_models.py'), ...args])
      .trim()
      .split('\n')
      .at(-1) as string,
  ) as never;

const FP8 = ['fp8-block', 'fp8-bf16-scales', 'fp8-experts', 'mxfp8'];
const LOADED = {
  F32: ['float32', [...FP8, 'mlx-2', 'mlx-4', 'mlx-8']],
  BF16: ['bfloat16', [...FP8, 'mxfp4-gpt-oss']],
  F16: ['float16', FP8],
} as const;

describe.skipIf(isSkipped(python))(titleWith(python, 'tiny models in transformers'), () => {
  it('have the weights and logits that it computes', { timeout: 300_000 }, async () => {
    const folder = temporaryPath('models');
    mkdirSync(folder);
    const kinds: readonly string[] = run('make', folder);
    for (const [dequantize, [dtype, compared]] of Object.entries(LOADED)) {
      for (const kind of kinds) {
        const target = join(folder, `${kind}-plain`);
        const fast = { durable: false, overwrite: true };
        const options = { dequantize: dequantize as 'F32', maxShardSize: '300KB', ...fast };
        const { dequantized } = await convert(join(folder, kind), target, options);
        expect(dequantized.length, kind).toBeGreaterThan(3);
      }
      expect(run('compare', folder, dtype)).toEqual([compared, {}]);
    }
  });
});
