/** The metadata of a checkpoint that is written: the default of the option `metadata`. */

import { isIndexPath } from '../../file/shards/file-choice.js';
import { copiedMetadata } from '../../file/shards/metadata.js';
import { VIEW_OF } from '../../file/source/view.js';
import type { MetadataInput } from '../../header/header-writer.js';

/** Members of the library's handles. */
interface Handle {
  readonly path: string | undefined;
  readonly metadata: ReadonlyMap<string, string> | null;
}

/**
 * Returns the metadata to write: the given one, null for none; by default that of a checkpoint without what only holds
 * for its files.
 *
 * @param tensors the tensors of a call: of anything but a checkpoint there is no default
 * @throws FileClosedError when the checkpoint is closed
 */
export function metadataFor(
  tensors: unknown,
  given: MetadataInput | null | undefined,
): MetadataInput | null | undefined {
  if (given !== undefined || !isHandle(tensors)) return given;
  const { path = '', metadata } = tensors;
  return metadata && copiedMetadata(metadata, isIndexPath(path));
}

function isHandle(tensors: unknown): tensors is Handle {
  return typeof tensors === 'object' && tensors !== null && VIEW_OF in tensors;
}
