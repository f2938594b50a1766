import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { requireReplaceableFile } from '../../../src/write/save/replace-file.js';
import { temporaryPath } from '../../support/make-file.js';

test('a file can be replaced, and one that is not there can be written', () => {
  const path = temporaryPath('model.safetensors');
  requireReplaceableFile(path);
  requireReplaceableFile(temporaryPath('missing/model.safetensors'));
  writeFileSync(path, 'old');
  requireReplaceableFile(path);
});

test('a folder and a blob of the Hub cache cannot', () => {
  const folder = dirname(temporaryPath('x'));
  expect(() => requireReplaceableFile(folder)).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_NOT_A_REGULAR_FILE', path: folder }),
  );
  const blobs = temporaryPath('models--a--b/blobs');
  mkdirSync(blobs, { recursive: true });
  writeFileSync(`${blobs}/0123`, 'old');
  const link = temporaryPath('link');
  symlinkSync(`${blobs}/0123`, link);
  expect(() => requireReplaceableFile(link)).toThrow(
    expect.objectContaining({ code: 'SAFETENSORS_HUB_CACHE_BLOB', path: link }),
  );
});
