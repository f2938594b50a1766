/** The tensors of a source. */

import type { OpenSource } from '../parts/open-sources.js';

export function Tensors({ source }: { source: OpenSource }) {
  return <p>{source.list.names.length}</p>;
}
