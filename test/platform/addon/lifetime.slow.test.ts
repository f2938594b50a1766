import { describe, expect, test } from 'vitest';
import { writeTemporary } from '../../support/make-file.js';
import { rounds } from '../../support/message-children.js';
import { nightly } from '../../support/nightly.js';
import { measureInChild, runChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/lifetime.mjs';

describe('nothing is left behind', () => {
  test('by workers terminated with live views, or while zlib reads them', async () => {
    const expected = { descriptors: 0, mappings: 0 };
    expect(await measureInChild(CHILD, ['workers-terminated', nightly('8', '4')])).toEqual(
      expected,
    );
  });
});

test('a worker can be terminated while it loads the addon', async () => {
  const result = await runChild('platform/addon/children/terminated-load.mjs', [
    nightly('60', '30'),
  ]);
  expect(result).toEqual({ code: 0, signal: null, stdout: '"some"\n', stderr: '' });
});

test.each([
  ['counted', '1'],
  ['not counted, where that is possible', ''],
])('process.exit() with many small buffers alive does not hang: %s', async (_, counted) => {
  const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [2 ** 20] }]);
  const count = rounds(25, 8);
  let ended = 0;
  for (let i = 0; i < count; i++) {
    const { code } = await runChild('platform/addon/children/exit.mjs', [path], {
      timeout: 120_000,
      env: { SAFETENSORS_MMAP_COUNTED_BUFFERS: counted },
    });
    if (code === 0) ended++;
  }
  expect(ended).toBe(count);
});
