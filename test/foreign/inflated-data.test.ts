/** What of an archive was inflated is kept for the next window, and no longer than the file is open. */
import { crc32, deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { ForeignShard } from '../../src/foreign/foreign-shard.js';
import { InflatedEntries } from '../../src/foreign/inflated-data.js';
import { tensorData } from '../../src/foreign/tensor-data.js';
import type { Storage } from '../../src/tensor/storage/storage.js';

const VALUES = Uint8Array.from({ length: 6 }, (_, i) => i);
const DEFLATED = new Uint8Array(deflateRawSync(VALUES));

const ENTRY = {
  name: 'entry',
  method: 'deflated',
  begin: 0,
  end: DEFLATED.length,
  byteLength: VALUES.length,
  crc32: crc32(VALUES),
} as const;

/** An archive in memory; `reads` counts how often it is read. */
function archive(): { storage: Storage; reads: () => number } {
  let count = 0;
  const storage = {
    path: 'archive',
    byteLength: DEFLATED.length,
    closed: false,
    readInto: (target: Uint8Array) => {
      count++;
      target.set(DEFLATED);
    },
    close: () => {},
  } as unknown as Storage;
  return { storage, reads: () => count };
}

test('bytes are kept until the file is closed, those of strided tensors too', () => {
  const { storage, reads } = archive();
  const entries = new InflatedEntries(storage, {});
  const held = entries.dataOf(ENTRY);
  const shape = [3, 2];
  const layout = { itemByteLength: 1, shape, strides: [1, 3], offset: 0, byteLength: 6 };
  const data = tensorData(held, layout, undefined);
  const memory = { storage: held, storageByteLength: 6, byteOffset: 0 };
  const file = new ForeignShard(storage, [{ name: 't', dtype: 'U8', shape, ...memory, data }]);
  const target = new Uint8Array(6);
  for (let i = 0; i < 3; i++) data.storage.readInto?.(target, 0);
  expect([[...target], reads()]).toEqual([[0, 3, 1, 4, 2, 5], 1]);
  file.close();
  entries.dataOf(ENTRY).storage.readInto?.(target, 0);
  expect([[...target], reads()]).toEqual([[...VALUES], 2]);
});
