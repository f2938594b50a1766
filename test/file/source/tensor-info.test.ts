/** Descriptions of files, tensors and checkpoints: in logs, and of the place of their bytes. */
import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parse, safeOpen, saveCheckpoint, serialize } from '../../support/api.js';
import { temporaryPath, writeTemporary } from '../../support/make-file.js';

const entries = [
  { name: 'a', dtype: 'F32', shape: [2, 2] },
  { name: 'b', dtype: 'U8', shape: [3] },
] as const;

/** `text` without the places where `inspect` breaks lines. */
function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ');
}

describe('a file', () => {
  test('shows facts, and none of its data', () => {
    const path = writeTemporary(entries);
    const file = safeOpen(path);
    expect(oneLine(inspect(file, { breakLength: Number.POSITIVE_INFINITY }))).toBe(
      `Checkpoint { path: '${path}', shards: [ '${basename(path)}' ], storage: 'mmap', ok: true, ` +
        'size: 2, metadata: null }',
    );
    expect(inspect({ deep: { deeper: { file } } }, { depth: 1 })).not.toContain(path);
    expect(inspect({ file }, { depth: 0 })).toBe('{ file: [Checkpoint] }');
    expect(JSON.parse(JSON.stringify({ file }))).toEqual({
      file: { path, shards: [basename(path)], storage: 'mmap', ok: true, size: 2, metadata: null },
    });
    file.close();
    expect(oneLine(inspect(file))).toBe(
      `Checkpoint { path: '${path}', shards: [ '${basename(path)}' ], storage: 'mmap', ok: false }`,
    );
    const shards = [basename(path)];
    expect(JSON.parse(JSON.stringify(file))).toEqual({ path, shards, storage: 'mmap', ok: false });
  });

  test('shows metadata, also under names that objects have already', () => {
    const metadata = new Map([
      ['format', 'pt'],
      ['__proto__', 'mine'],
    ]);
    const file = parse(serialize({}, { metadata }));
    expect(inspect(file)).toContain("format: 'pt'");
    expect(Object.entries(file.toJSON().metadata ?? {}).toSorted()).toEqual(
      [...metadata].toSorted(),
    );
  });

  test('knows where the data begins, and the text of its header', async () => {
    const path = writeTemporary(entries);
    const bytes = readFileSync(path);
    for (const file of [safeOpen(path), safeOpen(path, { storage: 'read' }), parse(bytes)]) {
      const length = Number(bytes.readBigUInt64LE(0));
      const [{ dataStart, text } = { dataStart: 0, text: '' }] = await file.headers();
      expect(dataStart).toBe(8 + length);
      expect(text).toBe(bytes.toString('utf8', 8, 8 + length));
      const [begin, end] = file.info('b').dataOffsets;
      const own = bytes.subarray(dataStart + begin, dataStart + end);
      expect(own.equals(file.getTensor('b').bytes)).toBe(true);
      file.close();
      await expect(file.headers()).rejects.toThrow(/closed/);
    }
  });

  test('keeps a byte order mark within its header', async () => {
    const file = parse(serialize({}, { metadata: { a: '\ufeffx', '\ufeff': '模型🙂' } }));
    const [header] = await file.headers();
    expect(JSON.parse(`${header?.text}`)).toEqual({
      __metadata__: { a: '\ufeffx', '\ufeff': '模型🙂' },
    });
  });
});

test('a tensor shows what it is, and none of its data', () => {
  const file = safeOpen(writeTemporary(entries));
  const tensor = file.getTensor('a');
  const facts = { name: 'a', dtype: 'F32', shape: [2, 2], elementCount: 4, byteLength: 16 };
  expect(tensor.data.length).toBe(4);
  expect(oneLine(inspect(tensor))).toBe(`Tensor ${oneLine(inspect(facts))}`);
  expect(oneLine(inspect(tensor.slice(0)))).toMatch(/^Tensor { name: 'a', .*shape: \[ 2 \]/);
  expect(JSON.parse(JSON.stringify(tensor))).toEqual(facts);
  file.close();
  expect(oneLine(inspect(tensor))).toBe(`Tensor ${oneLine(inspect(facts))}`);
});

test('a checkpoint shows its shards, and opens none', async () => {
  const folder = dirname(temporaryPath('model/x'));
  const tensors = parse(readFileSync(writeTemporary(entries)));
  const { path } = await saveCheckpoint(folder, tensors, { maxShardSize: 16 });
  const checkpoint = safeOpen(folder);
  const shards = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
  const facts = { path, shards, ok: true, size: 2 };
  expect(JSON.parse(JSON.stringify(checkpoint))).toMatchObject(facts);
  expect(oneLine(inspect(checkpoint))).toMatch(
    /^Checkpoint { path: .*model-00002-of-00002.*size: 2/,
  );
  checkpoint.close();
  const closed = { path, shards, storage: 'mmap', ok: false };
  expect(JSON.parse(JSON.stringify(checkpoint))).toEqual(closed);
  expect(oneLine(inspect(checkpoint))).toMatch(/ok: false }$/);
});
