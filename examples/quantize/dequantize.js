/** Writes a quantized checkpoint of any scheme (FP8, GPTQ, AWQ, bitsandbytes, MXFP4 …) as a plain one. */
import { parseArgs } from 'node:util';
import { convert } from 'safetensors-mmap';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { dtype: { type: 'string', default: 'BF16' } },
});
const [source, target] = positionals;
if (target === undefined) {
  console.error('usage: node dequantize.js SOURCE TARGET [--dtype BF16]');
  process.exit(2);
}
const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort(new Error('interrupted')));
try {
  const result = await convert(source, target, {
    dequantize: values.dtype,
    copyOtherFiles: true,
    signal: interrupted.signal,
  });
  console.log(`${result.dequantized.length} weights in ${values.dtype}`);
  for (const [name, count] of result.overflowed) console.log(`${name}: ${count} values too large`);
} catch (error) {
  console.error(`not written: ${error.message}`);
  process.exitCode = 1;
}
