/** Archives and tensors, which the pickle parsers of npm leave to their callers. */
import { readFile } from 'node:fs/promises';

/** The entries of a zip archive whose entries are all stored; no zip64. */
function storedEntries(file) {
  const entries = new Map();
  const end = file.lastIndexOf('PK\x05\x06');
  let at = file.readUInt32LE(end + 16); // of the central directory
  for (let count = file.readUInt16LE(end + 10); count > 0; count--) {
    const [size, header] = [24, 42].map((field) => file.readUInt32LE(at + field));
    const [name, extra, comment] = [28, 30, 32].map((field) => file.readUInt16LE(at + field));
    const begin = header + 30 + file.readUInt16LE(header + 26) + file.readUInt16LE(header + 28);
    entries.set(file.toString('utf8', at + 46, at + 46 + name), file.subarray(begin, begin + size));
    at += 46 + name + extra + comment;
  }
  return entries;
}

/** The pickle of a checkpoint, and its storages by their keys; all names begin with that of the archive. */
export async function torchEntries(path) {
  const entries = new Map();
  for (const [name, bytes] of storedEntries(await readFile(path))) {
    entries.set(name.replace(/^[^/]*\/(data\/)?/, ''), bytes);
  }
  return { pickle: entries.get('data.pkl'), storages: entries };
}

const ELEMENT_BYTES = { FloatStorage: 4, BFloat16Storage: 2, float8_e4m3fn: 1 };

export function rebuildTensor({ bytes, dtype }, offset, shape) {
  const width = ELEMENT_BYTES[dtype];
  const begin = offset * width;
  const byteLength = shape.reduce((product, dimension) => product * dimension, width);
  return { bytes: bytes.subarray(begin, begin + byteLength), dtype };
}

/** Of dtypes that are younger than typed storages. */
export function rebuildTyped({ bytes }, offset, shape, _stride, _requiresGrad, _hooks, dtype) {
  return rebuildTensor({ bytes, dtype }, offset, shape);
}

/** An array as numpy's pickles build it. */
export class NumpyArray {
  __setstate__([, , { name }, , bytes]) {
    this.bytes = bytes;
    this.dtype = name;
  }
}

export class NumpyDtype {
  constructor(name) {
    this.name = name;
  }

  /** The byte order and the fields of a structure, which do not matter here. */
  __setstate__() {}
}
