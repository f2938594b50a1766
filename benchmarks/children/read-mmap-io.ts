/**
 * Reads through one of the mmap-io packages, which map a whole file as one Buffer.
 * Arguments: those of `measureReader`, METHOD being the package.
 */
import { fstatSync, openSync } from 'node:fs';
import { requireRival } from '../rivals.js';
import { measureReader } from './measure-reader.js';
import { tensorPlacesOf } from './plain-header.js';

/** The part of their interface that is used here. */
interface MmapIo {
  readonly PROT_READ: number;
  readonly MAP_PRIVATE: number;
  map(size: number, protection: number, flags: number, fd: number): Buffer;
}

await measureReader((path, name) => {
  const mmap: MmapIo = requireRival(name);
  const fd = openSync(path, 'r');
  const file = mmap.map(fstatSync(fd).size, mmap.PROT_READ, mmap.MAP_PRIVATE, fd);
  return tensorPlacesOf(file).map(
    ({ begin, end }) =>
      () =>
        file.subarray(begin, end),
  );
});
