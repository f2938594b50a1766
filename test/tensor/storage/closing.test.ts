/** Resources of a closed file: none, or those of its tensors. */
import {
  appendFileSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import process from 'node:process';
import { describe, expect, test } from 'vitest';
import { reclaimDescriptors } from '../../../src/platform/io/reclaimable-descriptors.js';
import { loadFile, safeOpen } from '../../support/api.js';
import { countedBytes, fileBytes, temporaryPath, writeTemporary } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';

const entries = [{ name: 't', dtype: 'U8', shape: [2 ** 16] }] as const;
const bytes = countedBytes(2 ** 16);
const changed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' });

const mapped = (path: string): boolean => readFileSync('/proc/self/maps', 'utf8').includes(path);

function replace(path: string, name: string): void {
  const other = temporaryPath('other.safetensors');
  writeFileSync(other, fileBytes([{ ...entries[0], name }]));
  renameSync(other, path);
}

describe.runIf(process.platform === 'linux')('closing', () => {
  test.each(['mmap', 'read'] as const)(
    'without tensors frees all at once (%s)',
    async (storage) => {
      const path = writeTemporary(entries);
      const file = safeOpen(path, { storage });
      file.info('t');
      await file.prefetch();
      await file.readTensors();
      file.close();
      expect([openDescriptors(), mapped(path)]).toEqual([[], false]);
    },
  );

  test('a mapped file keeps the mapping and not the descriptor', () => {
    const path = writeTemporary(entries);
    const file = safeOpen(path, { storage: 'mmap' });
    const tensor = file.getTensor('t');
    file.close();
    expect([openDescriptors(), mapped(path)]).toEqual([[], true]);
    expect(tensor.bytes).toEqual(bytes);
  });

  test('a file that is read keeps the descriptor until the last tensor has its bytes', () => {
    const file = safeOpen(writeTemporary(entries), { storage: 'read' });
    const tensor = file.getTensor('t');
    const row = tensor.slice([1, 3]);
    file.close();
    expect(openDescriptors()).toHaveLength(1);
    expect(tensor.bytes).toEqual(bytes);
    expect(openDescriptors()).toHaveLength(1);
    expect(row.bytes).toEqual(bytes.subarray(1, 3));
    expect(openDescriptors()).toEqual([]);
    expect(tensor.toFloat32()[2]).toBe(3);
  });

  test('loadFile leaves no descriptor', () => {
    const tensors = loadFile(writeTemporary(entries), { storage: 'read' });
    expect(openDescriptors()).toEqual([]);
    expect(tensors.get('t')?.bytes).toEqual(bytes);
  });
});

describe.each(['mmap', 'read'] as const)('a file that is gone (%s)', (storage) => {
  test.each(['removed', 'replaced'])('%s after close: the tensor is what it was', (how) => {
    const path = writeTemporary(entries);
    const file = safeOpen(path, { storage });
    const tensor = file.getTensor('t');
    file.close();
    if (how === 'replaced') replace(path, 'new');
    else rmSync(path);
    // Another file has the path: its descriptor is not given up.
    reclaimDescriptors();
    expect(tensor.slice([0, 9]).bytes).toEqual(bytes.subarray(0, 9));
    expect(tensor.toFloat32()[2]).toBe(3);
  });

  test('changed before close: noticed, though nobody asked', () => {
    const path = writeTemporary(entries);
    const file = safeOpen(path, { storage });
    const tensor = file.getTensor('t');
    writeFileSync(path, fileBytes([{ ...entries[0], name: 'u' }]));
    utimesSync(path, 1, 1);
    file.close();
    expect(() => tensor.toFloat32()).toThrow(changed);
    expect(() => tensor.bytes).toThrow(changed);
  });

  test.runIf(process.platform === 'linux')(
    'cut short after close: zeros in views, copies throw',
    () => {
      const path = writeTemporary(entries);
      const file = safeOpen(path, { storage });
      const [tensor, view] = [file.getTensor('t'), file.getSlice('t', [40_000, 40_010])];
      if (storage === 'mmap') view.bytes;
      file.close();
      truncateSync(path, 4096);
      if (storage === 'mmap') expect(view.bytes).toEqual(new Uint8Array(10));
      expect(() => tensor.toFloat32()).toThrow(changed);
      expect(() => tensor.copy()).toThrow(changed);
      expect(() => tensor.slice([null, null, 2])).toThrow(changed);
    },
  );
});

describe('a descriptor that was given up', () => {
  const opened = () => {
    const path = writeTemporary(entries);
    const file = safeOpen(path, { storage: 'read' });
    const tensor = file.getTensor('t');
    file.close();
    return { path, tensor };
  };

  test.runIf(process.platform === 'linux')('is opened again by the path', () => {
    const { tensor } = opened();
    expect(openDescriptors()).toHaveLength(1);
    reclaimDescriptors();
    expect(openDescriptors()).toEqual([]);
    expect(tensor.slice([5, 7]).bytes).toEqual(bytes.subarray(5, 7));
    expect(openDescriptors()).toHaveLength(1);
    expect(tensor.bytes).toEqual(bytes);
    expect(openDescriptors()).toEqual([]);
  });

  test('of a file that was replaced or changed since is an error', () => {
    for (const change of [
      (path: string) => replace(path, 't'),
      (path: string) => appendFileSync(path, 'x'),
    ]) {
      const { path, tensor } = opened();
      reclaimDescriptors();
      change(path);
      expect(() => tensor.bytes).toThrow(changed);
    }
  });

  test('of a file that was removed since is an error of the system', () => {
    const { path, tensor } = opened();
    reclaimDescriptors();
    rmSync(path);
    expect(() => tensor.bytes).toThrow(expect.objectContaining({ code: 'ENOENT' }));
  });

  test('stays open while it is read from', async () => {
    const path = writeTemporary(entries);
    const file = safeOpen(path, { storage: 'read' });
    file.getTensor('t');
    const loading = file.readTensors();
    file.close();
    reclaimDescriptors();
    rmSync(path);
    expect((await loading).get('t')?.bytes).toEqual(bytes);
  });
});
