import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { writeTemporary } from '../../support/make-file.js';
import { rounds } from '../../support/message-children.js';
import { measureInChild, runChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/lifetime.mjs';

/** Leftovers of a series of openings; `lines` are those of /proc/self/maps. */
interface LeftBehind {
  descriptors: number;
  mappings: number;
  lines: number;
  /** Bytes of private memory. */
  anonymous: number;
}

describe('nothing is left behind', () => {
  // The engine's own heap grows and shrinks; 64 bytes leaked for each file would be 6 MB.
  test.each([
    ['open-and-release', 100_000, 4e6],
    ['open-and-drop', 5_000, 4e6],
    ['drop-handle-only', 5_000, 4e6],
  ] as const)('%s, %i times', async (scenario, times, tolerance) => {
    const left = await measureInChild<LeftBehind>(CHILD, [scenario]);
    process.stdout.write(`${scenario} x ${times}: ${JSON.stringify(left)}\n`);
    expect(left.descriptors).toBe(0);
    expect(left.mappings).toBe(0);
    expect(left.lines).toBeLessThan(40);
    expect(left.anonymous).toBeLessThan(tolerance);
  });

  test('dropped handles are looked for before there are too many', async () => {
    const { most, left } = await measureInChild<Record<string, number>>(CHILD, ['drop-and-turn']);
    process.stdout.write(`drop-and-turn: at most ${most} of 3000 handles alive\n`);
    expect(most).toBeLessThan(300);
    expect(left).toBe(0);
  });

  test('views keep the file mapped after a release, until they are collected', async () => {
    const expected = { read: 0, held: 1, after: 0, descriptors: 0 };
    expect(await measureInChild(CHILD, ['released-with-views'])).toEqual(expected);
  });

  test('by workers terminated with live views, or while zlib reads them', async () => {
    const expected = { descriptors: 0, mappings: 0 };
    expect(await measureInChild(CHILD, ['workers-terminated'])).toEqual(expected);
  });
});

test('a worker that ends closes no descriptor but its own', async () => {
  expect(await measureInChild(CHILD, ['descriptors-of-a-worker'])).toBe(true);
});

test('a worker can be terminated while it loads the addon', async () => {
  const result = await runChild('platform/addon/children/terminated-load.mjs');
  expect(result).toEqual({ code: 0, signal: null, stdout: '"some"\n', stderr: '' });
});

test.each([
  ['counted', '1'],
  ['not counted, where that is possible', ''],
])('process.exit() with many small buffers alive does not hang: %s', async (_, counted) => {
  const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [2 ** 20] }]);
  const count = rounds(25);
  let ended = 0;
  for (let i = 0; i < count; i++) {
    const { code } = await runChild('platform/addon/children/exit.mjs', [path], {
      timeout: 20_000,
      env: { SAFETENSORS_MMAP_COUNTED_BUFFERS: counted },
    });
    if (code === 0) ended++;
  }
  expect(ended).toBe(count);
});

test.each([
  ['exit-with-views', 0],
  ['process-exit', 3],
  ['detached-at-exit', 0],
])('%s ends with code %i', async (scenario, code) => {
  const result = await runChild(CHILD, [scenario]);
  expect(result).toEqual({ code, signal: null, stdout: '"done"\n', stderr: '' });
});
