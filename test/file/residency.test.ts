import { truncateSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { parse, safeOpen } from '../support/api.js';
import { type Entry, fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { dropFromPageCache } from '../support/page-cache.js';
import { measureInChild } from '../support/run-child.js';

const isLinux = process.platform === 'linux';
const isSuperuser = process.geteuid?.() === 0;

const entries: readonly Entry[] = [
  { name: 't', dtype: 'U8', shape: [3] },
  { name: 'empty', dtype: 'U8', shape: [0] },
  { name: 'large', dtype: 'U8', shape: [5_000_000], bytes: new Uint8Array(5_000_000).fill(7) },
  { name: 'last', dtype: 'U8', shape: [9] },
];

describe.runIf(isLinux)('residency', () => {
  test('counts the bytes of the tensor, not whole pages', () => {
    using file = safeOpen(writeTemporary(entries));
    expect(file.residency()).toBe(file.byteLength());
    expect(file.residency('t')).toBe(3);
    expect(file.residency('empty')).toBe(0);
    expect(file.residency('large')).toBe(5_000_000);
    expect(file.residency('last')).toBe(9);
  });

  test('follows what is read', ({ skip }) => {
    const path = writeTemporary(entries);
    expect(dropFromPageCache(path), 'needs GNU dd').toBe(true);
    using file = safeOpen(path);
    const opened = file.residency('last') ?? 0;
    skip(opened > 0, 'the temporary folder cannot be dropped from the cache');
    expect(file.residency()).toBeLessThan(file.byteLength());
    expect(file.getTensor('last').bytes[0]).toBe(1);
    expect(file.residency('last')).toBe(9);
    expect(file.residency('large')).toBeGreaterThan(0);
  });

  test('counts private copies', ({ skip }) => {
    const path = writeTemporary(entries);
    using file = safeOpen(path);
    file.getTensor('large').bytes.fill(1);
    dropFromPageCache(path);
    skip((file.residency('large') ?? 0) === 0, 'private pages were swapped out');
    expect(file.residency('large')).toBe(5_000_000);
  });

  // More pages than one call of the kernel is asked for: 65 536.
  test('is counted in windows', () => {
    // A hole: reading it takes pages of the cache all the same.
    const path = temporaryPath('sparse.safetensors');
    const byteLength = 400 * 2 ** 20;
    const json = JSON.stringify({
      t: { dtype: 'U8', shape: [byteLength], data_offsets: [0, byteLength] },
    });
    const head = Buffer.alloc(8 + json.length);
    head.writeBigUInt64LE(BigInt(json.length));
    head.write(json, 8);
    writeFileSync(path, head);
    truncateSync(path, head.length + byteLength);
    using file = safeOpen(path);
    const { bytes } = file.getTensor('t');
    for (const position of [100 * 2 ** 20, 256 * 2 ** 20 - head.length, byteLength - 1]) {
      const before = file.residency('t') ?? 0;
      expect(before).toBeLessThan(100 * 2 ** 20);
      expect(bytes[position]).toBe(0);
      expect(file.residency('t')).toBeGreaterThan(before);
    }
  });

  test.runIf(isSuperuser)('is null for a file that is not ours to write', async () => {
    const path = writeTemporary(entries);
    const seen = await measureInChild('file/children/residency-of-others.mjs', [path]);
    const own = fileBytes(entries).length;
    expect(seen).toEqual({ own, others: null, tensor: null });
  });

  test('is refused after a change and after close', () => {
    const path = writeTemporary(entries);
    const file = safeOpen(path);
    expect(() => file.residency('x')).toThrow(/no such tensor/);
    truncateSync(path, 100);
    expect(() => file.residency()).toThrow(/expected \d+ bytes, found 100/);
    file.close();
    expect(() => file.residency()).toThrow('the file is closed');
  });
});

test('residency is null where nothing is mapped', () => {
  using read = safeOpen(writeTemporary(entries), { storage: 'read' });
  expect(read.residency()).toBeNull();
  expect(read.residency('t')).toBeNull();
  using parsed = parse(fileBytes(entries));
  expect(parsed.residency()).toBeNull();
});
