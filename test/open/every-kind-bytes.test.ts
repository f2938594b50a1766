/** Where the bytes of tensors are, who owns them, and what needs no file, over every kind of source. */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { inflateRawSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import type { TensorEntry } from '../support/api.js';
import { type Handle, type Kind, NAMED_KINDS, openKind } from './kinds/kinds.js';

/** The bytes of the file to which an entry points: the tensor's, inflated where they are deflated. */
function placedBytes({ name, format, files }: Kind, entry: TensorEntry): Buffer {
  const model = files();
  const bytes = model.get(entry.file) ?? [...model.values()][0];
  const file = Buffer.from(bytes ?? []);
  const start = format === 'safetensors' ? 8 + Number(file.readBigUInt64LE()) : 0;
  const [begin, end] = entry.dataOffsets;
  const placed = file.subarray(start + begin, start + end);
  // An array has its header in front of the items.
  return name === 'a deflated archive' ? inflateRawSync(placed).subarray(128) : placed;
}

/** Every property that the handle's classes compute. */
function gettersOf(handle: Handle): readonly string[] {
  const names: string[] = [];
  for (let type = Object.getPrototypeOf(handle); type !== Object.prototype; ) {
    const own = Object.entries(Object.getOwnPropertyDescriptors(type));
    names.push(...own.filter(([, { get }]) => get !== undefined).map(([name]) => name));
    type = Object.getPrototypeOf(type);
  }
  return names;
}

describe.each(NAMED_KINDS)('%s', (_, kind) => {
  test('has the bytes of every tensor, however it is read', async () => {
    const handle = await openKind(kind);
    const read = await handle.readTensors();
    const entries = await handle.tensors();
    expect(entries.map(({ name }) => name)).toEqual(kind.tensors.map(({ name }) => name));
    for (const [i, { name, dtype, shape, bytes }] of kind.tensors.entries()) {
      expect(entries[i]).toMatchObject({ name, dtype, shape, byteLength: bytes.length });
      const ways = [
        await handle.getTensor(name),
        await handle.getSlice(name, '...'),
        read.get(name),
      ];
      for (const tensor of ways) {
        expect(tensor).toMatchObject({ name, dtype, shape });
        expect(Buffer.from(tensor?.bytes ?? [])).toEqual(Buffer.from(bytes));
      }
    }
  });

  test('lists the file of each tensor, and where its bytes are there', async () => {
    const handle = await openKind(kind);
    const entries = await handle.tensors();
    const { assembled = [] } = kind;
    const files = new Set(entries.map(({ file }) => file));
    // An assembled tensor has the place of its first piece.
    if (assembled.length === 0) expect(files).toEqual(new Set(handle.shards));
    for (const [i, { name, bytes }] of kind.tensors.entries()) {
      if (assembled.includes(name)) continue;
      expect(placedBytes(kind, entries[i] as TensorEntry)).toEqual(Buffer.from(bytes));
    }
  });

  test('returns a stored tensor as the same object, and one that is requested as a new one', async () => {
    const handle = await openKind(kind);
    for (const { name } of kind.tensors) {
      const [first, second] = [await handle.getTensor(name), await handle.getTensor(name)];
      const isStored = handle.local && kind.assembled?.includes(name) !== true;
      expect(second === first, name).toBe(isStored);
      expect(second.buffer === first.buffer, name).toBe(isStored);
    }
  });

  test('reads copies, in the order of the names, which outlive the handle', async () => {
    const handle = await openKind(kind);
    const names = ['scale', 'embed.weight'];
    const stored = await handle.getTensor('scale');
    const [one, two] = await Promise.all([handle.readTensors(names), handle.readTensors()]);
    expect([...one.keys()]).toEqual(names);
    one.get('scale')?.bytes.fill(9);
    const scale = Float32Array.of(0.25);
    expect(two.get('scale')?.data).toEqual(scale);
    expect((await handle.readTensors(['scale'])).get('scale')?.data).toEqual(scale);
    handle.close();
    expect(one.get('scale')?.bytes).toEqual(new Uint8Array(4).fill(9));
    expect(stored.data).toEqual(scale);
    expect(two.get('embed.weight')?.buffer.byteLength).toBe(96);
  });

  test('needs no file for any property', async () => {
    const handle = await openKind(kind);
    const names = ['readFileSync', 'readSync', 'openSync', 'statSync', 'fstatSync'] as const;
    const calls = names.map((name) => vi.spyOn(fs, name));
    syncBuiltinESMExports();
    const found = gettersOf(handle).map((name) => [name, handle[name as keyof Handle]]);
    const counts = calls.map(({ mock }) => mock.calls.length);
    for (const call of calls) call.mockRestore();
    syncBuiltinESMExports();
    expect(found.map(([name]) => name)).toEqual(expect.arrayContaining(['ok', 'size', 'metadata']));
    expect(found.filter(([, value]) => value instanceof Promise)).toEqual([]);
    expect(counts).toEqual(counts.map(() => 0));
  });

  test('lists tensors once for callers at the same time, as offsetKeys and info do', async () => {
    const handle = await openKind(kind);
    const [one, two] = await Promise.all([handle.tensors(), handle.tensors()]);
    expect(one).toEqual(two);
    expect(one).not.toBe(two);
    expect(one.map(({ name }) => name)).toEqual(await handle.offsetKeys());
    for (const { name, dtype, shape, dataOffsets } of one) {
      expect(await handle.info(name)).toEqual({ dtype, shape, dataOffsets });
    }
  });
});
