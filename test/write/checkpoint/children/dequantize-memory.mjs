// Writes a quantized checkpoint of 160 MB as a plain one of 320 MB; prints by how many bytes the process grew at most.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { convert, saveCheckpoint } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [folder] = process.argv.slice(2);
const [rows, columns] = [4096, 3000];
const codes = new Uint8Array(rows * columns).fill(0x38);
const scales = new Float32Array(32 * 24).fill(1);
const tensors = Array.from({ length: 13 }, (_, i) => [
  [`${i}.weight`, { dtype: 'F8_E4M3', shape: [rows, columns], data: codes }],
  [`${i}.weight_scale_inv`, { dtype: 'F32', shape: [32, 24], data: scales }],
]).flat();
const source = join(folder, 'source');
await saveCheckpoint(source, tensors, { maxShardSize: '50MB', durable: false });

globalThis.gc();
writeFileSync('/proc/self/clear_refs', '5');
const before = processStatus('VmRSS');
const options = { dequantize: 'BF16', maxShardSize: '100MB', durable: false };
const { dequantized, totalSize } = await convert(source, join(folder, 'plain'), options);
if (dequantized.length !== 13 || totalSize !== 13 * 2 * rows * columns) throw new Error('others');
console.log(JSON.stringify(processStatus('VmHWM') - before));
