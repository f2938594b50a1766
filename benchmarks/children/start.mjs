/**
 * Processes that do little. Arguments: METHOD FILE. Prints 0; the ms that the import takes, by its clock;
 * or the first byte of the first tensor, while the clock of the parent runs.
 */
const [method, path] = process.argv.slice(2);

if (method === 'import') {
  const begin = performance.now();
  await import('safetensors-mmap');
  console.log(JSON.stringify({ elapsed: performance.now() - begin }));
} else if (method === 'nothing') {
  console.log(0);
} else {
  const { open, safeOpen } = await import('safetensors-mmap');
  for (const [, { bytes }] of method === 'torch' ? await open(path) : safeOpen(path)) {
    console.log(bytes[0]);
    break;
  }
}
