import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { SafetensorsFile } from '../../../src/file/file.js';
import { type Checkpoint, SafetensorsError, safeOpen } from '../../support/api.js';
import { openUntilEnd, TWO_SHARDS, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, writeTemporary } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { runChild } from '../../support/run-child.js';

function twoShards(description = TWO_SHARDS): Checkpoint {
  return openUntilEnd(writeCheckpoint(description));
}

const [FIRST = '', SECOND = ''] = Object.keys(TWO_SHARDS.shards);
const ALL = ['embed', 'a.weight', 'b.weight', 'b.bias'];

describe('a checkpoint', () => {
  it('says what it holds', async () => {
    const checkpoint = twoShards();
    expect(checkpoint.path).toMatch(/model\.safetensors\.index\.json$/);
    expect(checkpoint.shards).toEqual([FIRST, SECOND]);
    expect([checkpoint.size, checkpoint.ok]).toEqual([4, true]);
    expect(checkpoint.keys()).toEqual(['a.weight', 'b.bias', 'b.weight', 'embed']);
    expect(checkpoint.offsetKeys()).toEqual(ALL);
    expect(checkpoint.metadata?.get('total_size')).toBe('34');
    expect(checkpoint.info('b.weight')).toEqual({
      dtype: 'U16',
      shape: [2, 3],
      dataOffsets: [0, 12],
    });
    const lengths = Object.values(TWO_SHARDS.shards).map((entries) => fileBytes(entries).length);
    expect(checkpoint.byteLength()).toBe((lengths[0] ?? 0) + (lengths[1] ?? 0));
    expect((await checkpoint.verify()).problems).toEqual([]);
  });

  it('gives the headers of its files, whatever the index says', async () => {
    const folder = writeCheckpoint({
      ...TWO_SHARDS,
      weightMap: { embed: FIRST, 'b.bias': SECOND, lost: SECOND },
    });
    const checkpoint = openUntilEnd(folder);
    const headers = await checkpoint.headers();
    expect(headers.map(({ file }) => file)).toEqual([FIRST, SECOND]);
    for (const [i, header] of headers.entries()) {
      const bytes = readFileSync(join(folder, header.file));
      const dataStart = 8 + Number(bytes.readBigUInt64LE(0));
      const text = bytes.toString('utf8', 8, dataStart);
      const { __metadata__: own = null } = JSON.parse(text);
      const metadata = own && new Map(Object.entries(own));
      using only = safeOpen(join(folder, header.file));
      const tensors = await only.tensors();
      expect(header).toEqual({ file: [FIRST, SECOND][i], text, dataStart, metadata, tensors });
      expect(Object.isFrozen(header)).toBe(true);
    }
    const [first] = await openUntilEnd(join(folder, FIRST)).headers();
    expect(first).toEqual(headers[0]);
    const reason = new Error('enough');
    const signal = AbortSignal.abort(reason);
    await expect(checkpoint.headers({ signal })).rejects.toBe(reason);
    await expect(checkpoint.headers({ names: [] } as never)).rejects.toThrow(TypeError);
    checkpoint.close();
    await expect(checkpoint.headers()).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  });

  it('keeps no file open for headers', async () => {
    const checkpoint = twoShards();
    const closed = vi.spyOn(SafetensorsFile.prototype, 'close');
    expect(await checkpoint.headers()).toHaveLength(2);
    expect(closed).toHaveBeenCalledTimes(2);
    checkpoint.getTensor('embed');
    expect(await checkpoint.headers()).toHaveLength(2);
    expect(closed).toHaveBeenCalledTimes(3);
    closed.mockRestore();
    expect(checkpoint.getTensor('embed').data.length).toBeGreaterThan(0);
    const listing = checkpoint.headers();
    checkpoint.close();
    await expect(listing).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
  });

  it('gives headers of a bad file as the error of that', async () => {
    const folder = writeCheckpoint(TWO_SHARDS);
    writeFileSync(join(folder, SECOND), 'none');
    await expect(openUntilEnd(folder).headers()).rejects.toMatchObject({
      code: 'SAFETENSORS_HEADER_TOO_SMALL',
      path: join(folder, SECOND),
    });
  });

  it('gives tensors, always the same ones', () => {
    const checkpoint = twoShards();
    expect(checkpoint.getTensor('b.bias').data).toEqual(new Uint8Array([1, 2, 3, 4]));
    expect(checkpoint.getTensor('b.bias')).toBe(checkpoint.getTensor('b.bias'));
    expect([...checkpoint.getTensors().keys()]).toEqual(ALL);
    expect([...checkpoint.getTensors(['b.bias', 'embed']).keys()]).toEqual(['b.bias', 'embed']);
    expect(Array.from(checkpoint, ([name, tensor]) => [name, tensor.name])).toEqual(
      ALL.map((name) => [name, name]),
    );
    expect(checkpoint.getSlice('embed', 1).data).toEqual(new Uint8Array([3, 4]));
    expect(() => checkpoint.getTensors('embed' as never)).toThrow(TypeError);
    expect(() => checkpoint.has(7 as never)).toThrow(TypeError);
  });

  it('of one file is the same with its metadata', () => {
    const path = writeTemporary([{ name: 'kept', dtype: 'U8', shape: [2] }], {
      metadata: { dropped: 'kept', format: 'pt' },
    });
    const checkpoint = openUntilEnd(path);
    expect([checkpoint.path, checkpoint.shards]).toEqual([path, ['model.safetensors']]);
    expect([checkpoint.keys(), checkpoint.offsetKeys()]).toEqual([['kept'], ['kept']]);
    expect(checkpoint.metadata?.get('format')).toBe('pt');
    expect(checkpoint.getTensor('dropped')).toBe(checkpoint.getTensor('kept'));
    const file = safeOpen(path);
    expect([checkpoint.size, checkpoint.byteLength()]).toEqual([file.size, file.byteLength()]);
    file.close();
  });

  it('resolves aliases only when the name is missing', async () => {
    const checkpoint = twoShards();
    expect(checkpoint.has('lm_head.weight')).toBe(true);
    expect(checkpoint.getTensor('lm_head.weight')).toBe(checkpoint.getTensor('embed'));
    expect(checkpoint.info('lm_head.weight').shape).toEqual([4, 2]);
    expect(checkpoint.getTensor('b.bias').shape).toEqual([4]);
    expect([checkpoint.has('lost'), checkpoint.has('total_size')]).toEqual([false, false]);
    const loaded = await checkpoint.readTensors(['lm_head.weight', 'b.bias', 'embed']);
    expect([...loaded.keys()]).toEqual(['lm_head.weight', 'b.bias', 'embed']);
    expect(loaded.get('lm_head.weight')?.data).toEqual(checkpoint.getTensor('embed').data);
  });

  it('of one file is closed at once, also while an alias is read', async () => {
    const path = writeTemporary([{ name: 'a', dtype: 'U8', shape: [3] }], {
      metadata: { tied: 'a' },
    });
    const checkpoint = safeOpen(path);
    const reading = checkpoint.readTensors(['tied']);
    checkpoint.close();
    for (const use of [() => checkpoint.getTensor('a'), () => checkpoint.info('a')]) {
      expect(use).toThrow(expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' }));
    }
    expect((await reading).get('tied')?.bytes).toEqual(Uint8Array.of(1, 2, 3));
  });

  it('names near names, and the index', () => {
    const checkpoint = twoShards();
    expect(() => checkpoint.getTensor('b.weigth')).toThrow(/index\.json: .*"b\.weight"/);
    expect(() => checkpoint.info('lost')).toThrow(SafetensorsError);
  });

  it('loads and prefetches over shards, with one progress', async () => {
    const checkpoint = twoShards();
    for (const how of ['readTensors', 'prefetch'] as const) {
      const reports: unknown[] = [];
      const onProgress = (report: unknown): void => void reports.push(report);
      await checkpoint[how](undefined, { onProgress });
      expect(reports.at(-1)).toEqual({ bytes: 34, totalBytes: 34 });
      await checkpoint[how](['b.bias', 'embed', 'b.bias'], { onProgress });
      expect(reports.at(-1)).toEqual({ bytes: 12, totalBytes: 12 });
      await checkpoint[how]([], { onProgress });
      expect(reports.at(-1)).toEqual({ bytes: 0, totalBytes: 0 });
      const signal = AbortSignal.abort(new Error('enough'));
      await expect(checkpoint[how](undefined, { signal })).rejects.toThrow('enough');
      await expect(checkpoint[how](['none'])).rejects.toThrow('no such tensor');
      await expect(checkpoint[how](undefined, 7 as never)).rejects.toThrow(TypeError);
    }
    const loaded = await checkpoint.readTensors();
    expect([...loaded.keys()]).toEqual(ALL);
    expect(loaded.get('b.bias')?.data).toEqual(new Uint8Array([1, 2, 3, 4]));
  });

  it('ends a prefetch when it is closed meanwhile, but not a load', async () => {
    const checkpoint = twoShards();
    const fetching = checkpoint.prefetch();
    const loading = checkpoint.readTensors();
    const untouched = checkpoint.getTensor('b.bias');
    checkpoint.close();
    expect(() => checkpoint.keys()).toThrow('the file is closed');
    await expect(fetching).rejects.toThrow('the file is closed');
    const loaded = await loading;
    expect([...loaded.keys()]).toEqual(ALL);
    expect(loaded.get('b.bias')?.data).toEqual(new Uint8Array([1, 2, 3, 4]));
    expect(untouched.data).toEqual(new Uint8Array([1, 2, 3, 4]));
    await expect(checkpoint.readTensors()).rejects.toThrow('the file is closed');

    const detached = twoShards();
    const ended = detached.readTensors();
    detached.close({ detach: true });
    await expect(ended).rejects.toThrow('the file is closed');
  });

  it.runIf(process.platform === 'linux')('closes its shards when a load has ended', async () => {
    const checkpoint = twoShards();
    const loading = checkpoint.readTensors();
    checkpoint.close();
    await loading;
    expect(openDescriptors()).toEqual([]);
  });

  it('adds residency up', () => {
    const checkpoint = twoShards();
    const parts = [FIRST, SECOND].map((name) => {
      const file = safeOpen(join(`${checkpoint.path}`, '..', name));
      const bytes = file.residency();
      file.close();
      return bytes;
    });
    const sum = parts.includes(null) ? null : (parts[0] ?? 0) + (parts[1] ?? 0);
    expect(checkpoint.residency()).toBe(sum);
    expect(checkpoint.residency('embed')).toBe(sum === null ? null : 8);
  });

  it('is closed without a shard too', () => {
    const checkpoint = safeOpen(writeCheckpoint({ shards: {} }));
    expect([checkpoint.size, checkpoint.byteLength(), checkpoint.keys()]).toEqual([0, 0, []]);
    checkpoint.close();
    expect(() => checkpoint.byteLength()).toThrow('the file is closed');
  });

  it('is closed once and for all', async () => {
    const checkpoint = twoShards();
    const { data } = checkpoint.getTensor('b.bias');
    expect(() => checkpoint.close({ detach: 1 as never })).toThrow(TypeError);
    checkpoint.close();
    checkpoint.close();
    expect(data).toEqual(new Uint8Array([1, 2, 3, 4]));
    expect([checkpoint.ok, checkpoint.shards.length, checkpoint.ignoredFiles]).toEqual([
      false,
      2,
      [],
    ]);
    const uses: (() => unknown)[] = [
      () => checkpoint.size,
      () => checkpoint.byteLength(),
      () => checkpoint.metadata,
      () => checkpoint.keys(),
      () => checkpoint.offsetKeys(),
      () => checkpoint.has('embed'),
      () => checkpoint.info('embed'),
      () => checkpoint.getTensor('embed'),
      () => checkpoint.getTensors(),
      () => checkpoint.getPartition('embed', { rank: 0, worldSize: 1 }),
      () => [...checkpoint],
      () => checkpoint.residency(),
    ];
    for (const use of uses) {
      expect(use, String(use)).toThrow(
        expect.objectContaining({ code: 'SAFETENSORS_FILE_CLOSED' }),
      );
    }
    const closed = { code: 'SAFETENSORS_FILE_CLOSED' };
    for (const rejected of [checkpoint.summary(), checkpoint.sibling('config.json')]) {
      await expect(rejected).rejects.toMatchObject(closed);
    }
  });

  it('detaches every shard', () => {
    const checkpoint = twoShards();
    const views = ['embed', 'b.bias'].map((name) => checkpoint.getTensor(name).bytes);
    checkpoint.close({ detach: true });
    expect(views.map((view) => view.byteLength)).toEqual([0, 0]);
  });
});

describe('getPartition', () => {
  it('gives every rank its rows, of the same memory along the first dimension', () => {
    const checkpoint = twoShards();
    const whole = checkpoint.getTensor('embed');
    const rows = [0, 1].map((rank) => checkpoint.getPartition('embed', { rank, worldSize: 2 }));
    expect(rows.map((part) => part.data)).toEqual([
      new Uint8Array([1, 2, 3, 4]),
      new Uint8Array([5, 6, 7, 8]),
    ]);
    expect(rows.every((part) => part.buffer === whole.buffer)).toBe(true);
    const columns = checkpoint.getPartition('embed', { rank: 1, worldSize: 2, dim: -1 });
    expect([columns.shape, columns.data]).toEqual([[4, 1], new Uint8Array([2, 4, 6, 8])]);
  });

  it('names file and tensor when it cannot', () => {
    const checkpoint = twoShards();
    expect(() => checkpoint.getPartition('embed', { rank: 0, worldSize: 3 })).toThrow(
      /00001-of-00002\.safetensors: tensor "embed": expected the length of dimension 0 to be divisible by worldSize 3, found 4$/,
    );
  });
});

describe('shards', () => {
  it('are opened when they are first needed, each once', async () => {
    const { code, stdout, stderr } = await runChild('file/checkpoint/children/lazy-shards.mjs', [
      writeCheckpoint(TWO_SHARDS),
    ]);
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toEqual({
      opened: [0, 0],
      keys: [0, 0],
      has: [0, 0],
      byteLength: [0, 0],
      metadata: [0, 0],
      info: [0, 1],
      again: [0, 1],
      all: [1, 1],
      verified: [1, 1],
      closed: [0, 0],
    });
  });
});

describe('an index that promises too much', () => {
  it('is an error when the tensor is asked for', () => {
    const weightMap = { embed: SECOND, 'b.bias': SECOND };
    const checkpoint = twoShards({ ...TWO_SHARDS, weightMap });
    expect(checkpoint.keys()).toEqual(['b.bias', 'embed']);
    for (const use of [() => checkpoint.getTensor('embed'), () => checkpoint.offsetKeys()]) {
      expect(use).toThrow(
        `tensor "embed": expected the tensor in "${SECOND}", as the index lists it, found none`,
      );
    }
  });
});
