/**
 * Adapters with the values that PEFT, kohya's scripts and LyCORIS compute: whole, by rows, saved, by the command, and
 * from remote bases.
 */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { call } from '../cli/call.js';
import {
  type Checkpoint,
  mergeAdapters,
  openRemote,
  safeOpen,
  saveCheckpoint,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { type AdapterFixture, expectClose, expectedOf, FIXTURES } from './fixtures.js';

async function merge(fixture: AdapterFixture): Promise<Checkpoint> {
  const { base, adapter, skips, isNonFinite } = fixture;
  return await mergeAdapters(safeOpen(base), [adapter], {
    unmatched: skips === true ? 'skip' : 'error',
    nonFinite: isNonFinite === true ? 'keep' : 'error',
  });
}

describe.each(FIXTURES)('$name', (fixture) => {
  it('is merged as the original merges it', async () => {
    const [merged, expected] = [await merge(fixture), expectedOf(fixture)];
    for (const [name, tensor] of expected) expectClose(merged.getTensor(name), tensor);
  });

  it('has the same values by rows, in slices and when it is saved', async () => {
    const merged = await merge(fixture);
    const folder = temporaryPath('merged');
    await saveCheckpoint(folder, merged, { maxShardSize: '1KB' });
    const saved = safeOpen(folder);
    expect(saved.keys()).toEqual(merged.keys());
    for (const [name, tensor] of merged) {
      const { bytes, shape } = tensor;
      expect(saved.getTensor(name).bytes).toEqual(bytes);
      const [rows = 1] = shape;
      const middle = Math.floor(rows / 2);
      const part = merged.getSlice(name, `${middle}:`);
      expect(part.copy().bytes).toEqual(bytes.subarray((bytes.length / rows) * middle));
      const last = shape.at(-1) as number;
      expect(merged.getTensor(name).toFloat32({ rows: [0, 1] })).toEqual(
        tensor.toFloat32().subarray(0, last),
      );
      expect(merged.getSlice(name, '..., 1::2').copy().bytes).toEqual(
        tensor.slice('..., 1::2').copy().bytes,
      );
    }
  });

  it('has the same values by the command, which keeps none that are not finite', async () => {
    const { base, adapter, skips, isNonFinite } = fixture;
    const target = temporaryPath('merged');
    const { source, scale = 1 } = (typeof adapter === 'string' ? { source: adapter } : adapter) as {
      readonly source: string;
      readonly scale?: number;
    };
    const skip = skips === true ? ['--unmatched', 'skip'] : [];
    const args = ['merge', base, '--adapter', `${source}=${scale}`, ...skip, '-o', target];
    const { code, stderr } = await call(args);
    if (isNonFinite === true) {
      expect([code, existsSync(target)]).toEqual([1, false]);
      expect(stderr).toContain('adapter "adapter" contains NaN or an infinity; pass a version');
      return;
    }
    expect([code, stderr]).toEqual([0, '']);
    const written = safeOpen(target);
    for (const [name, tensor] of await merge(fixture)) {
      expect(written.getTensor(name).bytes).toEqual(tensor.bytes);
    }
  });

  it('has the same values over a remote base', async () => {
    const { base, adapter, skips } = fixture;
    const local = await merge(fixture);
    const path = local.path as string;
    const remote = await mergeAdapters(
      await openRemote(new Blob([readFileSync(path)])),
      [adapter],
      {
        unmatched: skips === true ? 'skip' : 'error',
        nonFinite: 'keep',
      },
    );
    expect(remote.local, base).toBe(false);
    const read = await remote.readTensors();
    for (const [name, tensor] of local) {
      expect(read.get(name)?.bytes).toEqual(tensor.bytes);
      const slice = await remote.getSlice(name, '1:, ...');
      expect(slice.bytes).toEqual(tensor.slice('1:, ...').copy().bytes);
    }
  });
});
