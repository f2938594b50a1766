/** PyTorch checkpoints in several files: their checksums, with one progress; their problems, in one report. */

import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { inspect } from 'node:util';
import { expect, test, vi } from 'vitest';
import { FileClosedError, FormatError } from '../../../src/errors/errors.js';
import { ForeignShard } from '../../../src/foreign/foreign-shard.js';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { type Checkpoint, openTorch, type VerifyBytesOptions, verify } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { fixturePath } from './fixtures.js';

const right = readFileSync(fixturePath('zip-state-dict.pt'));

/** The same with one other byte in its first storage. */
function damaged(): typeof right {
  const bytes = Buffer.from(right);
  const end = bytes.indexOf('PK\x07\x08', bytes.indexOf('data/0'), 'latin1');
  bytes[end - 1] = (bytes[end - 1] as number) ^ 1;
  return bytes;
}

/** A checkpoint of these files, of which each is to give one tensor. */
function sharded(...files: readonly (typeof right)[]): Promise<Checkpoint> {
  return openTorch(indexOf(...files));
}

/** The index of such a checkpoint. */
function indexOf(...files: readonly (typeof right)[]): string {
  const index = temporaryPath('pytorch_model.bin.index.json');
  const names = ['l1.weight', 'l1.bias'];
  const weightMap = Object.fromEntries(files.map((_, i) => [names[i], `${i + 1}.bin`]));
  for (const [i, bytes] of files.entries())
    writeFileSync(join(dirname(index), `${i + 1}.bin`), bytes);
  writeFileSync(index, JSON.stringify({ metadata: {}, weight_map: weightMap }));
  return index;
}

test('right ones pass, and progress is that of all shards', async () => {
  using checkpoint = await sharded(right, right);
  const seen: number[] = [];
  const { ok } = await checkpoint.verify({ onProgress: ({ bytes }) => seen.push(bytes) });
  expect(ok).toBe(true);
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  using single = await openTorch(fixturePath('zip-state-dict.pt'));
  let ofOne = 0;
  await single.verify({
    onProgress: ({ bytes }) => {
      ofOne = bytes;
    },
  });
  expect(seen.at(-1)).toBeGreaterThanOrEqual(2 * ofOne);
});

test.each([0, 1])('a wrong one in shard %i is found', async (wrong) => {
  using checkpoint = await sharded(...[right, right].with(wrong, damaged()));
  const report = await checkpoint.verify();
  expect([report.ok, report.checks]).toEqual([false, ['headers', 'index', 'checksums']]);
  expect(report.problems).toEqual([
    {
      file: `${wrong + 1}.bin`,
      tensor: null,
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
      message: expect.stringMatching(/^entry "\S+\/data\/0": expected the CRC-32/),
    },
  ]);
});

test('those of all shards are found', async () => {
  using checkpoint = await sharded(damaged(), damaged());
  const { problems } = await checkpoint.verify();
  expect(problems.map(({ file }) => file)).toEqual(['1.bin', '2.bin']);
});

test.each([false, true])(
  'a shard that changed is a problem, headersOnly %s',
  async (headersOnly) => {
    using checkpoint = await sharded(right, right);
    truncateSync(join(dirname(`${checkpoint.path}`), '1.bin'), 100);
    const report = await checkpoint.verify({ headersOnly });
    const rest = headersOnly ? 'skipped' : null;
    expect(report.problems).toMatchObject([
      { file: '1.bin', tensor: null, code: 'SAFETENSORS_FILE_CHANGED' },
    ]);
    expect(report.files.map(({ reason }) => reason)).toEqual(['unreadable', rest]);
    expect(await verify(checkpoint, { headersOnly })).toEqual(
      await checkpoint.verify({ headersOnly }),
    );
  },
);

