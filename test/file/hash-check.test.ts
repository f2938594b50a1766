/** `verify` and `expectedHash` at open. */

import { createHash } from 'node:crypto';
import {
  appendFileSync,
  openSync,
  readFileSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { NamedTensorsInMemory } from '../../src/write/input/tensor-input.js';
import {
  type Checkpoint,
  editMetadata,
  loadFile,
  type OpenOptions,
  safeOpen,
  safeOpenAsync,
  saveCheckpoint,
  saveFile,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { openDescriptors } from '../support/open-descriptors.js';
import { equalTensors } from '../support/saved-tensors.js';

const KEY = 'safetensors-mmap.sha256';
const CODE = 'SAFETENSORS_CHECKSUM_MISMATCH';
const MIB = 2 ** 20;

const TENSORS = {
  long: { dtype: 'F32', shape: [2 * MIB], data: new Float32Array(2 * MIB).fill(2) },
  none: { dtype: 'F32', shape: [0], data: new Float32Array(0) },
  short: { dtype: 'U8', shape: [3], data: Uint8Array.of(1, 2, 3) },
} as const satisfies NamedTensorsInMemory;

async function saved(options = { digests: true }): Promise<string> {
  const path = temporaryPath('model.safetensors');
  await saveFile(path, TENSORS, options);
  return path;
}

function hashOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

/** Changes the last byte, which is of `short`. */
function damage(path: string): void {
  const bytes = readFileSync(path);
  bytes[bytes.length - 1] = 0;
  writeFileSync(path, bytes);
}

describe.each([
  ['safeOpen', async (path: string, options: OpenOptions) => safeOpen(path, options)],
  ['safeOpenAsync', safeOpenAsync],
])('%s', (_, open: (path: string, options: OpenOptions) => Promise<Checkpoint>) => {
  it('opens a file with the hash and the sums that are expected', async () => {
    const path = await saved();
    const expectedHash = hashOf(path).toUpperCase();
    for (const storage of ['mmap', 'read'] as const) {
      using file = await open(path, { storage, verify: true, expectedHash });
      expect(file.getTensor('short').bytes).toEqual(Uint8Array.of(1, 2, 3));
    }
  });

  it('rejects other bytes, with the tensor or both hashes, and leaves nothing open', async () => {
    const path = await saved();
    const expectedHash = hashOf(path);
    damage(path);
    await expect(open(path, { verify: true })).rejects.toMatchObject({
      ...{ code: CODE, path, tensor: 'short' },
      message: expect.stringMatching(/declares [\da-f]{64}, found [\da-f]{64}$/),
    });
    await expect(open(path, { expectedHash })).rejects.toMatchObject({
      ...{ code: CODE, path },
      message: expect.stringContaining(`the SHA-256 ${expectedHash}, found ${hashOf(path)}`),
    });
    expect(openDescriptors()).toEqual([]);
    (await open(path, {})).close();
  });

  it('rejects a file without sums, and sums that cannot be', async () => {
    const path = await saved({ digests: false });
    await expect(open(path, { verify: true })).rejects.toThrow('found none');
    for (const text of ['', 'x', '0'.repeat(63 * 3), 'Z'.repeat(64 * 3), '0'.repeat(64 * 4)]) {
      await editMetadata(path, { [KEY]: text });
      const opening = open(path, { verify: true });
      await expect(opening).rejects.toMatchObject({ code: CODE });
      await expect(open(path, {}).then((file) => file.close())).resolves.toBeUndefined();
    }
  });

  it('refuses options of other kinds', async () => {
    const path = await saved();
    const wrong = (options: object, code: string): Promise<void> =>
      expect(open(path, options)).rejects.toMatchObject({ code });
    await wrong({ verify: 1 }, 'ERR_INVALID_ARG_TYPE');
    await wrong({ expectedHash: 1 }, 'ERR_INVALID_ARG_TYPE');
    await wrong({ expectedHash: 'abc' }, 'ERR_OUT_OF_RANGE');
    await wrong({ expectedHash: 'g'.repeat(64) }, 'ERR_OUT_OF_RANGE');
  });
});

describe('loadFile and descriptors', () => {
  it('compare, too', async () => {
    const path = await saved();
    expect(loadFile(path, { verify: true }).size).toBe(3);
    damage(path);
    expect(() => loadFile(path, { verify: true })).toThrow('declares');
    const fd = openSync(path, 'r');
    expect(() => safeOpen(fd, { verify: true })).toThrow('declares');
  });
});

describe('a file that changes while it is compared', () => {
  it.each([
    ['grows', (path: string) => appendFileSync(path, 'x')],
    ['is cut short', (path: string) => truncateSync(path, 5 * MIB)],
    ['is written', (path: string, time: number) => utimesSync(path, 1, time)],
  ])('is an error when it %s', async (_, change) => {
    const path = await saved();
    const opening = safeOpenAsync(path, { verify: true });
    // The header was read when the first turn of the event loop ends, and some pieces at most.
    let time = 1;
    const timer = setInterval(() => change(path, time++), 0);
    try {
      await expect(opening).rejects.toMatchObject({
        code: expect.stringMatching(/^SAFETENSORS_(FILE_CHANGED|INCOMPLETE|METADATA_INCOMPLETE)/),
      });
    } finally {
      clearInterval(timer);
    }
  });

  it('ends with the signal', async () => {
    const ending = new AbortController();
    const opening = safeOpenAsync(await saved(), { verify: true, signal: ending.signal });
    setImmediate(() => ending.abort(new Error('enough')));
    await expect(opening).rejects.toThrow('enough');
  });
});

describe('safeOpen with verify', () => {
  it('compares all tensors of all shards at once', async () => {
    const folder = temporaryPath('sharded');
    const { files } = await saveCheckpoint(folder, TENSORS, { digests: true, maxShardSize: MIB });
    expect(files).toHaveLength(2);
    safeOpen(folder, { verify: true }).close();
    (await safeOpenAsync(folder, { verify: true })).close();
    const shard = files.find((name) => loadFile(`${folder}/${name}`).has('short')) as string;
    damage(`${folder}/${shard}`);
    const mismatch = expect.objectContaining({ code: CODE, tensor: 'short' });
    expect(() => safeOpen(folder, { verify: true })).toThrow(mismatch);
    expect(() => loadFile(folder, { verify: true })).toThrow(mismatch);
    using checkpoint = safeOpen(folder);
    expect(checkpoint.getTensor('long').shape).toEqual([2 * MIB]);
    await expect(safeOpenAsync(folder, { verify: true })).rejects.toMatchObject({
      code: CODE,
    });
  });

  it('has no hash of several files', async () => {
    const options = { expectedHash: '0'.repeat(64) };
    const folder = temporaryPath('folder');
    await saveCheckpoint(folder, equalTensors(8, 'a', 'b'), { durable: false, maxShardSize: 8 });
    const refused = expect.objectContaining({
      code: 'ERR_OUT_OF_RANGE',
      message: expect.stringContaining('expectedHash must be left out for several files'),
    });
    expect(() => safeOpen(folder, options)).toThrow(refused);
    expect(() => loadFile(folder, options)).toThrow(refused);
    await expect(safeOpenAsync(folder, options)).rejects.toThrow(refused);
  });
});
