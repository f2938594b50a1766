/** Memory that goes away under working threads: each in a process, which may crash. */
import { writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { measureInChild } from '../support/run-child.js';
import { LARGE } from './many-values.js';

describe('memory that is taken away from working threads', () => {
  test.each([
    ['into-transferred', 'ERR_OUT_OF_RANGE'],
    ['into-shrunk', 'ERR_OUT_OF_RANGE'],
    ['into-lying-getter', 'ERR_OUT_OF_RANGE'],
    ['into-lying-buffer', 'ERR_OUT_OF_RANGE'],
    ['source-transferred', undefined],
    ['parsed-transferred', undefined],
    ['read-detached', 'SAFETENSORS_FILE_CLOSED'],
    ['detached', 'SAFETENSORS_FILE_CLOSED'],
    ['truncated', 'SAFETENSORS_FILE_CHANGED'],
    ['worker-terminated', 1],
    ['exit', 'left'],
  ])('%s', async (threat, expected) => {
    const path = writeTemporary(LARGE);
    const smallPath = temporaryPath('small.safetensors');
    writeFileSync(smallPath, fileBytes([{ name: 't', dtype: 'U8', shape: [4] }]));
    const ending = await measureInChild('tensor/children/convert-under-threat.mjs', [
      path,
      threat,
      smallPath,
    ]);
    if (expected !== undefined) expect(ending).toBe(expected);
  });
});
