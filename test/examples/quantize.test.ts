/** FP8 with a scale per tensor and back: every bit as torch; other schemes as their own tools' code computes them. */
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadFile, saveCheckpoint } from '../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';
import { root } from '../support/source-tree.js';
import { Example } from './example.js';

const SCRIPT = fileURLToPath(new URL('quantize.py', import.meta.url));
const python = findPython('torch', 'safetensors', 'huggingface_hub');

describe.skipIf(isSkipped(python))(titleWith(python, 'quantize and back'), () => {
  it('has the codes, scales and values of torch', () => {
    const example = new Example('quantize');
    runPython(python, [SCRIPT, 'make', example.folder]);
    expect(example.lines(['quantize.js', 'model', 'fp8', '--rename', 'model.='])).toEqual([
      '4 weights in FP8, 2 skipped',
      '10.37 MB before, 3.97 MB after',
    ]);
    const config = JSON.parse(readFileSync(example.path('fp8/config.json'), 'utf8'));
    expect(config.quantization_config.ignored_layers).toEqual(['lm_head', 'embed_tokens']);
    const [line] = example.lines(['dequantize.js', 'fp8', 'plain']);
    expect(line).toBe('4 weights in BF16');
    expect(runPython(python, [SCRIPT, 'check', example.folder])).toBe('11 7\n');
    expect(readFileSync(example.path('plain/config.json'), 'utf8')).not.toContain('quantization');
  });

  it('tells what quantization cost', () => {
    const example = new Example('quantize');
    runPython(python, [SCRIPT, 'make', example.folder]);
    example.lines(['quantize.js', 'model', 'fp8']);
    const lines = example.lines(['compare.js', 'fp8', 'model']);
    expect(lines).toHaveLength(4);
    const name = 'model\\.layers\\.\\d\\.mlp\\.up_proj\\.weight';
    const row = new RegExp(`^${name} {2}fp8, 8 bits, [0-3]\\.\\d\\d % off$`);
    expect(lines.filter((text) => !row.test(text))).toEqual([]);
  });
});

it.each(['gptq-4bit-asym-desc-act', 'mlx-4bit-override-8bit', 'ct-nvfp4', 'mxfp4-gpt-oss'])(
  'writes %s as a plain model',
  (name) => {
    const example = new Example('quantize');
    const source = join(root, 'test/fixtures/quantized', name);
    cpSync(source, example.path('model'), { recursive: true });
    example.lines(['dequantize.js', 'model', 'plain', '--dtype', 'F32']);
    const plain = loadFile(example.path('plain'));
    for (const [key, tensor] of loadFile(join(source, 'expected.safetensors'))) {
      expect(plain.get(key)?.toFloat32(), key).toEqual(tensor.toFloat32());
    }
  },
);

it('writes nothing of a weight that is not finite', async () => {
  const example = new Example('quantize');
  const data = Float32Array.of(1, Number.NaN, 2, 3);
  await saveCheckpoint(example.path('model'), {
    'a.weight': { dtype: 'F32', shape: [2, 2], data },
  });
  const { code, stderr } = example.run(['quantize.js', 'model', 'fp8']);
  expect(code).toBe(1);
  expect(stderr).toBe('not quantized: "a.weight" has a value that is NaN\n');
  expect(existsSync(example.path('fp8/model.safetensors'))).toBe(false);
});
