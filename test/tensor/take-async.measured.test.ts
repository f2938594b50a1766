/** The memory of this process while rows are taken. */
import process from 'node:process';
import { expect, test } from 'vitest';
import { safeOpen } from '../support/api.js';
import { writeTemporary } from '../support/make-file.js';

const entries = [{ name: 't', dtype: 'BF16', shape: [1000, 500] }] as const;

test('memory is taken for no row when there is an array to fill', async () => {
  using file = safeOpen(writeTemporary(entries));
  const tensor = file.getTensor('t');
  const indices = Array.from({ length: 500 }, (_, i) => i * 2);
  const [bytes, floats] = [new Uint8Array(500_000), new Float32Array(250_000)];
  const run = async (): Promise<void> => {
    tensor.take(indices, { into: bytes });
    tensor.takeFloat32(indices, { into: floats });
    await tensor.takeFloat32Async(indices, { into: floats });
  };
  await run();
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 20; i++) await run();
  // Rows would need 20 MB, and their values 20 MB twice.
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2e6);
});

test('calls at once take memory for their rows alone', async () => {
  using file = safeOpen(writeTemporary(entries));
  const table = file.getTensor('t');
  for (let pass = 0; pass < 3; pass++) {
    const before = process.memoryUsage().arrayBuffers;
    const takings = Array.from({ length: 64 }, (_, i) => {
      return table.takeFloat32Async(Array.from({ length: i }, (_, row) => row * 13 + i));
    });
    // The results have twice the bytes of the rows.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4 * 64 * 64 * 1000);
    await Promise.all(takings);
  }
});
