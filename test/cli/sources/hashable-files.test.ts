import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FileServer } from '../../remote/download/file-server.js';
import { filesOf, TWO_SHARDS } from '../../support/make-checkpoint.js';
import { type Entry, fileBytes, writeSparse, writeTemporary } from '../../support/make-file.js';
import { call, printed } from '../call.js';

describe('a file that is somewhere else', () => {
  let server: FileServer;
  beforeEach(async () => {
    server = await FileServer.start();
  });
  afterEach(() => server.close());

  const put = (name: string, bytes: Uint8Array): string => {
    server.files.set(name, { bytes, tag: `"${name}"` });
    return server.url(name);
  };

  it.each([
    [
      'of many dtypes',
      [
        { name: '2', dtype: 'F4', shape: [3, 2] },
        { name: '1', dtype: 'F64', shape: [2] },
        { name: 'none', dtype: 'F32', shape: [0, 4] },
        { name: '__proto__', dtype: 'U8', shape: [] },
      ],
    ],
    ['without tensors', []],
  ] as const)('%s has the hashes that it has here', async (_, entries) => {
    const metadata = { 'modelspec.hash_sha256': '0x', sshs_legacy_hash: 'e3b0c442' };
    const path = writeTemporary(entries as readonly Entry[], { metadata, padding: 5 });
    const here = JSON.parse((await call(['hash', path, '--all', '--json'])).stdout);
    const url = put('model.safetensors', readFileSync(path));
    const { code, stdout } = await call(['hash', url, '--all', '--json']);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toEqual({ ...here, source: url });
  });

  it('is fetched once, a long tensor in parts', async () => {
    const path = writeSparse(70 * 2 ** 20);
    const bytes = readFileSync(path);
    bytes.fill(7, bytes.length >> 1);
    const url = put('sparse.safetensors', bytes);
    const [file] = JSON.parse(await printed(['hash', url, '--json'])).files;
    const other = writeTemporary([
      { name: 't', dtype: 'U8', shape: [70, 2 ** 20], bytes: bytes.subarray(-70 * 2 ** 20) },
    ]);
    const [expected] = JSON.parse(await printed(['hash', other, '--json'])).files;
    expect(file.sshs).toBe(expected.sshs);
    // The first request also fetches bytes next to the header.
    expect(server.sentByteLength).toBeLessThan(bytes.length + 2 ** 20);
  });

  it('of which the index does not name a tensor cannot be hashed', async () => {
    for (const [name, bytes] of filesOf({
      ...TWO_SHARDS,
      weightMap: {
        embed: 'model-00001-of-00002.safetensors',
        'b.weight': 'model-00002-of-00002.safetensors',
      },
    }))
      put(name, bytes);
    const { code, stdout, stderr } = await call([
      'hash',
      server.url('model.safetensors.index.json'),
    ]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^safetensors-mmap: SAFETENSORS_INDEX_MISMATCH: .*"a\.weight".*\n$/);
  });

  it('that is cut short is an error', async () => {
    const bytes = fileBytes([{ name: 't', dtype: 'U8', shape: [2 ** 20] }]);
    const url = put('cut.safetensors', bytes.subarray(0, -1));
    const { code, stdout, stderr } = await call(['hash', url]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^safetensors-mmap: SAFETENSORS_\w+: .*\n$/);
  });
});
