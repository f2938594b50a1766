/** Files of other formats as safetensors files: the same tensors, and any range of the same bytes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openVirtualFile, type VirtualFile } from '../../../src/cli/sources/virtual-file.js';
import { ggufBytes } from '../../foreign/gguf/generated-gguf.js';
import { type Checkpoint, dequantize, open, parse } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { Random } from '../../support/random.js';
import { root } from '../../support/source-tree.js';

const { signal } = new AbortController();

function bytesOf(file: VirtualFile, begin = 0, end: number = file.byteLength): Buffer {
  return Buffer.concat([...file.read(begin, end)]);
}

/** A GGUF file with a quantized matrix, whose blocks hold 32 values, and a tensor of floats. */
function writtenGguf(): string {
  const blocks = Uint8Array.from({ length: 5 * 2 * 34 }, (_, at) => (at % 34 < 2 ? 0x2c : at * 7));
  const floats = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
  const path = temporaryPath('model.gguf');
  const tensors = [
    { name: 'a.weight', dims: [64, 5], type: 8, offset: 0 },
    { name: 'b.bias', dims: [4], type: 0, offset: 352 },
  ];
  const data = Buffer.concat([blocks, Buffer.alloc(352 - blocks.length), floats, Buffer.alloc(16)]);
  writeFileSync(path, ggufBytes({ tensors, data }));
  return path;
}

const torch = (name: string) => join(root, 'test/fixtures/torch', name);

describe.each([
  ['a state dict', () => torch('zip-state-dict.pt')],
  ['all dtypes', () => torch('zip-all-dtypes.pt')],
  ['scalars and empty tensors', () => torch('zip-scalar-empty.pt')],
  ['a quantized GGUF file', writtenGguf],
])('%s', (_, pathOf) => {
  it('has the same tensors', async () => {
    const path = pathOf();
    const virtual = parse(bytesOf(await openVirtualFile(path, signal)));
    const opened = (await open(path)) as Checkpoint;
    const checkpoint = opened.format === 'gguf' ? await dequantize(opened) : opened;
    const names = (all: Checkpoint) => [...all.keys()].sort();
    expect(names(virtual)).toEqual(names(checkpoint));
    for (const name of checkpoint.keys()) {
      const [found, expected] = [virtual.getTensor(name), checkpoint.getTensor(name)];
      expect([name, found.dtype, found.shape]).toEqual([name, expected.dtype, expected.shape]);
      expect(Buffer.compare(found.bytes, expected.bytes)).toBe(0);
    }
    opened.close();
  });

  it('is read in any range', async () => {
    const file = await openVirtualFile(pathOf(), signal);
    const whole = bytesOf(file);
    expect(whole.length).toBe(file.byteLength);
    for (let tries = 0; tries < 200; tries++) {
      const random = new Random(1, tries);
      const begin = random.below(whole.length);
      const end = begin + random.from(1, Math.min(300, whole.length - begin));
      expect(bytesOf(file, begin, end).equals(whole.subarray(begin, end))).toBe(true);
    }
  });
});
