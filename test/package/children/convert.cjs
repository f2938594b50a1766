// The same in the way a CommonJS module does.
const { SafetensorsError } = require('safetensors-mmap');
const convert = require('safetensors-mmap/convert');

const [path] = process.argv.slice(2);
const { verdict } = convert.scanPickle(path);
const { storage, size } = convert.openTorchCheckpoint(path);
const isOneClass = SafetensorsError === convert.SafetensorsError;
console.log(JSON.stringify({ verdict, storage, names: size, isOneClass }));
