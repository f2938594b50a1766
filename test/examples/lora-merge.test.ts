/** The LoRA merge: every bit as torch computes it in float64, in bounded memory, or nothing at all. */

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
  it('merges an adapter of PEFT into shards', () => {
    const example = make('peft');
    const args = ['merge.js', 'base', 'adapter', 'merged', '--max-shard-size', '500KB'];
    expect(example.lines(args)).toEqual([
      '13 weights merged, 1 replaced',
      expect.stringMatching(/^[5-9] files, 3\.9 MB$/),
      expect.stringMatching(/^at most \d+ MB of private memory$/),
    ]);
    expectAsTorch(example);
    expect(readFileSync(example.path('merged/config.json'), 'utf8')).toContain('"test"');
  });

  it('merges into weights that are stored transposed', () => {
    const example = make('fan-in-fan-out');
    example.lines(['merge.js', 'base', 'adapter', 'merged']);
    expectAsTorch(example);
  });

  it("merges an adapter with kohya's names, convolutions too", () => {
    const example = make('kohya');
    const adapter = join('adapter', 'adapter_model.safetensors');
    const [first] = example.lines(['merge.js', 'base', adapter, 'merged']);
    expect(first).toBe('3 weights merged, 0 replaced');
    expectAsTorch(example);
  });

  it('needs memory for some rows, whatever the base has', () => {
    const example = make('large');
    const [first, second, third] = example.lines(['merge.js', 'base', 'adapter', 'merged']);
    expect([first, second]).toEqual(['3 weights merged, 0 replaced', '1 file, 402.7 MB']);
    const [, megabytes] = /^at most (\d+) MB of private memory$/.exec(third ?? '') ?? [];
    expect(Number(megabytes)).toBeLessThan(200);
  });

  it('writes nothing when adapter and base do not fit', () => {
    const example = make('peft');
    const config = example.path('adapter/adapter_config.json');
    const expectRefused = (message: RegExp): void => {
      const { code, stderr } = example.run(['merge.js', 'base', 'adapter', 'merged']);
      expect([code, stderr]).toEqual([1, expect.stringMatching(message)]);
      expect(existsSync(example.path('merged'))).toBe(false);
    };
    const text = readFileSync(config, 'utf8');
    writeFileSync(config, JSON.stringify({ ...JSON.parse(text), use_dora: true }));
    expectRefused(/^not merged: adapter: use_dora is not supported\n$/);
    writeFileSync(config, text);
    runPython(python, [SCRIPT, 'fan-in-fan-out', example.folder]);
    writeFileSync(config, text);
    expectRefused(/^not merged: "h\.0\.attn\.c_attn\.weight" is \[64,192\], the adapter's factors/);
  });

  it('writes no NaN, no infinity, and names the tensor', async () => {
    const example = make('peft');
    const weight = 'model.layers.0.v_proj.weight';
    const module = 'base_model.model.model.layers.0.v_proj';
    const adapter = example.path('adapter/adapter_model.safetensors');
    const config = example.path('adapter/adapter_config.json');
    const whole = readFileSync(adapter);
    const text = readFileSync(config, 'utf8');
    const failing = (message: string): void => {
      const { code, stdout, stderr } = example.run(['merge.js', 'base', 'adapter', 'merged']);
      expect([code, stdout, stderr]).toEqual([1, '', `not merged: ${message}\n`]);
      expect(existsSync(example.path('merged/model.safetensors'))).toBe(false);
      writeFileSync(adapter, whole);
      writeFileSync(config, text);
    };
    /** Overwrites the first value of a tensor of the adapter. */
    const poison = async (name: string, value: number): Promise<void> => {
      using file = safeOpen(adapter);
      const [{ dataStart } = { dataStart: Number.NaN }] = await file.headers();
      const begin = dataStart + (file.info(name).dataOffsets[0] as number);
      const bytes = Buffer.from(whole);
      bytes.writeFloatLE(value, begin);
      writeFileSync(adapter, bytes);
    };
    await poison(`${module}.lora_A.weight`, Number.NaN);
    failing(`"${weight}" would have the value NaN in row 0`);
    await poison(`${module}.lora_A.weight`, Number.POSITIVE_INFINITY);
    const { stderr: infinite } = example.run(['merge.js', 'base', 'adapter', 'merged']);
    expect(infinite).toMatch(
      RegExp(`^not merged: "${weight}" would have the value -?Infinity in row 0\n$`),
    );
    failing(infinite.slice('not merged: '.length, -1));
    await poison('base_model.model.score.weight', Number.NEGATIVE_INFINITY);
    failing('"score.weight" would have the value -Infinity in row 0');
    writeFileSync(config, text.replace('"lora_alpha": 16', '"lora_alpha": "x"'));
    failing('"model.layers.0.q_proj.weight": the adapter\'s alpha / rank is NaN');
    await poison(`${module}.lora_B.weight`, 1e8);
    const { stderr } = example.run(['merge.js', 'base', 'adapter', 'merged']);
    expect(stderr).toMatch(
      RegExp(
        `^not merged: "${weight}" would have the value -?\\d+\\S*, too large for F16 in row 0\n$`,
      ),
    );
    failing(stderr.slice('not merged: '.length, -1));
  });
});
