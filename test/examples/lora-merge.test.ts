/** The LoRA merge: every bit as torch computes it in float64, or nothing at all. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { loadFile, safeOpen } from '../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';
import { Example } from './example.js';

const SCRIPT = fileURLToPath(new URL('lora.py', import.meta.url));
const python = findPython('torch', 'safetensors', 'huggingface_hub');

function make(kind: string): Example {
  const example = new Example('lora-merge');
  runPython(python, [SCRIPT, kind, example.folder]);
  return example;
}

function expectAsTorch(example: Example): void {
  const expected = loadFile(example.path('expected.safetensors'));
  const merged = safeOpen(example.path('merged'));
  expect(merged.keys()).toEqual([...expected.keys()].toSorted());
  for (const [name, { dtype, shape, bytes }] of expected) {
    const found = merged.getTensor(name);
    expect([name, found.dtype, found.shape]).toEqual([name, dtype, shape]);
    expect(found.bytes, name).toEqual(bytes);
  }
  merged.close();
}

describe.skipIf(isSkipped(python))(titleWith(python, 'the LoRA merge'), () => {
  it('merges an adapter of PEFT', () => {
    const example = make('peft');
    expect(example.lines(['merge.js', 'base', 'adapter', 'merged'])).toEqual([
      '14 weights merged',
      '1 files, 3.9 MB',
    ]);
    expectAsTorch(example);
  });

  it('merges into weights that are stored transposed', () => {
    const example = make('fan-in-fan-out');
    example.lines(['merge.js', 'base', 'adapter', 'merged']);
    expectAsTorch(example);
  });

  it("merges an adapter with kohya's names, convolutions too", () => {
    const example = make('kohya');
    const adapter = join('adapter', 'style.safetensors');
    const [first] = example.lines(['merge.js', 'base', adapter, 'merged', 'unet']);
    expect(first).toBe('3 weights merged');
    expectAsTorch(example);
  });

  it('writes nothing when adapter and base do not fit', () => {
    const example = make('peft');
    const base = make('kohya').path('base');
    const { code, stderr } = example.run(['merge.js', base, 'adapter', 'merged']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('SAFETENSORS_MERGE_UNMATCHED')]);
    expect(existsSync(example.path('merged'))).toBe(false);
  });

  it('writes no NaN, and names the tensor', async () => {
    const example = make('peft');
    const adapter = example.path('adapter/adapter_model.safetensors');
    const bytes = readFileSync(adapter);
    {
      using file = safeOpen(adapter);
      const [{ dataStart } = { dataStart: Number.NaN }] = await file.headers();
      const { dataOffsets } = file.info('base_model.model.model.layers.0.v_proj.lora_A.weight');
      bytes.writeFloatLE(Number.NaN, dataStart + (dataOffsets[0] as number));
    }
    writeFileSync(adapter, bytes);
    const { code, stderr } = example.run(['merge.js', 'base', 'adapter', 'merged']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('model.layers.0.v_proj.weight')]);
    expect(stderr).toContain('SAFETENSORS_NON_FINITE');
    expect(existsSync(example.path('merged/model.safetensors'))).toBe(false);
  });
});
