/** The files of a source, to be hashed: those of this machine are read, others fetched. */

import { dirname, join } from 'node:path';
import { type Checkpoint, FormatError } from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';
import {
  type FileHashes,
  type HashedLayout,
  type HashOptions,
  hashFile,
  hashPieces,
} from '../../verification/hash-file.js';
import { legacyPlace } from '../../verification/legacy-place.js';
import { type HeaderFacts, headerFacts } from './header-text.js';
import { remotePieces } from './remote-pieces.js';

/** A file of safetensors. */
export interface HashableFile {
  /** As the index or the source names it. */
  readonly name: string;
  /** Null for a file that is somewhere else. */
  readonly path: string | null;
  readonly facts: HeaderFacts;
  /** Hashes it; with `isEach` every tensor, too. */
  hash(isEach: boolean, options: HashOptions): Promise<FileHashes>;
}

function hashedLayout(
  { tensors, metadata, dataStart }: HeaderFacts,
  headerText: string,
  isEach: boolean,
): HashedLayout {
  const ranges = tensors.map(({ name, offset, byteLength }) => {
    const begin = offset as number;
    return { name, begin, end: begin + byteLength };
  });
  const hasLegacy = metadata.has('sshs_legacy_hash');
  return {
    dataStart,
    legacyBegin: hasLegacy ? legacyPlace(headerText) : null,
    ranges: isEach ? ranges : [],
  };
}

/** Files of this machine, by their headers. */
export function localFiles(
  checkpoint: Pick<Checkpoint, 'path'>,
  headerTexts: ReadonlyMap<string, string>,
): HashableFile[] {
  return Array.from(headerTexts, ([name, text]) => {
    const path = join(dirname(checkpoint.path), name);
    const facts = headerFacts(name, text);
    return {
      ...{ name, path, facts },
      hash: (isEach, options) => hashFile(path, hashedLayout(facts, text, isEach), options),
    };
  });
}

/**
 * Files that are somewhere else. Their bytes are fetched by the names of their tensors.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for tensors that the index does not name
 */
export async function remoteFiles(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<HashableFile[]> {
  const { path } = checkpoint;
  const seen = new Set<string>();
  return Array.from(await checkpoint.headerTexts({ signal }), ([name, text]) => {
    const facts = headerFacts(name, text);
    for (const { name: tensor } of facts.tensors) {
      if (checkpoint.has(tensor) && !seen.has(tensor)) seen.add(tensor);
      else {
        const message = `expected the tensor of ${JSON.stringify(name)} in the index, and in no other file`;
        throw new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path, tensor });
      }
    }
    return {
      ...{ name, path: null, facts },
      hash: (isEach, options) => {
        const pieces = remotePieces(checkpoint, text, facts.tensors, options.signal);
        return hashPieces(pieces, hashedLayout(facts, text, isEach), options);
      },
    };
  });
}
