/** Every writing function refuses a big-endian machine before it opens a file. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createWriter, editMetadata, saveFile, serialize } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

test.each<[string, (path: string) => unknown]>([
  ['saveFile', (path) => saveFile(path, {})],
  ['createWriter', (path) => createWriter(path, {})],
  ['editMetadata', (path) => editMetadata(path, { k: '1' })],
])('%s refuses a big-endian machine', async (_, write) => {
  const path = temporaryPath('model.safetensors');
  const old = serialize({});
  writeFileSync(path, old);
  // The bytes of one 16-bit number are all that is asked for.
  vi.stubGlobal('Uint16Array', { of: () => ({ buffer: Uint8Array.of(0, 1).buffer }) });
  onTestFinished(() => {
    vi.unstubAllGlobals();
  });
  await expect((async () => write(path))()).rejects.toMatchObject({
    code: 'SAFETENSORS_BIG_ENDIAN_HOST',
  });
  expect(readFileSync(path)).toEqual(Buffer.from(old));
  expect(readdirSync(dirname(path))).toEqual(['model.safetensors']);
});
