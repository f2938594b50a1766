/** What `extra()` of a distributed checkpoint returns. */

import type { PlainValue } from '../../../file/source/plain-value.js';
import type { FileContents } from '../../../header/file-contents.js';
import { elementCountOf } from '../../../header/tensor-spec.js';
import type { PiecesOfTensor } from './assemble.js';

/** The pieces of a file. */
export interface DescribedFile {
  readonly name: string;
  readonly byteLength: number;
  readonly contents: FileContents;
}

/** What is known besides files and pieces. */
export interface PartsInfo {
  readonly ranks: number;
  /** Null where the files do not record how many ranks there were. */
  readonly isComplete: true | null;
  /** Names of Python objects. */
  readonly objects: readonly string[];
}

/** The ranks in the names of `.distcp` files. */
export function countRanks(files: Iterable<string>): number {
  return new Set(Array.from(files, (name) => /^__(\d+)_/.exec(name)?.[1])).size;
}

/** Lists the ranks, all files, and the pieces of each tensor. */
export function describeParts(
  files: readonly DescribedFile[],
  tensors: readonly PiecesOfTensor[],
  { ranks, isComplete, objects }: PartsInfo,
): PlainValue {
  const inFiles = files.map(({ name, byteLength, contents }): [string, PlainValue] => {
    let parameters = 0;
    for (let entry = 0; entry < contents.size; entry++) {
      parameters += elementCountOf(contents.shape(entry));
    }
    const counts: [string, number][] = [
      ['pieces', contents.size],
      ['parameters', parameters],
      ['byteLength', byteLength],
    ];
    return [name, new Map<string, PlainValue>(counts)];
  });
  const pieces = tensors.map(({ name, pieces: own }): [string, PlainValue] => {
    return [name, [...own.keys()]];
  });
  return new Map<string, PlainValue>([
    ['ranks', ranks],
    ['isComplete', isComplete],
    ['objects', objects],
    ['files', new Map<string, PlainValue>(inFiles)],
    ['pieces', new Map<string, PlainValue>(pieces)],
  ]);
}
