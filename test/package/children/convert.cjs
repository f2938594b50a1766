// The same in the way a CommonJS module does.
const { open, SafetensorsError, scanPickle } = require('safetensors-mmap');
const inspect = require('safetensors-mmap/inspect');

async function run() {
  const [path] = process.argv.slice(2);
  const { verdict } = await scanPickle(path);
  const { storage, size } = await open(path, { remote: false });
  const isOneClass = SafetensorsError === inspect.SafetensorsError;
  console.log(JSON.stringify({ verdict, storage, names: size, isOneClass }));
}
run();
