/** Writes a small `model.safetensors` to look at. */
import { saveFile } from 'safetensors-mmap';

const data = Float32Array.from({ length: 1000 * 16 }, (_, i) => Math.floor(i / 16) + (i % 16) / 16);
await saveFile('model.safetensors', {
  'embed.weight': { dtype: 'F32', shape: [1000, 16], data },
  'norm.weight': { dtype: 'F32', shape: [16], data: new Float32Array(16).fill(1) },
});
console.log('model.safetensors');
