// Merges a checkpoint of so many bytes into one file and splits that again; prints by how many bytes
// the process grew at most, by the kernel's counter.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { convert, saveCheckpoint } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [folder, byteLength] = process.argv.slice(2);
const data = new Uint8Array(10_000_000).fill(1);
const count = Math.ceil(Number(byteLength) / data.byteLength);
const tensors = Array.from({ length: count }, (_, i) => [
  `t${i}`,
  { dtype: 'U8', shape: [data.byteLength], data },
]);
const source = join(folder, 'source');
const target = join(folder, 'target');
await saveCheckpoint(source, tensors, { maxShardSize: '50MB', durable: false });

globalThis.gc();
writeFileSync('/proc/self/clear_refs', '5');
const before = processStatus('VmRSS');
await convert(source, target, { maxShardSize: Infinity, durable: false });
rmSync(source, { recursive: true });
await convert(target, target, { maxShardSize: '40MB', durable: false });
console.log(JSON.stringify(processStatus('VmHWM') - before));
