/** Prints the milliseconds that importing the package takes. */
const begin = performance.now();
await import('safetensors-mmap');
console.log(performance.now() - begin);

export {};
