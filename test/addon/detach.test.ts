import { expect, test } from 'vitest';
import { childValue } from './run-child.js';

const CHILD = 'addon/children/detach.mjs';

// `ArrayBuffer.prototype.transfer` came with Node 22.
const canTransfer = 'transfer' in ArrayBuffer.prototype;

test('views of a detached mapping are empty, the file is let go at once', async () => {
  expect(await childValue(CHILD, 'views')).toEqual({
    before: new Float32Array(Uint8Array.of(7, 7, 7, 7).buffer)[0],
    lengths: [0, 0, 0],
    element: 'undefined',
    files: 0,
    descriptors: 0,
  });
});

test.runIf(canTransfer)('a transferred buffer reads zeros and can be written', async () => {
  const expected = { before: 7, after: 0, written: 3, files: 0 };
  expect(await childValue(CHILD, 'transferred')).toEqual(expected);
});

test('zlib, crypto and fs end well when their buffers are detached under way', async () => {
  const ended = Array(4).fill('fulfilled');
  expect(await childValue(CHILD, 'in-flight')).toEqual(ended);
});

test('a mapping without buffers goes at once, addresses included', async () => {
  const expected = { mapped: 1, grown: true, files: 0, freed: true };
  expect(await childValue(CHILD, 'never-used')).toEqual(expected);
});

// 64 GiB, then 4 095 times 10 MiB (40 GiB): the 4 097th pushes the first one out.
test('the quarantine keeps 4 096 ranges, first in, first out', async () => {
  expect(await childValue(CHILD, 'eviction-by-count')).toEqual([104, 40, 40]);
});

test('the quarantine keeps 1 TiB of addresses', async () => {
  expect(await childValue(CHILD, 'eviction-by-size')).toEqual([300, 600, 900, 900, 900, 900]);
});

test.runIf(canTransfer)('a range that a buffer still holds outlasts the quarantine', async () => {
  const expected = { whileHeld: 64, read: 0, after: 0 };
  expect(await childValue(CHILD, 'evicted-while-held')).toEqual(expected);
});
