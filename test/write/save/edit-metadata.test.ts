import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeEach, describe, expect, test } from 'vitest';
import { editMetadata, type MetadataEdit, safeOpen, serialize } from '../../support/api.js';
import { countedBytes, fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { findPython, isSkipped, runPython, titleWith } from '../../support/python.js';

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

const names = (): string[] => readdirSync(dirname(path));

function dataOf(file: string): Buffer {
  const bytes = readFileSync(file);
  return bytes.subarray(8 + Number(bytes.readBigUInt64LE(0)));
}

function metadataOf(file: string): unknown {
  using opened = safeOpen(file);
  return opened.metadata === null ? null : Object.fromEntries(opened.metadata);
}

/** A file with so many spaces at the end of its header. */
function withPadding(padding: number): void {
  writeFileSync(path, fileBytes(ENTRIES, { metadata: { k: '' }, padding }));
  utimesSync(path, 1, 1);
}

describe.each([false, true])('inPlace: %s', (inPlace) => {
  const method = inPlace ? 'inPlace' : 'rewritten';

  test('sets, replaces and deletes keys, and reports what it did', async () => {
    withPadding(200);
    const size = statSync(path).size;
    const data = dataOf(path);
    const edit = await editMetadata(path, { z: 'ä', a: '1', k: null }, { inPlace });
    const { headerByteLength, spareByteLength } = edit;
    expect(edit).toEqual({
      method,
      metadata: new Map([
        ['a', '1'],
        ['z', 'ä'],
      ]),
      headerByteLength,
      spareByteLength,
    });
    expect(metadataOf(path)).toEqual({ a: '1', z: 'ä' });
    expect(dataOf(path)).toEqual(data);
    expect(statSync(path).size).toBe(size);
    const header = readFileSync(path)
      .subarray(8, 8 + headerByteLength)
      .toString();
    expect(header).toMatch(/^\{"__metadata__":\{"a":"1","z":"ä"\},"a":.*\} +$/);
    expect(header.length - header.trimEnd().length).toBe(spareByteLength);
    expect(names()).toEqual(['model.safetensors']);
  });

  test('deleting the last key leaves {}', async () => {
    expect((await editMetadata(path, { format: null, b: null }, { inPlace })).metadata).toEqual(
      new Map(),
    );
    expect(readFileSync(path, 'latin1').slice(8)).toMatch(/^\{"__metadata__":\{\},"a":/);
  });

  test('nothing is written when nothing changes', async () => {
    const before = readFileSync(path);
    const { mtimeNs, ino } = statSync(path, { bigint: true });
    const edit = await editMetadata(path, { format: 'pt', x: null }, { inPlace });
    expect(edit).toMatchObject({
      method: 'none',
      metadata: new Map([
        ['format', 'pt'],
        ['b', '1'],
      ]),
    });
    expect(readFileSync(path)).toEqual(before);
    expect(statSync(path, { bigint: true })).toMatchObject({ mtimeNs, ino });
  });

  test('foreign fields and unusual spacing survive', async () => {
    const rest =
      ',\t"a" : {"x":[null,{"y":1e3}], "data_offsets":[ 0,2],"shape":[2],"dtype":"U8"}\n}';
    const header = `{ "__metadata__" : { "k" : "12345678" }${rest}  \n`;
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(header.length));
    writeFileSync(path, Buffer.concat([prefix, Buffer.from(`${header}AB`)]));
    await editMetadata(path, { k: null, a: 'b' }, { inPlace });
    const expected = `{ "__metadata__" : {"a":"b"}${rest}`.padEnd(header.length, ' ');
    expect(readFileSync(path, 'latin1').slice(8)).toBe(`${expected}AB`);
  });

  test.each([
    ['null', '{"__metadata__":null,"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', 'A'],
    ['none', '{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', 'A'],
    ['none, without tensors', '{}', ''],
    ['null, without tensors', '{"__metadata__":null}', ''],
  ])('metadata that are %s', async (_, json, data) => {
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(json.length + 40));
    writeFileSync(path, Buffer.concat([prefix, Buffer.from(json.padEnd(json.length + 40) + data)]));
    expect(await editMetadata(path, {}, { inPlace })).toMatchObject({
      method: 'none',
      metadata: null,
    });
    expect(await editMetadata(path, { k: 'v' }, { inPlace })).toMatchObject({ method });
    expect(metadataOf(path)).toEqual({ k: 'v' });
    expect(dataOf(path).toString()).toBe(data);
  });

  test('links are followed', async () => {
    mkdirSync(temporaryPath('folder'));
    const link = temporaryPath('folder/link');
    symlinkSync('../model.safetensors', link);
    await editMetadata(link, { b: null }, { inPlace });
    expect(metadataOf(path)).toEqual({ format: 'pt' });
    expect(readdirSync(dirname(link))).toEqual(['link']);
  });

  test('a path may be a URL or a Buffer', async () => {
    await editMetadata(pathToFileURL(path), { b: '2' }, { inPlace });
    await editMetadata(Buffer.from(path), { format: 'np' }, { inPlace });
    expect(metadataOf(path)).toEqual({ b: '2', format: 'np' });
  });

  test('blobs of the Hub cache are refused', async () => {
    const folder = temporaryPath('models--org--name/blobs');
    mkdirSync(folder, { recursive: true });
    renameSync(path, `${folder}/0a1b`);
    symlinkSync(`${folder}/0a1b`, path);
    await expect(editMetadata(path, { b: null }, { inPlace })).rejects.toMatchObject({
      code: 'SAFETENSORS_HUB_CACHE_BLOB',
      path,
    });
    expect(metadataOf(path)).toEqual({ format: 'pt', b: '1' });
    expect(readdirSync(folder)).toEqual(['0a1b']);
  });

  test('is refused while there is a backup', async () => {
    writeFileSync(`${path}.header-backup`, 'old');
    // Also when the header is broken.
    writeFileSync(path, 'broken');
    await expect(editMetadata(path, { b: null }, { inPlace })).rejects.toMatchObject({
      code: 'SAFETENSORS_EDIT_INTERRUPTED',
      path,
      message: expect.stringContaining(
        `\`dd if='${path}.header-backup' of='${path}' conv=notrunc\``,
      ),
    });
    expect(readFileSync(path, 'utf8')).toBe('broken');
  });

  test('bad files and bad arguments are refused', async () => {
    const edit = (changes: unknown, options: unknown = {}): Promise<MetadataEdit> =>
      editMetadata(path, changes as never, { inPlace, ...(options as object) });
    const before = readFileSync(path);
    await expect(edit({ k: 1 })).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    await expect(edit(null)).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    await expect(edit({ k: '\ud800' })).rejects.toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      message: expect.stringContaining('metadata "k"'),
    });
    await expect(edit({}, { durable: 1 })).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    await expect(edit({}, { inPlace: 1 })).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    await expect(edit({}, { signal: 1 })).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    await expect(edit({}, { inplace: true })).rejects.toThrow('did you mean inPlace?');
    await expect(edit({}, { lockTimeout: '1' })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    });
    await expect(edit({}, { lockTimeout: -1 })).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    await expect(editMetadata(path, {}, null as never)).rejects.toBeInstanceOf(TypeError);
    await expect(editMetadata(1 as never, {})).rejects.toBeInstanceOf(TypeError);
    expect(readFileSync(path)).toEqual(before);
    const link = temporaryPath('link');
    symlinkSync('missing', link);
    await expect(editMetadata(link, {}, { inPlace })).rejects.toMatchObject({
      code: 'ENOENT',
      path: link,
    });
    unlinkSync(link);
    await expect(editMetadata(dirname(path), {}, { inPlace })).rejects.toMatchObject({
      code: 'SAFETENSORS_NOT_A_REGULAR_FILE',
    });
    const twice = '{"__metadata__":{"a":"1","a":"2"}}';
    writeFileSync(path, `${String.fromCharCode(twice.length)}\0\0\0\0\0\0\0${twice}`);
    await expect(edit({ b: '1' })).rejects.toMatchObject({
      code: 'SAFETENSORS_DUPLICATE_KEY',
      path,
    });
    expect(names()).toEqual(['model.safetensors']);
  });

  test('aborting leaves the old file, progress ends with all bytes', async () => {
    withPadding(100);
    const before = readFileSync(path);
    const signal = AbortSignal.abort(new Error('no'));
    await expect(editMetadata(path, { k: '1' }, { inPlace, signal })).rejects.toThrow('no');
    expect(statSync(path).mtimeMs).toBe(1000);
    const late = new AbortController();
    const edit = editMetadata(path, { k: '1' }, { inPlace, signal: late.signal });
    late.abort(new Error('late'));
    await expect(edit).rejects.toThrow('late');
    expect(readFileSync(path)).toEqual(before);
    expect(names()).toEqual(['model.safetensors']);
    const seen: number[] = [];
    const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }): void => {
      seen.push(bytes, totalBytes);
    };
    const { headerByteLength } = await editMetadata(path, { k: '1' }, { inPlace, onProgress });
    const total = inPlace ? 8 + headerByteLength : before.length;
    expect(seen).toEqual([total, total]);
  });

  test('no descriptor stays open', async () => {
    const next = (): number => {
      const fd = openSync(path, 'r');
      closeSync(fd);
      return fd;
    };
    const before = next();
    await editMetadata(path, { b: null }, { inPlace });
    await editMetadata(path, {}, { inPlace });
    await editMetadata(path, { b: 'x'.repeat(999) }, { inPlace: true }).catch(() => {});
    expect(next()).toBe(before);
  });
});

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

  test('keeps the permissions; open handles stay as they were', async () => {
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

  test('reserve leaves as much room as it says', async () => {
    writeFileSync(path, serialize({}, { metadata: {}, reserve: 100 }));
    const { spareByteLength } = await editMetadata(path, {});
    expect(spareByteLength).toBeGreaterThanOrEqual(100);
    await editMetadata(path, { k: 'x'.repeat(spareByteLength - 6) }, { inPlace: true });
    expect(metadataOf(path)).toEqual({ k: 'x'.repeat(spareByteLength - 6) });
  });

  test('open handles notice it', async () => {
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
