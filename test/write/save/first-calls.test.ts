/** The first save and the first edit of a process look at files and arguments when they are called. */
import { expect, test } from 'vitest';
import { measureInChild } from '../../support/run-child.js';

test('what changes right after the call changes no save, and ends an edit', async () => {
  expect(await measureInChild('write/save/children/first-calls.mjs')).toEqual({
    sizes: [2, 2],
    names: ['a', 'b'],
    metadata: [['license', 'mit']],
    code: 'SAFETENSORS_FILE_CHANGED',
  });
});
