// Prints the peak of private memory while an adapter is merged into 400 MB of weights. Argument: FOLDER
import { join } from 'node:path';
import {
  mergeAdapters,
  parse,
  safeOpen,
  saveCheckpoint,
  saveFile,
  serialize,
} from '../../../lib/index.js';
import { processStatus } from '../../support/process-memory.mjs';

const [folder] = process.argv.slice(2);
const [ROWS, COLUMNS, RANK] = [4096, 4096, 16];
const names = Array.from({ length: 12 }, (_, i) => `layers.${i}`);
const weight = { dtype: 'BF16', shape: [ROWS, COLUMNS] };
const data = () => new Uint16Array(ROWS * COLUMNS).fill(0x3c00);
const path = join(folder, 'base.safetensors');
await saveFile(path, new Map(names.map((name) => [`${name}.weight`, { ...weight, data }])));
const factors = names.flatMap((name) => [
  [
    `base_model.model.${name}.lora_A.weight`,
    { dtype: 'F32', shape: [RANK, COLUMNS], data: new Float32Array(RANK * COLUMNS).fill(0.01) },
  ],
  [
    `base_model.model.${name}.lora_B.weight`,
    { dtype: 'F32', shape: [ROWS, RANK], data: new Float32Array(ROWS * RANK).fill(0.02) },
  ],
]);
const source = parse(serialize(new Map(factors)));
const config = { peft_type: 'LORA', r: RANK, lora_alpha: RANK };
globalThis.gc();
let most = 0;
const look = () => {
  most = Math.max(most, processStatus('RssAnon'));
};
const merged = await mergeAdapters(safeOpen(path), [{ source, config }]);
await saveCheckpoint(join(folder, 'merged'), merged, { durable: false, onProgress: look });
look();
console.log(JSON.stringify(most));
