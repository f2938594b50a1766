/** `editMetadata` up to the longest header that is written. */
import { readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test, vi } from 'vitest';
import { editMetadata, serialize } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';

const LIMIT = nightly(100_000_000, 100_000);

vi.mock(import('../../../src/header/header.js'), async (importOriginal) => {
  const { nightly } = await import('../../support/nightly.js');
  const module = await importOriginal();
  const limit = nightly(module.DEFAULT_MAX_HEADER_BYTE_LENGTH as number, 100_000);
  return { ...module, DEFAULT_MAX_HEADER_BYTE_LENGTH: limit as 100_000_000 };
});

test.each([false, true])(
  'a header as long as the limit can be edited, no longer one; inPlace: %s',
  async (inPlace) => {
    const path = temporaryPath('model.safetensors');
    const bytes = serialize([], { metadata: { k: 'x'.repeat(LIMIT - 30) } });
    expect(bytes.length).toBe(8 + LIMIT);
    writeFileSync(path, bytes);
    const { spareByteLength } = await editMetadata(path, { k: 'y' }, { inPlace, durable: false });
    expect(spareByteLength).toBe(LIMIT - 26);
    const longest = 'z'.repeat(LIMIT - 25);
    const edit = await editMetadata(path, { k: longest }, { inPlace, durable: false });
    const method = inPlace ? 'inPlace' : 'rewritten';
    expect(edit).toMatchObject({ method, headerByteLength: LIMIT, spareByteLength: 0 });
    await expect(editMetadata(path, { k: `${longest}z` }, { inPlace })).rejects.toMatchObject({
      code: inPlace ? 'SAFETENSORS_HEADER_FULL' : 'SAFETENSORS_HEADER_TOO_LARGE',
      path,
    });
    expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
  },
);
