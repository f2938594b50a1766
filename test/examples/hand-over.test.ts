/** Mapped tensors in the hands of runtimes: right values, and next to no memory for weights. */
import { describe, expect, it } from 'vitest';
import { Example, NODE_24 } from './example.js';

/** A model with 134 MB in F32, 67 MB in F16. */
function make(): Example {
  const example = new Example('hand-over');
  const [line] = example.lines(['make-model.js', '32768']);
  expect(line).toBe('model.safetensors: 32768 x 1024');
  return example;
}

/** Most that a program may need for weights: far less than these, more than noise. */
const MOST_MEGABYTES = 30;

function expectLittle(line: string | undefined, title: string, weights: number): void {
  const pattern = /^(.*): (\d+) MB of private memory for (\d+) MB of weights$/;
  const [, found, megabytes, all] = pattern.exec(line ?? '') ?? [];
  expect([found, Number(all)]).toEqual([title, weights]);
  expect(Number(megabytes)).toBeLessThan(MOST_MEGABYTES);
}

describe('hand over', () => {
  it('onnxruntime-node maps the file by a model that points into it, and takes tensors as they are', () => {
    const lines = make().lines(['onnx.js']);
    expectLittle(lines[0], 'model.onnx of 177 bytes', 134);
    expect(lines[1]).toBe('the same memory: true');
    expectLittle(lines[2], 'handed over', 134);
  });

  it('TensorFlow.js takes tensors as they are', () => {
    const lines = make().lines(['tensorflow.js']);
    expect(lines[0]).toBe('the same memory: true');
    expectLittle(lines[1], 'TensorFlow.js', 134);
    expect(lines[2]).toBe('sums of three rows are right');
  });

  it('WebAssembly gets rows converted into its memory', () => {
    const lines = make().lines(['wasm.js']);
    expectLittle(lines[0], 'WebAssembly', 67);
    expect(lines[1]).toBe('32768 dot products; that of row 10922 is -10');
  });

  it('Float16Array has the numbers on Node 24; older ones say what to do', () => {
    const example = make();
    const lines = example.lines(['float16.js'], { node: NODE_24 });
    expect(lines.slice(0, 2)).toEqual([
      'the same memory: true',
      'the largest of the first row: 1.875',
    ]);
    expectLittle(lines[2], 'Float16Array', 67);
    if ('Float16Array' in globalThis) return;
    const { code, stderr } = example.run(['float16.js']);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/has no Float16Array: toFloat32\(\)/),
    ]);
  });
});
