/** Sums in the metadata of a source are compared while its tensors are converted or downloaded. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { convertStream } from '../../../src/write/convert/convert-stream.js';
import { downloadFrom, emptyFolder, noise, useHub } from '../../remote/download/downloads.js';
import { convert, parse } from '../../support/api.js';
import { type Entry, fileBytes, temporaryPath } from '../../support/make-file.js';

/** More than one piece, which is cast. */
const LONG = 700_001;

const ENTRIES: readonly Entry[] = [
  { name: 'long', dtype: 'F32', shape: [LONG], bytes: noise(4 * LONG) },
  { name: 'empty', dtype: 'F32', shape: [0], bytes: new Uint8Array() },
  { name: 'short', dtype: 'U8', shape: [5], bytes: Uint8Array.of(1, 2, 3, 4, 5) },
];

function withSums(wrong?: string): Uint8Array {
  const sums = ENTRIES.map(({ name, bytes = '' }) =>
    createHash('sha256')
      .update(name === wrong ? 'other' : bytes)
      .digest('hex'),
  );
  return fileBytes(ENTRIES, { metadata: { 'safetensors-mmap.sha256': sums.join('') } });
}

const code = 'SAFETENSORS_CHECKSUM_MISMATCH';

function written(bytes: Uint8Array, name: string): string {
  const path = temporaryPath(name);
  writeFileSync(path, bytes);
  return path;
}

describe('convert', () => {
  it.each([{}, { dtype: 'F16' }, { maxShardSize: 1000 }] as const)('with %o', async (choices) => {
    const options = { ...choices, durable: false, overwrite: true };
    const target = temporaryPath('target');
    await convert(written(withSums(), 'right.safetensors'), target, options);
    for (const tensor of ['long', 'short']) {
      const source = written(withSums(tensor), 'wrong.safetensors');
      const none = temporaryPath('none');
      const error = { code, tensor, path: source };
      await expect(convert(source, none, options)).rejects.toMatchObject(error);
      expect(existsSync(none)).toBe(false);
      // Of tensors that are left out nothing is read.
      const others = { ...options, names: (name: string): boolean => name !== tensor };
      await convert(source, temporaryPath('others'), others);
      await convert(source, temporaryPath('unverified'), { ...options, verify: false });
    }
  });

  it('as a stream', async () => {
    const right = await convertStream(written(withSums(), 'right.safetensors'));
    const bytes = new Uint8Array(await new Response(right.stream.readable()).arrayBuffer());
    expect(parse(bytes).keys()).toEqual(['empty', 'long', 'short']);
    const wrong = await convertStream(written(withSums('short'), 'wrong.safetensors'));
    const reading = new Response(wrong.stream.readable()).arrayBuffer();
    await expect(reading).rejects.toMatchObject({ code, tensor: 'short' });
  });

  it('refuses text that is no sums', async () => {
    const path = written(
      fileBytes(ENTRIES, { metadata: { 'safetensors-mmap.sha256': 'ff' } }),
      'odd.safetensors',
    );
    await expect(convert(path, temporaryPath('none'))).rejects.toMatchObject({ code });
    const resharded = convert(path, temporaryPath('resharded'), { durable: false });
    await expect(resharded).rejects.toMatchObject({ code });
  });
});

describe('download of tensors', () => {
  const hub = useHub({
    'org/right': { files: { 'model.safetensors': withSums() } },
    'org/wrong': { files: { 'model.safetensors': withSums('long') } },
  });

  it.each([{ names: ['long', 'short'] }, { dtype: 'F16' }] as const)('with %o', async (choices) => {
    const folder = emptyFolder('right');
    await downloadFrom(hub(), 'hf://org/right', folder, choices);
    const none = emptyFolder('wrong');
    const failed = downloadFrom(hub(), 'hf://org/wrong', none, choices);
    await expect(failed).rejects.toMatchObject({ code, tensor: 'long' });
    expect(readdirSync(none).filter((name) => name.endsWith('.safetensors'))).toEqual([]);
    await downloadFrom(hub(), 'hf://org/wrong', none, { ...choices, names: ['short'] });
  });
});
