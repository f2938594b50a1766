/** `convertStream`: the bytes of `convert`, as a stream. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type ConversionStreamOptions,
  convertStream,
} from '../../../src/write/convert/convert-stream.js';
import { convert } from '../../support/api.js';
import { TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { root } from '../../support/source-tree.js';

/** A PyTorch fixture, copied to the temporary folder. */
function torch(name: string): string {
  const path = temporaryPath(name);
  cpSync(join(root, 'test/fixtures/torch', name), path);
  return path;
}

async function bytesOf(source: string, options?: ConversionStreamOptions): Promise<Buffer> {
  const { stream } = await convertStream(source, options);
  const pieces: Uint8Array[] = [];
  for await (const piece of stream) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  expect(bytes.length).toBe(stream.byteLength);
  return bytes;
}

describe('convertStream', () => {
  it.each([
    ['a torch file', () => torch('zip-state-dict.pt'), {}],
    ['its tensors in another dtype', () => torch('zip-state-dict.pt'), { dtype: 'BF16' }],
    ['two shards', () => writeCheckpoint(TWO_SHARDS), { metadata: { title: 'b' } }],
    [
      'renamed tensors',
      () => writeCheckpoint(TWO_SHARDS),
      { rename: (name: string) => `x.${name}` },
    ],
  ] as const)('gives the bytes of convert for %s', async (_, sourceOf, options) => {
    const source = sourceOf();
    const target = temporaryPath('converted.safetensors');
    const bytes = await bytesOf(source, options as ConversionStreamOptions);
    expect(openDescriptors()).toEqual([]);
    const converted = await convert(source, target, { durable: false, ...(options as object) });
    const { files, index, path, deleted, failedDeletions, replaced, ...rest } = converted;
    const { copied, skipped, configMismatches, ...facts } = rest;
    expect(Buffer.compare(bytes, readFileSync(target))).toBe(0);
    const { stream, close, ...streamed } = await convertStream(source, options as object);
    expect(streamed).toEqual({ ...facts, overflowed: new Map() });
    close();
    expect(openDescriptors()).toEqual([]);
  });

  it('counts the elements that are too large while it is read', async () => {
    const bytes = Uint8Array.from(Buffer.from(Float32Array.of(1, 1e9).buffer));
    const source = writeTemporary([{ name: 'w', dtype: 'F32', shape: [2], bytes }]);
    const { stream, overflowed } = await convertStream(source, { dtype: 'F16' });
    expect(overflowed.size).toBe(0);
    for await (const piece of stream) expect(piece.length).toBe(stream.byteLength);
    expect(overflowed).toEqual(new Map([['w', 1]]));
  });

  it('refuses wrong choices at once, and closes the source', async () => {
    const source = writeCheckpoint(TWO_SHARDS);
    await expect(convertStream(source, { names: ['missing'] })).rejects.toMatchObject({
      code: 'SAFETENSORS_TENSOR_NOT_FOUND',
    });
    await expect(convertStream(source, { maxShardSize: 4 } as object)).rejects.toThrow(TypeError);
    await expect(convertStream(source, { verify: 1 } as object)).rejects.toThrow(/verify/);
    const reason = new Error('enough');
    const signal = AbortSignal.abort(reason);
    await expect(convertStream(source, { signal })).rejects.toBe(reason);
    expect(openDescriptors()).toEqual([]);
  });

  it('ends with an error for bytes that differ from their checksum', async () => {
    const bytes = readFileSync(torch('zip-state-dict.pt'));
    const at = bytes.indexOf(Buffer.from(Float32Array.of(1).buffer));
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    const source = temporaryPath('damaged.pt');
    writeFileSync(source, bytes);
    await expect(bytesOf(source)).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
    });
    await expect(bytesOf(source, { verify: false })).resolves.toBeInstanceOf(Buffer);
  });
});
