/** A checkpoint in place of tensors: what writers take from it besides these. */

import type { SafetensorsError } from '../../errors/errors.js';
import { fileMetadata, type SourceMetadata } from '../../file/shards/metadata.js';
import { VIEW_OF } from '../../file/source/view.js';
import type { MetadataInput } from '../../header/header-writer.js';
import { throwTogether } from '../selection/select.js';

/** Members of the library's handles. */
interface Handle {
  readonly path: string | undefined;
  readonly problems: readonly SafetensorsError[];
  sourceMetadata(): SourceMetadata;
}

/**
 * Returns the metadata for one file of all tensors: the given one, null for none; by default that of a checkpoint, of
 * its index and what its shards agree on, without hashes of its bytes.
 *
 * @param tensors the tensors of a call: of anything but a checkpoint there is no default
 * @throws The problem of a tensor of the checkpoint that cannot be read, which would be missing in the file;
 *   SelectionError for several
 * @throws FileClosedError when the checkpoint is closed; FormatError when a shard is bad
 */
export function metadataFor(
  tensors: unknown,
  given: MetadataInput | null | undefined,
): MetadataInput | null | undefined {
  if (!isHandle(tensors)) return given;
  throwTogether(tensors.problems, tensors.path);
  if (given !== undefined) return given;
  const { file } = fileMetadata(tensors.sourceMetadata(), (metadata) => metadata);
  return file !== null && file.size > 0 ? file : null;
}

/** Whether tensors are those of a checkpoint of this library. */
export function isHandle(tensors: unknown): tensors is Handle {
  return typeof tensors === 'object' && tensors !== null && VIEW_OF in tensors;
}
