/** What is different between a file that is written anew and one that is edited in place. */
import { chmodSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { editMetadata, safeOpen, serialize } from '../../src/index.js';
import { countedBytes, fileBytes, writeTemporary } from '../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';

const ENTRIES = [
  { name: 'a', dtype: 'F32', shape: [2, 3] },
  { name: 'b', dtype: 'U8', shape: [7] },
] as const;

let path: string;

beforeEach(() => {
  path = writeTemporary(ENTRIES, { metadata: { format: 'pt', b: '1' } });
  // So that a change of the time shows, whatever the clock of the file system.
  utimesSync(path, 1, 1);
});

function metadataOf(file: string): unknown {
  const opened = safeOpen(file);
  try {
    return opened.metadata === null ? null : Object.fromEntries(opened.metadata);
  } finally {
    opened.close();
  }
}

/** A file with so many spaces at the end of its header. */
function withPadding(padding: number): void {
  writeFileSync(path, fileBytes(ENTRIES, { metadata: { k: '' }, padding }));
  utimesSync(path, 1, 1);
}

describe('in a new file', () => {
  test('the data keeps its alignment when the header grows', async () => {
    for (const alignment of [8, 64, 4096]) {
      const tensor = { dtype: 'U8', shape: [5], data: countedBytes(5) } as const;
      writeFileSync(path, serialize({ a: tensor }, { alignment }));
      const note = 'x'.repeat(alignment + 100);
      const { headerByteLength } = await editMetadata(path, { note });
      expect((8 + headerByteLength) % alignment).toBe(0);
      const file = safeOpen(path);
      expect(file.getTensor('a').data).toEqual(countedBytes(5));
      file.close();
    }
  });

  test('is what serialize writes with the new metadata', async () => {
    const tensors = { a: { dtype: 'U8', shape: [5], data: countedBytes(5) } } as const;
    writeFileSync(path, serialize(tensors, { metadata: { b: '1' } }));
    const metadata = { c: 'x'.repeat(77), a: '' };
    await editMetadata(path, new Map([...Object.entries(metadata), ['b', null]]));
    expect(readFileSync(path)).toEqual(Buffer.from(serialize(tensors, { metadata })));
  });

  test('keeps the permissions; handles that are open stay as they were', async () => {
    chmodSync(path, 0o640);
    const file = safeOpen(path);
    await editMetadata(path, { b: '2' });
    expect(statSync(path).mode & 0o777).toBe(0o640);
    expect(file.getTensor('b').data).toEqual(countedBytes(7));
    expect(file.metadata?.get('b')).toBe('1');
    file.close();
    expect(metadataOf(path)).toEqual({ format: 'pt', b: '2' });
  });
});

test.each([
  ['new files', [false, false, false]],
  ['in place', [true, true, true]],
  ['both', [false, true, false]],
])('of several edits at once (%s) none that succeeds is lost', async (_, ways) => {
  for (let round = 0; round < 10; round++) {
    withPadding(200);
    const results = await Promise.allSettled(
      ways.map((inPlace, i) => editMetadata(path, { [`key${i}`]: 'x' }, { inPlace })),
    );
    const done = results.flatMap(({ status }, i) => (status === 'fulfilled' ? [`key${i}`] : []));
    expect(done.length).toBeGreaterThan(0);
    expect(Object.keys(metadataOf(path) as object).sort()).toEqual(['k', ...done].sort());
    for (const result of results) {
      if (result.status === 'fulfilled') continue;
      expect(result.reason.code).toMatch(/^SAFETENSORS_(FILE_CHANGED|EDIT_INTERRUPTED)$/);
    }
  }
});

describe('in place', () => {
  test('what fits exactly is written, one byte more is not', async () => {
    withPadding(20);
    const before = readFileSync(path);
    const { ino } = statSync(path);
    await expect(
      editMetadata(path, { k: 'x'.repeat(21) }, { inPlace: true }),
    ).rejects.toMatchObject({
      code: 'SAFETENSORS_HEADER_FULL',
      path,
      message: expect.stringMatching(/: 1 bytes are missing; .*`reserve`/),
    });
    await expect(editMetadata(path, { k: 'ä'.repeat(20) }, { inPlace: true })).rejects.toThrow(
      ': 20 bytes are missing',
    );
    expect(readFileSync(path)).toEqual(before);
    const edit = await editMetadata(path, { k: 'x'.repeat(20) }, { inPlace: true });
    expect(edit).toMatchObject({ method: 'inPlace', spareByteLength: 0 });
    expect(metadataOf(path)).toEqual({ k: 'x'.repeat(20) });
    expect(statSync(path).ino).toBe(ino);
    expect(readFileSync(path).length).toBe(before.length);
  });

  test('reserve leaves the room that it says', async () => {
    writeFileSync(path, serialize({}, { metadata: {}, reserve: 100 }));
    const { spareByteLength } = await editMetadata(path, {});
    expect(spareByteLength).toBeGreaterThanOrEqual(100);
    await editMetadata(path, { k: 'x'.repeat(spareByteLength - 6) }, { inPlace: true });
    expect(metadataOf(path)).toEqual({ k: 'x'.repeat(spareByteLength - 6) });
  });

  test('handles that are open notice it', async () => {
    const file = safeOpen(path);
    file.getTensor('a');
    await editMetadata(path, { b: '2' }, { inPlace: true });
    expect(() => file.getTensor('a')).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' }),
    );
    expect(file.ok).toBe(false);
    file.close();
  });
});

const python = findPython('safetensors', 'numpy');
describe.skipIf(isSkipped(python))(titleWith(python, 'the Python reference'), () => {
  test.each([false, true])('reads what was edited, inPlace: %s', async (inPlace) => {
    withPadding(50);
    await editMetadata(path, { k: null, n: 'ä\n"' }, { inPlace, durable: false });
    const script = `
import json, sys
from safetensors import safe_open
with safe_open(sys.argv[1], framework='np') as f:
    print(json.dumps([f.metadata(), f.get_tensor('a').shape, f.get_tensor('b').tolist()]))
`;
    expect(JSON.parse(runPython(python, ['-c', script, path]))).toEqual([
      { n: 'ä\n"' },
      [2, 3],
      [1, 2, 3, 4, 5, 6, 7],
    ]);
  });
});
