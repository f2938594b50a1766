/** Opens the same tensors with every kind of storage. */
import { type Checkpoint, parse, safeOpen } from '../support/api.js';
import { type Entry, type FileOptions, fileBytes, writeTemporary } from '../support/make-file.js';

/** Opens a file with these tensors. */
export type Opener = (entries: readonly Entry[], options?: FileOptions) => Checkpoint;

/** One opener for every kind of storage, by its name. */
export const openers: readonly (readonly [string, Opener])[] = [
  ['mmap', (...args) => safeOpen(writeTemporary(...args), { storage: 'mmap' })],
  ['read', (...args) => safeOpen(writeTemporary(...args), { storage: 'read' })],
  ['memory', (...args) => parse(fileBytes(...args))],
];
