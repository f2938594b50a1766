/** Merges a LoRA adapter into a checkpoint of any size: node merge.js BASE ADAPTER TARGET [COMPONENT] */
import { mergeAdapters, safeOpen, saveCheckpoint } from 'safetensors-mmap';

const [base, source, target, component] = process.argv.slice(2);
// A view: weights are computed while they are written.
const merged = await mergeAdapters(safeOpen(base), [{ source, component }]);
for (const warning of merged.warnings) console.warn(warning);
const { files, totalSize } = await saveCheckpoint(target, merged, { maxShardSize: '5GB' });
console.log(`${merged.changes.length} weights merged`);
console.log(`${files.length} files, ${(totalSize / 1e6).toFixed(1)} MB`);