test('all that is wrong is told, whatever shards are missing, bad or lack tensors', async () => {
  const index = indexOf(right, damaged(), right, right);
  const folder = dirname(index);
  const weightMap = {
    'l1.weight': '1.bin',
    'l1.bias': '2.bin',
    gone: '2.bin',
    x: '3.bin',
    y: '4.bin',
  };
  writeFileSync(index, JSON.stringify({ metadata: {}, weight_map: weightMap }));
  rmSync(join(folder, '3.bin'));
  writeFileSync(join(folder, '4.bin'), 'junk');
  const told = async (options: VerifyBytesOptions): Promise<unknown[]> => {
    const { checks, problems } = await verify(index, options);
    return [checks, problems.map(({ file, tensor, code }) => [file, tensor, code])];
  };
  const ofHeaders = [
    ['2.bin', 'gone', 'SAFETENSORS_INDEX_MISMATCH'],
    ['3.bin', null, 'ENOENT'],
    ['4.bin', null, 'SAFETENSORS_FOREIGN_FORMAT'],
  ];
  const ofBytes = ['2.bin', null, 'SAFETENSORS_CHECKSUM_MISMATCH'];
  const seen: number[] = [];
  expect(await told({ onProgress: ({ bytes }) => seen.push(bytes) })).toEqual([
    ['headers', 'index', 'checksums'],
    [...ofHeaders, ofBytes],
  ]);
  expect(seen.at(-1)).toBe(2 * right.length);
  expect(await told({ headersOnly: true })).toEqual([['headers', 'index'], ofHeaders]);
});

test('what is right has no problems, of one file or several', async () => {
  for (const path of [indexOf(right, right), fixturePath('zip-state-dict.pt')]) {
    expect((await verify(path)).problems).toEqual([]);
  }
  const closed = openTorchCheckpoint(indexOf(right), { skipFailed: true });
  closed.close();
  await expect(closed.verify()).rejects.toThrow(FileClosedError);
  const bad = indexOf(right);
  writeFileSync(bad, '{');
  expect(() => openTorchCheckpoint(bad, { skipFailed: true })).toThrow(FormatError);
});

test('an abort reaches the shards; a closed checkpoint has none', async () => {
  const checkpoint = await sharded(right, right);
  const ofShard = vi.spyOn(ForeignShard.prototype, 'verifyBytes');
  const reason = new AbortController();
  ofShard.mockImplementation(({ signal }) => {
    reason.abort(new Error('enough'));
    signal?.throwIfAborted();
    return Promise.resolve();
  });
  const { signal } = reason;
  await expect(checkpoint.verify({ signal })).rejects.toThrow('enough');
  expect(ofShard.mock.results.map(({ type }) => type)).toContain('throw');
  ofShard.mockRestore();
  await expect(checkpoint.verify({ storage: 'read' } as never)).rejects.toThrow('storage');
  checkpoint.close();
  await expect(checkpoint.verify()).rejects.toThrow(FileClosedError);
});

test.each(['mmap', 'read'] as const)('has what every checkpoint has, with %s', async (storage) => {
  using checkpoint = await sharded(right, right);
  using other = await openTorch(`${checkpoint.path}`, { storage });
  expect([other.storage, await other.headers(), other.ignoredFiles]).toEqual([storage, [], []]);
  expect(other.byteLength()).toBe(2 * right.length);
  const { tensors, byteLength, dtypes, shards } = await other.summary();
  expect([tensors, byteLength, [...shards.keys()]]).toEqual([14, 144, ['1.bin', '2.bin']]);
  expect(dtypes.get('F32')).toMatchObject({ tensors: 12, byteLength: 128 });
  const half = other.getPartition('l1.weight', { rank: 1, worldSize: 2 });
  expect(half.data).toEqual(other.getTensor('l1.weight').slice([1, 2]).data);
  const streamed: string[] = [];
  for await (const [name, { data }] of other.stream()) {
    streamed.push(name);
    expect(data).toEqual(checkpoint.getTensor(name).data);
  }
  expect(streamed).toEqual(other.offsetKeys());
  const resident = other.residency('l1.weight');
  expect(resident === null || resident === 24).toBe(true);
  expect(inspect(other)).toMatch(/^Checkpoint \{/);
});
