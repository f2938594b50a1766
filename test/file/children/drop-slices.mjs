// Takes slices of a tensor over storage `read`, 50 MiB in all, and keeps none.
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { safeOpen } from '../../../lib/index.js';
import { collect } from '../../support/process-memory.mjs';

const ROWS = 50;
const ROW = 2 ** 18;
const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
try {
  const path = join(folder, 'model.safetensors');
  const shape = [ROWS, ROW];
  const json = JSON.stringify({ t: { dtype: 'U8', shape, data_offsets: [0, ROWS * ROW] } });
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(json.length));
  const fd = openSync(path, 'w');
  writeSync(fd, Buffer.concat([prefix, Buffer.from(json)]));
  ftruncateSync(fd, 8 + json.length + ROWS * ROW);
  closeSync(fd);

  const file = safeOpen(path, { storage: 'read' });
  await collect();
  const before = process.memoryUsage().arrayBuffers;
  let read = 0;
  for (let i = 0; i < 200; i++) {
    read += file.getSlice('t', i % ROWS).bytes.byteLength;
    if (i % 20 === 0) await collect();
  }
  await collect();
  const held = process.memoryUsage().arrayBuffers - before;
  file.close();
  console.log(JSON.stringify({ held, read }));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
