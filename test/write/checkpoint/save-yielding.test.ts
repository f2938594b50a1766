import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { loadFile, safeOpen, saveCheckpoint, saveFile } from '../../support/api.js';
import { temporaryPath } from '../../support/make-file.js';

it('saves a checkpoint in steps, between which the event loop runs and the arguments may change', async () => {
  const count = 5000;
  const tensors = Array.from({ length: count }, (_, i) => {
    const tensor = { dtype: 'U8' as const, shape: [1], data: Uint8Array.of(i) };
    return [`t${i}`, tensor] as const;
  });
  const options = { maxShardSize: count / 2, durable: false };
  const same = temporaryPath('same');
  await saveCheckpoint(same, tensors, options);
  let now = 0;
  // Work yields wherever it may.
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => (now += 1000));
  try {
    const folder = temporaryPath('changed');
    let turns = 0;
    let isLaidOut = false;
    const locked = saveCheckpoint(folder, tensors, {
      ...options,
      onProgress: () => (isLaidOut = true),
    });
    locked.catch(() => (isLaidOut = true));
    while (!isLaidOut) {
      await new Promise((resolve) => setImmediate(resolve));
      if (turns++ > 0) continue;
      for (const [, tensor] of tensors) {
        Object.assign(tensor, { dtype: 'F32', data: new Float32Array(7) });
        tensor.shape[0] = 7;
      }
    }
    await locked;
    // Read (1), kept (2), names taken (3), placed (4) and spelled (5), and the index (6).
    expect(turns).toBeGreaterThan((6 * count) / 256);
    for (const name of readdirSync(same)) {
      expect(readFileSync(join(folder, name)).equals(readFileSync(join(same, name)))).toBe(true);
    }
  } finally {
    clock.mockRestore();
  }
});

it.each(['mmap', 'read'] as const)(
  'reads tensors in the turn of the call, and leases their files (%s)',
  async (storage) => {
    const source = temporaryPath('source.safetensors');
    await saveFile(source, { stored: { dtype: 'U8', shape: [3], data: Uint8Array.of(1, 2, 3) } });
    const file = safeOpen(source, { storage });
    const fresh = { dtype: 'U8' as const, shape: [2], data: Uint8Array.of(8, 9) };
    const folder = temporaryPath(`saved-${storage}`);
    const saved = saveCheckpoint(folder, { stored: file.getTensor('stored'), fresh });
    fresh.shape[0] = 1;
    Object.assign(fresh, { dtype: 'F32', data: Float32Array.of(7) });
    file.close();
    await saved;
    const written = [...loadFile(folder)].map(([name, { dtype, data }]) => [name, dtype, data]);
    expect(Object.fromEntries(written.map(([name, ...rest]) => [name, rest]))).toEqual({
      stored: ['U8', Uint8Array.of(1, 2, 3)],
      fresh: ['U8', Uint8Array.of(8, 9)],
    });
  },
);
