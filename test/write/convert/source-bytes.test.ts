/** Which bytes of a source the kernel copies and which are computed; which checksums are compared on the way. */
import { writeFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { InflatedStorage } from '../../../src/foreign/inflated-data.js';
import type { ForeignTensor } from '../../../src/foreign/tensors/foreign-tensor.js';
import type { ArchiveEntry } from '../../../src/foreign/zip/archive.js';
import { openRegularFile } from '../../../src/platform/io/opened-file.js';
import { openStorage } from '../../../src/platform/storage/open.js';
import type { AsyncFill } from '../../../src/tensor/storage/computed.js';
import type { LeasableStorage, Storage } from '../../../src/tensor/storage/storage.js';
import { runSync } from '../../../src/work/work.js';
import { SourceBytes } from '../../../src/write/convert/source.js';
import type { ComputedPayload, FilePayload } from '../../../src/write/input/tensor-input.js';
import { viewed } from '../../foreign/storages.js';
import { countedBytes, temporaryPath } from '../../support/make-file.js';

const bytes = countedBytes(300_000);
/** The most bytes before a tensor in its entry. */
const MAX_START = 2 ** 16;

function entryOf(begin: number, end: number): ArchiveEntry {
  const content = bytes.subarray(begin, end);
  const byteLength = content.length;
  return { name: `${begin}`, method: 'stored', begin, end, byteLength, crc32: crc32(content) };
}

const first = entryOf(100, 100 + MAX_START + 1);
const short = entryOf(90_000, 90_010);
const second = entryOf(100_000, 300_000);

function tensorOf(storage: Storage, begin: number, end: number): ForeignTensor {
  const byteLength = end - begin;
  const data = { storage, begin, byteLength };
  const memory = { storage, storageByteLength: storage.byteLength, byteOffset: begin };
  return { name: `${begin}`, dtype: 'U8', shape: [byteLength], ...memory, data };
}

let storage: LeasableStorage;

beforeEach(() => {
  const path = temporaryPath('archive');
  writeFileSync(path, bytes);
  const file = runSync(openRegularFile(path, path));
  storage = runSync(openStorage(file, new Uint8Array(), { storage: 'read' }));
  onTestFinished(() => storage.close(false));
});

const sourceOf = (entries: readonly ArchiveEntry[], verify = true): SourceBytes =>
  new SourceBytes(new Map([[storage, { entries, limits: {} }]]), verify);

describe.each([
  ['in the order of their bytes', [first, short, second]],
  ['in another order, such as that of a pickle', [second, short, first]],
])('of entries %s', (_, entries) => {
  test('all of one is copied, and added up', () => {
    const payload = sourceOf(entries).payloadOf(tensorOf(storage, short.begin, short.end));
    expect(payload).toMatchObject({ kind: 'file', position: short.begin });
    const { checksum } = payload as FilePayload;
    checksum?.require(short.crc32 ?? 0);
    const mismatch = expect.objectContaining({ code: 'SAFETENSORS_CHECKSUM_MISMATCH' });
    expect(() => checksum?.require((short.crc32 ?? 0) ^ 1)).toThrow(mismatch);
  });

  test.each([
    ['the one byte behind its first 64 KiB', first.end - 1, first.end],
    ['all behind its first 64 KiB', second.begin + MAX_START, second.end],
  ])('%s is added up while it is copied', (_what, begin, end) => {
    expect(sourceOf(entries).payloadOf(tensorOf(storage, begin, end)).kind).toBe('computed');
  });

  test.each([
    ['what is not at its end', short.begin, short.end - 1],
    ['what is farther behind its start', second.begin + MAX_START + 1, second.end],
    ['none of its bytes', short.end, short.end],
    ['what is before all', 10, 20],
  ])('%s is copied by the kernel', (_what, begin, end) => {
    const payload = sourceOf(entries).payloadOf(tensorOf(storage, begin, end));
    expect(payload).toEqual({ kind: 'file', storage, position: begin });
  });
});

describe('a wrong checksum', () => {
  const wrong = { ...second, crc32: (second.crc32 ?? 0) ^ 1 };
  const mismatch = { code: 'SAFETENSORS_CHECKSUM_MISMATCH' };
  let whole: ForeignTensor;
  let part: ForeignTensor;

  beforeEach(() => {
    whole = tensorOf(storage, second.begin, second.end);
    part = tensorOf(storage, second.begin, second.end - 1);
  });

  test('is found where all of the entry is written, and not looked for before', async () => {
    const source = sourceOf([first, wrong]);
    await source.verifyOthers([part, whole], undefined);
    const { checksum } = source.payloadOf(whole) as FilePayload;
    const target = new Uint8Array(second.byteLength);
    await expect(async () => checksum?.fill(target, 0)).rejects.toMatchObject(mismatch);
  });

  test('is looked for where a part is written', async () => {
    await expect(sourceOf([first, wrong]).verifyOthers([part], undefined)).rejects.toMatchObject(
      mismatch,
    );
    await sourceOf([first, wrong], false).verifyOthers([part], undefined);
  });
});

test('what is deflated is inflated in its order from near its start to its end, else as a whole', () => {
  const byteLength = 200_000;
  const inOrder: AsyncFill = () => {};
  const inflated = new InflatedStorage(
    byteLength,
    viewed(new Uint8Array(10)),
    () => {},
    () => inOrder,
    () => {},
  );
  const isInOrder = (begin: number, end: number): boolean => {
    const payload = sourceOf([]).payloadOf(tensorOf(inflated, begin, end)) as ComputedPayload;
    return payload.fill === inOrder;
  };
  expect([isInOrder(0, byteLength), isInOrder(MAX_START, byteLength)]).toEqual([true, true]);
  expect([isInOrder(0, byteLength - 1), isInOrder(MAX_START + 1, byteLength)]).toEqual([
    false,
    false,
  ]);
});
