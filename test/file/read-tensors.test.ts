import { constants } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse, safeOpen, type TransferProgress } from '../support/api.js';
import { type Entry, fileBytes, temporaryPath, writeTemporary } from '../support/make-file.js';
import { nightly } from '../support/nightly.js';
import { openDescriptors } from '../support/open-descriptors.js';
import { measureInChild, runChild } from '../support/run-child.js';

const MIB = 2 ** 20;

function entries(): readonly Entry[] {
  return [
    { name: 'z', dtype: 'F32', shape: [5, 7] },
    { name: 'empty', dtype: 'F32', shape: [0, 3] },
    // Several reads, and a neighbour within the last of them.
    { name: 'large', dtype: 'BF16', shape: [5 * MIB], bytes: randomBytes(10 * MIB) },
    { name: 'scalar', dtype: 'U8', shape: [] },
    { name: 'packed', dtype: 'F4', shape: [2, 5] },
    { name: 'odd', dtype: 'F64', shape: [2] },
  ];
}

describe.each(['mmap', 'read'] as const)('over storage %s', (storage) => {
  test('gives the same tensors as getTensor, each with a buffer of its own', async () => {
    const path = writeTemporary(entries(), { padding: 3 });
    using file = safeOpen(path, { storage });
    const reports: TransferProgress[] = [];
    const loaded = await file.readTensors(undefined, {
      onProgress: (report) => reports.push(report),
    });
    expect([...loaded.keys()]).toEqual(file.offsetKeys());
    for (const [name, tensor] of loaded) {
      const expected = file.getTensor(name);
      const { dtype, shape, byteLength } = expected;
      expect(tensor).toMatchObject({ name, dtype, shape, byteLength, byteOffset: 0 });
      expect(tensor.isAligned).toBe(true);
      expect(tensor.buffer.byteLength).toBe(byteLength);
      expect(tensor.buffer).not.toBe(expected.buffer);
      expect(Buffer.compare(tensor.bytes, expected.bytes)).toBe(0);
    }
    expect(loaded.get('large')?.slice([1, 3]).buffer).toBe(loaded.get('large')?.buffer);
    const totalBytes = 10 * MIB + 140 + 1 + 5 + 16;
    expect(reports.at(-1)).toEqual({ bytes: totalBytes, totalBytes });
  });

  test('every call reads again, and what was loaded outlives handle and file', async () => {
    const path = writeTemporary(entries());
    const file = safeOpen(path, { storage });
    const [one, two] = await Promise.all([file.readTensors(['z']), file.readTensors(['z'])]);
    one.get('z')?.bytes.fill(9);
    expect(two.get('z')?.bytes[0]).toBe(1);
    expect(file.getTensor('z').bytes[0]).toBe(1);
    file.close({ detach: true });
    rmSync(path);
    expect(two.get('z')?.bytes.subarray(0, 3)).toEqual(Uint8Array.of(1, 2, 3));
    expect(one.get('z')?.slice(0).bytes[0]).toBe(9);
  });

  test('takes names in their order, each once', async () => {
    using file = safeOpen(writeTemporary(entries()), { storage });
    const loaded = await file.readTensors(new Set(['odd', 'z', 'empty']).values());
    expect([...loaded.keys()]).toEqual(['odd', 'z', 'empty']);
    expect([...(await file.readTensors(['z', 'odd', 'z'])).keys()]).toEqual(['z', 'odd']);
    expect((await file.readTensors([])).size).toBe(0);
  });

  test.each([false, true])(
    'goes on when the file is closed meanwhile, detach: %s',
    async (detach) => {
      const all = entries();
      const path = writeTemporary(all);
      const expected = all.find(({ name }) => name === 'large')?.bytes ?? Buffer.of();
      const file = safeOpen(path, { storage });
      const running = file.readTensors();
      file.close({ detach });
      // The next opened file gets the descriptor's number, if it is free.
      const other = temporaryPath('other');
      writeFileSync(other, new Uint8Array(12 * MIB).fill(255));
      const others = Array.from({ length: 8 }, () => openSync(other, 'r'));
      const loaded = await running;
      for (const fd of others) closeSync(fd);
      expect(Buffer.compare(loaded.get('large')?.bytes ?? Buffer.of(), expected)).toBe(0);
      expect(openDescriptors(path)).toEqual([]);
    },
  );

  test('is refused when the file changes meanwhile', async () => {
    const path = writeTemporary(entries());
    const touched = safeOpen(path, { storage });
    const touching = touched.readTensors();
    utimesSync(path, 1, 1);
    await expect(touching).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
    touched.close();

    using cut = safeOpen(path, { storage });
    const cutting = cut.readTensors();
    truncateSync(path, MIB);
    await expect(cutting).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
    await expect(cut.readTensors()).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
    expect(cut.ok).toBe(false);
  });

  test('stops at an abort', async () => {
    const path = writeTemporary(entries());
    using file = safeOpen(path, { storage });
    const controller = new AbortController();
    const running = file.readTensors(undefined, { signal: controller.signal });
    controller.abort();
    await expect(running).rejects.toMatchObject({ name: 'AbortError' });
    await expect(file.readTensors([], { signal: AbortSignal.abort('why') })).rejects.toBe('why');
    expect(openDescriptors(path)).toHaveLength(1);
  });

  test('refuses names that are not there, and a closed file', async () => {
    const file = safeOpen(writeTemporary(entries()), { storage });
    await expect(file.readTensors(['z', 'x'])).rejects.toMatchObject({ tensor: 'x' });
    await expect(file.readTensors('z')).rejects.toThrow(/names must be an iterable of strings/);
    file.close();
    await expect(file.readTensors()).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  });

  const limit = constants.MAX_LENGTH;
  test.skipIf(limit > 2 ** 40)('refuses what no buffer holds, before it reads', async () => {
    const path = temporaryPath('huge.safetensors');
    const head = fileBytes([{ name: 't', dtype: 'U8', shape: [4] }]).subarray(0, -4);
    const text = Buffer.from(head.subarray(8)).toString();
    const length = limit + 1;
    const json = text.replace('[4]', `[${length}]`).replace('[0,4]', `[0,${length}]`);
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(json.length));
    writeFileSync(path, Buffer.concat([prefix, Buffer.from(json)]));
    truncateSync(path, 8 + json.length + length);
    using file = safeOpen(path, { storage });
    const refusal = { code: 'SAFETENSORS_TENSOR_TOO_LARGE', tensor: 't' };
    await expect(file.readTensors()).rejects.toMatchObject(refusal);
    if (storage === 'read') await expect(file.prefetch()).rejects.toMatchObject(refusal);
  });

  test('ends with its worker or process, and leaves no descriptor behind', async () => {
    const path = writeTemporary(entries());
    const left = await measureInChild('file/children/read-endings.mjs', [
      path,
      storage,
      'worker-terminate',
      nightly('10', '4'),
    ]);
    expect(left).toBe(0);
    const { code, signal } = await runChild('file/children/read-endings.mjs', [
      path,
      storage,
      'exit',
    ]);
    expect({ code, signal }).toEqual({ code: 7, signal: null });
  });
});

test('of parsed bytes gives copies that outlive the handle', async () => {
  const bytes = fileBytes(entries());
  const file = parse(bytes);
  const reports: TransferProgress[] = [];
  const onProgress = (report: TransferProgress): number => reports.push(report);
  const loaded = await file.readTensors(['z', 'empty'], { onProgress });
  expect(reports).toEqual([{ bytes: 140, totalBytes: 140 }]);
  file.close();
  expect(loaded.get('z')?.buffer).not.toBe(bytes.buffer);
  expect(loaded.get('z')?.bytes[1]).toBe(2);
  expect(loaded.get('empty')?.bytes.length).toBe(0);
});
