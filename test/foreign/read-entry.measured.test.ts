import process from 'node:process';
import { deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { readEntry } from '../../src/foreign/read-entry.js';
import { codeOf, deflatedEntry } from './deflated-entry.js';
import { readerOf } from './zip/archives.js';

test('a stream that would fill the memory stops at the declared length', () => {
  const content = Buffer.alloc(100_000_000);
  const stored = deflateRawSync(content);
  const before = process.memoryUsage().rss;
  const read = (): unknown =>
    readEntry(readerOf(stored), { ...deflatedEntry(stored, content), byteLength: 1000 }, {});
  expect(codeOf(read)).toBe('SAFETENSORS_INVALID_ARCHIVE');
  expect(process.memoryUsage().rss - before).toBeLessThan(20_000_000);
});
