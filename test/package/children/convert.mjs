// Runs in a folder that has the package installed: opens a checkpoint of torch, and prints its contents as one line
// of JSON.
import { SafetensorsError } from 'safetensors-mmap';
import {
  openTorchCheckpoint,
  SafetensorsError as SameError,
  scanPickle,
} from 'safetensors-mmap/convert';

const [path] = process.argv.slice(2);
const { verdict } = scanPickle(path);
const { storage, size } = openTorchCheckpoint(path);
const isOneClass = SafetensorsError === SameError;
console.log(JSON.stringify({ verdict, storage, names: size, isOneClass }));
