/** The kind of a file by its first bytes. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { fileKindOf } from '../../src/foreign/file-kind.js';
import { scanPickle } from '../../src/foreign/scan/scan-file.js';
import { openTorchCheckpoint } from '../../src/foreign/torch/open.js';
import { serialize } from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { fixturePath } from './torch/fixtures.js';

/** A safetensors file whose header has that length. */
function withHeaderOf(length: number): Uint8Array {
  const data = new Uint8Array(1);
  const entry = (pad: number) =>
    serialize({ t: { dtype: 'U8', shape: [1], data } }, { metadata: { pad: '.'.repeat(pad) } });
  const shortest = entry(0);
  return entry(length - Number(new DataView(shortest.buffer).getBigUint64(0, true)));
}

it.each([640, 896, 1152, 1408, 66_688])(
  'a header of %i bytes, whose length begins as a pickle does, is one of safetensors',
  (length) => {
    const bytes = withHeaderOf(length);
    expect([bytes[0], fileKindOf(bytes)]).toEqual([0x80, 'safetensors']);
    const path = temporaryPath('model.safetensors');
    writeFileSync(path, bytes);
    expect(scanPickle(path)).toMatchObject({
      verdict: 'no-pickle',
      format: 'a safetensors file',
    });
    expect(() => openTorchCheckpoint(path)).toThrow(
      expect.objectContaining({
        message: expect.stringContaining('a safetensors file, which safeOpen opens'),
        foundFormat: 'safetensors',
      }),
    );
  },
);

it('what torch wrote as a stream is a pickle', () => {
  expect(fileKindOf(readFileSync(fixturePath('legacy-basic.pt')))).toBe('pickle');
});
