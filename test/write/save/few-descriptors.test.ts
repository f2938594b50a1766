/** Writes from more source files than descriptors: those of the sources are reclaimed, and changes are still found. */
import { appendFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { reclaimDescriptors } from '../../../src/platform/io/reclaimable-descriptors.js';
import { memoryEntries } from '../../../src/write/input/tensor-input.js';
import { LeasedFiles } from '../../../src/write/save/leased-files.js';
import { safeOpen, saveFile } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';
import { shardOf, writeShards } from '../../support/many-shards.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { runChild } from '../../support/run-child.js';

const STORAGES = ['mmap', 'read'] as const;

// Windows has no such limit.
describe.runIf(process.platform !== 'win32').each(STORAGES)('64 descriptors (%s)', (storage) => {
  // With some of these counts, one more descriptor runs out while files are written.
  it.each([22, 32, 40, 500])('write %i shards', async (count) => {
    const args = [writeShards(count), storage, `${count}`];
    const found = await runChild('write/save/children/few-descriptors.mjs', args, {
      limits: '-n 64',
    });
    expect(found).toMatchObject({ code: 0, stdout: '{}', stderr: '' });
  });
});

describe.each(STORAGES)('source files whose descriptors were reclaimed (%s)', (storage) => {
  const leased = () => {
    const folder = writeShards(2);
    const model = safeOpen(folder, { storage });
    const entries = memoryEntries(model.getTensors());
    const sources = new LeasedFiles(entries);
    onTestFinished(() => {
      sources.end();
      model.close();
    });
    return { model, entries, sources, first: join(folder, 'model-00001-of-00002.safetensors') };
  };
  const reclaim = (): void => {
    // Twice: files that are read share the descriptors of their leases.
    reclaimDescriptors();
    reclaimDescriptors();
  };
  const changed = (path: string): unknown =>
    expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED', path });

  it.runIf(process.platform === 'linux')('hold none until they are read again', () => {
    const { entries, sources } = leased();
    const [payload] = entries.map((entry) => entry.payload);
    if (payload?.kind !== 'file') throw new Error('expected a tensor of a file');
    const file = sources.fileOf(payload);
    file.acquire();
    reclaim();
    expect(openDescriptors()).toHaveLength(1);
    file.release();
    reclaim();
    expect(openDescriptors()).toEqual([]);
    sources.verify();
    expect(openDescriptors()).toEqual([]);
    file.acquire();
    expect(openDescriptors()).toHaveLength(1);
    file.release();
    sources.end();
    expect(openDescriptors()).toEqual([]);
  });

  const changes: [string, (path: string) => void][] = [
    ['got longer', (path) => appendFileSync(path, 'x')],
    ['were rewritten', (path) => writeFileSync(path, shardOf(0, 7))],
    ['got another time', (path) => utimesSync(path, 1, 1)],
    [
      'were replaced by an equal file',
      (path) => {
        const other = temporaryPath('other.safetensors');
        writeFileSync(other, shardOf(0, 0));
        renameSync(other, path);
      },
    ],
  ];
  it.each(changes)('are not the same after they %s', (_, change) => {
    const { sources, first } = leased();
    reclaim();
    sources.verify();
    change(first);
    expect(() => sources.verify()).toThrow(changed(first));
  });

  it('are not read when another file has their path', () => {
    const { entries, sources, first } = leased();
    reclaim();
    (changes[3] as (typeof changes)[0])[1](first);
    const [payload] = entries.map((entry) => entry.payload);
    if (payload?.kind !== 'file') throw new Error('expected a tensor of a file');
    const file = sources.fileOf(payload);
    expect(() => file.acquire()).toThrow(changed(first));
  });

  it('keep descriptors of files that were replaced before', async () => {
    const { model, sources, first } = leased();
    (changes[3] as (typeof changes)[0])[1](first);
    reclaim();
    sources.verify();
    const target = temporaryPath('saved.safetensors');
    await saveFile(target, model.getTensors());
    expect(safeOpen(target).getTensor('t0').data[0]).toBe(0);
  });
});
