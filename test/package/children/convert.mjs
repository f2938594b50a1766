// Runs in a folder that has the package installed: opens a PyTorch checkpoint, and prints its contents as one line
// of JSON.
import { open, SafetensorsError, scanPickle } from 'safetensors-mmap';
import { SafetensorsError as SameError } from 'safetensors-mmap/inspect';

const [path] = process.argv.slice(2);
const { verdict } = await scanPickle(path);
const { storage, size } = await open(path, { remote: false });
const isOneClass = SafetensorsError === SameError;
console.log(JSON.stringify({ verdict, storage, names: size, isOneClass }));
