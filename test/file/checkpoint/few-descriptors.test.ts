/** More shards than descriptors: those of open shards are reclaimed, and the shards stay usable. */
import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { reclaimDescriptors } from '../../../src/platform/io/reclaimable-descriptors.js';
import { safeOpen } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { shardOf, writeShards } from '../../support/many-shards.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { runChild } from '../../support/run-child.js';

const STORAGES = ['mmap', 'read'] as const;

// Windows has no such limit.
describe.runIf(process.platform !== 'win32')('500 shards with 64 descriptors', () => {
  it.each(STORAGES)('answer every call (%s)', async (storage) => {
    const args = [writeShards(500), storage];
    const found = await runChild('file/checkpoint/children/few-descriptors.mjs', args, {
      limits: '-n 64',
    });
    expect(found).toMatchObject({ code: 0, stdout: '{}', stderr: '' });
  });
});

describe.each(STORAGES)('shards whose descriptors were reclaimed (%s)', (storage) => {
  const opened = () => {
    const folder = writeShards(2);
    const model = safeOpen(folder, { storage });
    const tensors = ['t0', 't1'].map((name) => model.getTensor(name));
    reclaimDescriptors();
    return { folder, model, tensors, first: join(folder, 'model-00001-of-00002.safetensors') };
  };
  const changed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' });

  it.runIf(process.platform === 'linux')('hold none, and give their bytes', async () => {
    const { model, tensors } = opened();
    expect(openDescriptors()).toEqual([]);
    expect(tensors.map(({ data }) => data[0])).toEqual([0, 1]);
    expect(model.getTensor('t1')).toBe(tensors[1]);
    expect((await model.readTensors()).get('t0')?.data[0]).toBe(0);
    expect(await model.verify()).toMatchObject({ ok: true });
    expect(openDescriptors()).toEqual([]);
    model.close();
  });

  it('notice a file of another size, or another header', () => {
    const longer = opened();
    appendFileSync(longer.first, 'x');
    expect(() => longer.model.getTensor('t0').copy()).toThrow(changed);
    longer.model.close();
    const other = opened();
    writeFileSync(other.first, shardOf(9, 9));
    expect(() => other.model.getTensor('t0').copy()).toThrow(changed);
    other.model.close();
  });

  it('are the old file, or an error, when another one has its path', () => {
    const { first, model, tensors } = opened();
    const other = temporaryPath('other.safetensors');
    writeFileSync(other, shardOf(0, 7));
    renameSync(other, first);
    const read = (): unknown => tensors[0]?.copy().data[0];
    if (storage === 'mmap') expect(read()).toBe(0);
    else expect(read).toThrow(changed);
    expect(tensors[1]?.data[0]).toBe(1);
    model.close();
  });
});
